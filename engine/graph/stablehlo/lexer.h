// Words of MLIR text. Tokens are views of the text; white space and comments go.
#pragma once

#include <cstdint>
#include <string_view>

namespace hone::graph::stablehlo {

struct Token {
  enum class Kind : uint8_t {
    kEnd,
    kBare,         // stablehlo.add
    kPercent,      // text without %
    kAt,           // text without @ and quotes
    kCaret,        // text without ^
    kHash,         // text without #
    kExclamation,  // text without !
    kString,       // text without quotes, escapes as they stand
    kInteger,      // 12, 0x1F
    kFloat,        // 1.5e-3
    kArrow,        // ->
    kOpenFile,     // {-#
    kCloseFile,    // #-}
    kPunctuation,  // any other character
    kError,        // text: what is wrong
  };
  Kind kind = Kind::kEnd;
  std::string_view text;
  size_t begin = 0, end = 0;  // in the text, quotes and sigils included
  int line = 1;

  bool is(char c) const { return kind == Kind::kPunctuation && text[0] == c; }
  bool is_word(std::string_view word) const { return kind == Kind::kBare && text == word; }
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  Token next();
  std::string_view text() const { return text_; }
  size_t position() const { return position_; }
  // Goes on from there, forwards: after a part of the text that has a syntax of its own (shapes, literals).
  void skip_to(size_t position);
  int line() const { return line_; }

 private:
  char peek(size_t ahead = 0) const { return position_ + ahead < text_.size() ? text_[position_ + ahead] : '\0'; }
  void skip_blank();
  size_t name_end(size_t from, std::string_view more) const;
  Token make(Token::Kind kind, size_t begin, size_t text_begin, size_t text_end, size_t end);
  Token fail(std::string_view what);
  Token string(size_t begin, Token::Kind kind);
  Token number();

  std::string_view text_;
  size_t position_ = 0;
  int line_ = 1;
};

}  // namespace hone::graph::stablehlo
