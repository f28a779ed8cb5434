// Tokens of LoopIR text, with positions for messages. Views into the text; nothing is copied.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hone::ir {

struct Token {
  enum class Kind : uint8_t { kName, kNumber, kPunct, kBad, kEnd };
  Kind kind = Kind::kEnd;
  std::string_view text;  // kPunct: one character, or "..", "==", ">="
  uint64_t value = 0;     // kNumber
  int line = 1;
  int column = 1;  // in bytes, from 1
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}
  // The next token. kBad: a character that begins no token, or a number beyond 64 bits.
  Token next();

 private:
  void skip_space();
  std::string_view text_;
  size_t at_ = 0;
  size_t line_start_ = 0;
  int line_ = 1;
};

// What a message calls the token: "'..'", "the end of the text".
std::string describe(const Token& token);

}  // namespace hone::ir
