#include "engine/graph/stablehlo/lexer.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstring>

namespace hone::graph::stablehlo {

namespace {

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

void Lexer::skip_to(size_t position) {
  line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(position_),
                                       text_.begin() + static_cast<std::ptrdiff_t>(position), '\n'));
  position_ = position;
}

void Lexer::skip_blank() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c == '\n') {
      ++line_;
      ++position_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++position_;
    } else if (c == '/' && peek(1) == '/') {
      const size_t end = text_.find('\n', position_);
      position_ = end == std::string_view::npos ? text_.size() : end;
    } else {
      return;
    }
  }
}

size_t Lexer::name_end(size_t from, std::string_view more) const {
  while (from < text_.size() &&
         (is_letter(text_[from]) || is_digit(text_[from]) || more.find(text_[from]) != more.npos))
    ++from;
  return from;
}

Token Lexer::make(Token::Kind kind, size_t begin, size_t text_begin, size_t text_end, size_t end) {
  position_ = end;
  return {
      .kind = kind, .text = text_.substr(text_begin, text_end - text_begin), .begin = begin, .end = end, .line = line_};
}

Token Lexer::fail(std::string_view what) {
  const size_t at = position_;
  position_ = text_.size();
  return {.kind = Token::Kind::kError, .text = what, .begin = at, .end = at, .line = line_};
}

Token Lexer::next() {
  skip_blank();
  const size_t begin = position_;
  if (begin >= text_.size()) return make(Token::Kind::kEnd, begin, begin, begin, begin);
  const char c = text_[begin];
  const auto sigil = [&](Token::Kind kind, std::string_view more) {
    const size_t end = name_end(begin + 1, more);
    if (end == begin + 1) return fail("a name is missing");
    return make(kind, begin, begin + 1, end, end);
  };
  if (is_letter(c)) {
    const size_t end = name_end(begin, "$.");
    return make(Token::Kind::kBare, begin, begin, end, end);
  }
  if (is_digit(c)) return number();
  if (c == '"') return string(begin, Token::Kind::kString);
  if (c == '%') return sigil(Token::Kind::kPercent, "$.-");
  if (c == '^') return sigil(Token::Kind::kCaret, "$.-");
  if (c == '!') return sigil(Token::Kind::kExclamation, "$.");
  if (c == '@' && peek(1) == '"') {
    ++position_;
    return string(begin, Token::Kind::kAt);
  }
  if (c == '@') return sigil(Token::Kind::kAt, "$.-");
  if (c == '#' && peek(1) == '-' && peek(2) == '}')
    return make(Token::Kind::kCloseFile, begin, begin, begin + 3, begin + 3);
  if (c == '#') return sigil(Token::Kind::kHash, "$.");
  if (c == '{' && peek(1) == '-' && peek(2) == '#')
    return make(Token::Kind::kOpenFile, begin, begin, begin + 3, begin + 3);
  if (c == '-' && peek(1) == '>') return make(Token::Kind::kArrow, begin, begin, begin + 2, begin + 2);
  if (c <= ' ' || c >= 0x7f) return fail("a character that no MLIR text has outside of strings");
  return make(Token::Kind::kPunctuation, begin, begin, begin + 1, begin + 1);
}

// Blobs of weights are strings: found by memchr, never looked at by character.
Token Lexer::string(size_t begin, Token::Kind kind) {
  const size_t first = position_ + 1;
  size_t at = first;
  for (;;) {
    const void* quote = at < text_.size() ? std::memchr(text_.data() + at, '"', text_.size() - at) : nullptr;
    if (quote == nullptr) return fail("a string is not closed");
    const size_t end = static_cast<size_t>(static_cast<const char*>(quote) - text_.data());
    // A quote after an odd number of backslashes is part of the string.
    size_t slashes = 0;
    while (end - slashes > first && text_[end - slashes - 1] == '\\') ++slashes;
    if (slashes % 2 == 1) {
      at = end + 1;
      continue;
    }
    if (std::memchr(text_.data() + first, '\n', end - first) != nullptr)
      return fail("a string is not closed in its line");
    return make(kind, begin, first, end, end + 1);
  }
}

Token Lexer::number() {
  const size_t begin = position_;
  size_t end = begin;
  if (peek() == '0' && peek(1) == 'x' && std::isxdigit(static_cast<unsigned char>(peek(2)))) {
    end += 2;
    while (end < text_.size() && std::isxdigit(static_cast<unsigned char>(text_[end]))) ++end;
    return make(Token::Kind::kInteger, begin, begin, end, end);
  }
  const auto digits = [&] {
    while (end < text_.size() && is_digit(text_[end])) ++end;
  };
  digits();
  bool is_float = false;
  if (end < text_.size() && text_[end] == '.') {
    is_float = true;
    ++end;
    digits();
  }
  size_t exponent = end;
  if (exponent < text_.size() && (text_[exponent] == 'e' || text_[exponent] == 'E')) {
    ++exponent;
    if (exponent < text_.size() && (text_[exponent] == '+' || text_[exponent] == '-')) ++exponent;
    if (exponent < text_.size() && is_digit(text_[exponent])) {
      is_float = true;
      end = exponent;
      digits();
    }
  }
  return make(is_float ? Token::Kind::kFloat : Token::Kind::kInteger, begin, begin, end, end);
}

}  // namespace hone::graph::stablehlo
