// Machine code in tests: bytes that an assembler made when the test was written, with the assembly beside them.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string_view>
#include <vector>

namespace hone::jit {

// From hexadecimal digits; everything else in the text is ignored, so a line can be "62 f1 7c 48 10 02".
inline std::vector<std::byte> from_hex(std::initializer_list<std::string_view> lines) {
  std::vector<std::byte> bytes;
  int digits = 0, value = 0;
  for (std::string_view line : lines)
    for (char c : line) {
      const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
      if (digit < 0) continue;
      value = value * 16 + digit;
      if (++digits % 2 == 0) bytes.push_back(static_cast<std::byte>(value & 0xff));
    }
  return bytes;
}

}  // namespace hone::jit
