// See lexer_internal.h.
#include "kernels/ir/lexer_internal.h"

#include <algorithm>

#include "kernels/ir/spelling_internal.h"

namespace hone::ir {
namespace {

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Value of a run of digits; false when it does not fit 64 bits.
bool number(std::string_view digits, unsigned base, uint64_t& value) {
  value = 0;
  for (char c : digits) {
    if (__builtin_mul_overflow(value, uint64_t{base}, &value)) return false;
    if (__builtin_add_overflow(value, static_cast<uint64_t>(hex_digit(c)), &value)) return false;
  }
  return !digits.empty();
}

}  // namespace

void Lexer::skip_space() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '\n') {
      ++at_, ++line_;
      line_start_ = at_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
    } else if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else {
      return;
    }
  }
}

Token Lexer::next() {
  skip_space();
  Token token;
  token.line = line_;
  token.column = static_cast<int>(at_ - line_start_) + 1;
  if (at_ == text_.size()) return token;
  const size_t start = at_;
  const char c = text_[at_];
  if (is_name_start(c)) {
    while (at_ < text_.size() && (is_name_start(text_[at_]) || is_digit(text_[at_]))) ++at_;
    token.kind = Token::Kind::kName;
  } else if (is_digit(c)) {
    const bool hex = text_.substr(at_, 2) == "0x";
    if (hex) at_ += 2;
    const size_t digits = at_;
    while (at_ < text_.size() && (hex ? hex_digit(text_[at_]) >= 0 : is_digit(text_[at_]))) ++at_;
    const bool fits = number(text_.substr(digits, at_ - digits), hex ? 16 : 10, token.value);
    token.kind = fits ? Token::Kind::kNumber : Token::Kind::kBad;
  } else {
    static constexpr std::string_view kDouble[] = {"..", "==", ">="};
    const std::string_view two = text_.substr(at_, 2);
    const bool is_double = std::find(std::begin(kDouble), std::end(kDouble), two) != std::end(kDouble);
    const bool is_single = std::string_view("{}[](),:=+-*/").find(c) != std::string_view::npos;
    at_ += is_double ? 2 : 1;
    token.kind = is_double || is_single ? Token::Kind::kPunct : Token::Kind::kBad;
  }
  token.text = text_.substr(start, at_ - start);
  return token;
}

std::string describe(const Token& token) {
  if (token.kind == Token::Kind::kEnd) return "the end of the text";
  std::string shown;
  for (char c : token.text.substr(0, 40)) {
    static constexpr char kDigits[] = "0123456789abcdef";
    const auto u = static_cast<unsigned char>(c);
    if (u >= 0x20 && u < 0x7f) {
      shown += c;
    } else {
      shown += {'\\', 'x', kDigits[u >> 4], kDigits[u & 15]};
    }
  }
  return "'" + shown + (token.text.size() > 40 ? "..." : "") + "'";
}

}  // namespace hone::ir
