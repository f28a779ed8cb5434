// A place in the text of a graph: spaces and comments are skipped, and errors say where they are.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace hone::graph {

class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : text_(text) { skip(); }

  // Of the next character, from the beginning of the text.
  size_t at() const { return at_; }
  bool done() const { return at_ >= text_.size(); }
  char peek() const { return done() ? '\0' : text_[at_]; }
  int line() const { return line_; }

  bool accept(char c);
  bool accept(std::string_view word);  // a whole one
  Status expect(char c);
  Status expect(std::string_view word);

  Result<std::string> identifier(std::string_view what);       // letters, digits, _
  Result<std::string> name(char sign, std::string_view what);  // %bare or %"quoted"
  Result<std::string> quoted_text(std::string_view what);      // "..."
  Result<int64_t> integer(std::string_view what);
  // Characters of a number: letters, digits, '.', '+' and '-'. May be empty.
  std::string_view number_word();
  // Everything up to one of the characters or the end of the line.
  std::string_view until(std::string_view stops);

  // "line L, column C: WHAT", of the next character or of one before it.
  Status wrong(std::string_view what) const { return wrong_at(at_, what); }
  Status wrong_at(size_t at, std::string_view what) const;
  Status expected(std::string_view what) const;

 private:
  void skip();

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;  // only skip() steps over the end of one
};

}  // namespace hone::graph
