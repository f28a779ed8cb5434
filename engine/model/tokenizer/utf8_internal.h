// Where characters begin and end in bytes that may be anything. What is well-formed is Unicode's table 3-7: no
// surrogates, nothing above U+10FFFF, no longer spelling than needed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hone::model {

inline constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD
inline constexpr std::string_view kPieceSpace = "\xe2\x96\x81";   // U+2581, a space in SentencePiece's texts

struct Character {
  size_t length = 1;  // of the character, or of the longest start of one that is here (at least 1 byte)
  bool valid = false;
  bool cut = false;  // not valid, but some continuation of the text would make it so
};

// The first character of a text that is not empty.
Character first_character(std::string_view text);
// Bytes from the start that are whole characters.
size_t valid_prefix(std::string_view text);
// Takes what can be told from `held` and gives it as UTF-8, where each maximal part of no character is U+FFFD. A start
// of a character at the end stays in `held`, unless `all`.
std::string take_utf8(std::string& held, bool all);

}  // namespace hone::model
