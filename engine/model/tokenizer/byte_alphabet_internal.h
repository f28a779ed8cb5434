// GPT-2's alphabet: each byte as one printable character, so that any text is a text of such characters. Bytes that
// print are themselves (! .. ~, U+00A1 .. U+00AC, U+00AE .. U+00FF); the other 68 are U+0100, U+0101, .. in their
// order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hone::model {

std::string_view letter_of_byte(uint8_t byte);                    // as UTF-8
void append_letters(std::string_view bytes, std::string& text);   // bytes -> alphabet
bool append_bytes_of(std::string_view text, std::string& bytes);  // back; false, and nothing appended, for other text

}  // namespace hone::model
