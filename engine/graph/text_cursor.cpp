#include <algorithm>
#include <cctype>
#include <charconv>

#include "engine/base/printable.h"
#include "engine/graph/text_cursor_internal.h"
#include "engine/graph/text_internal.h"

namespace hone::graph {

namespace {

constexpr size_t kMaxName = 1000;
constexpr size_t kMaxMessage = 2000;  // types with long sums of symbols are long

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

void TextCursor::skip() {
  while (!done()) {
    if (text_.substr(at_).starts_with("//")) {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r') {
      line_ += text_[at_] == '\n';
      ++at_;
    } else {
      return;
    }
  }
}

Status TextCursor::wrong_at(size_t at, std::string_view what) const {
  const std::string_view before = text_.substr(0, at);
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  return invalid_argument(
      fmt::format("line {}, column {}: {}", line, at - line_start + 1, what.substr(0, kMaxMessage)));
}

Status TextCursor::expected(std::string_view what) const {
  if (done()) return wrong(fmt::format("expected {}, found the end of the text", what));
  size_t length = 0;
  while (at_ + length < text_.size() && is_word(text_[at_ + length])) ++length;
  return wrong(
      fmt::format("expected {}, found '{}'", what, printable(text_.substr(at_, std::max<size_t>(length, 1)), 40)));
}

bool TextCursor::accept(char c) {
  if (peek() != c || done()) return false;
  ++at_;
  skip();
  return true;
}

bool TextCursor::accept(std::string_view word) {
  const std::string_view rest = text_.substr(at_);
  if (!rest.starts_with(word) || (rest.size() > word.size() && is_word(rest[word.size()]))) return false;
  at_ += word.size();
  skip();
  return true;
}

Status TextCursor::expect(char c) {
  if (accept(c)) return {};
  return expected(fmt::format("'{}'", c));
}

Status TextCursor::expect(std::string_view word) {
  if (accept(word)) return {};
  return expected(fmt::format("'{}'", word));
}

Result<std::string> TextCursor::identifier(std::string_view what) {
  size_t length = 0;
  while (at_ + length < text_.size() && is_word(text_[at_ + length])) ++length;
  if (length == 0 || std::isdigit(static_cast<unsigned char>(peek()))) return expected(what);
  if (length > kMaxName) return wrong(fmt::format("{} is longer than {} characters", what, kMaxName));
  std::string word(text_.substr(at_, length));
  at_ += length;
  skip();
  return word;
}

Result<std::string> TextCursor::name(char sign, std::string_view what) {
  if (peek() != sign) return expected(fmt::format("'{}' and {}", sign, what));
  ++at_;
  if (peek() == '"') return quoted_text(what);
  size_t length = 0;
  while (at_ + length < text_.size() && is_bare(text_[at_ + length])) ++length;
  if (length == 0) return expected(what);
  if (length > kMaxName) return wrong(fmt::format("{} is longer than {} characters", what, kMaxName));
  std::string word(text_.substr(at_, length));
  at_ += length;
  skip();
  return word;
}

Result<std::string> TextCursor::quoted_text(std::string_view what) {
  const size_t begin = at_;
  if (peek() != '"') return expected(fmt::format("{} in quotes", what));
  std::string word;
  for (++at_; peek() != '"'; ++at_) {
    if (done() || peek() == '\n') return wrong_at(begin, fmt::format("{}: the closing quote is missing", what));
    if (word.size() >= kMaxName) return wrong_at(begin, fmt::format("{} is longer than {} characters", what, kMaxName));
    if (peek() != '\\') {
      word += peek();
      continue;
    }
    const std::string_view rest = text_.substr(at_ + 1);
    if (rest.starts_with("\"") || rest.starts_with("\\")) {
      word += rest[0];
      ++at_;
    } else if (rest.size() >= 3 && rest[0] == 'x' && hex_digit(rest[1]) >= 0 && hex_digit(rest[2]) >= 0) {
      word += static_cast<char>(hex_digit(rest[1]) * 16 + hex_digit(rest[2]));
      at_ += 3;
    } else {
      return wrong("after \\ there must be \", \\ or x and two hexadecimal digits");
    }
  }
  ++at_;
  skip();
  return word;
}

Result<int64_t> TextCursor::integer(std::string_view what) {
  int64_t v = 0;
  const std::string_view rest = text_.substr(at_);
  const std::from_chars_result end = std::from_chars(rest.data(), rest.data() + rest.size(), v);
  if (end.ec == std::errc::result_out_of_range) return wrong(fmt::format("{} does not fit into 64 bits", what));
  if (end.ec != std::errc()) return expected(what);
  at_ += static_cast<size_t>(end.ptr - rest.data());
  skip();
  return v;
}

std::string_view TextCursor::number_word() {
  size_t length = 0;
  while (at_ + length < text_.size() &&
         (is_word(text_[at_ + length]) || std::string_view("+-.").find(text_[at_ + length]) != std::string_view::npos))
    ++length;
  const std::string_view word = text_.substr(at_, length);
  at_ += length;
  skip();
  return word;
}

std::string_view TextCursor::until(std::string_view stops) {
  const std::string_view rest = text_.substr(at_);
  const size_t length = std::min({rest.find_first_of(stops), rest.find_first_of("\r\n"), rest.find("//"), rest.size()});
  at_ += length;
  skip();
  return rest.substr(0, length);
}

}  // namespace hone::graph
