// Random texts of every kind of character, U+2581 left out: SentencePiece takes it for a space.
#pragma once

#include <string>

#include "engine/base/random.h"

namespace hone::model::testing {

inline void append_character(std::string& text, uint32_t point) {
  const auto byte = [&text](uint32_t value) { text += static_cast<char>(value); };
  if (point < 0x80) return byte(point);
  if (point < 0x800) {
    byte(0xc0 | point >> 6);
  } else if (point < 0x10000) {
    byte(0xe0 | point >> 12);
    byte(0x80 | (point >> 6 & 0x3f));
  } else {
    byte(0xf0 | point >> 18);
    byte(0x80 | (point >> 12 & 0x3f));
    byte(0x80 | (point >> 6 & 0x3f));
  }
  byte(0x80 | (point & 0x3f));
}

// Up to `most` characters of UTF-8.
inline std::string random_text(Random& random, int64_t most) {
  std::string text;
  for (int64_t n = random.below(most + 1); n > 0; --n) {
    uint32_t point = 0;
    switch (random.below(10)) {
      case 0:
        point = static_cast<uint32_t>(random.below(0x110000));
        break;
      case 1:
        point = static_cast<uint32_t>(random.below(0x3000));
        break;
      case 2:
        point = static_cast<uint32_t>(random.below(0x80));  // control characters as well
        break;
      case 3:
      case 4:
        point = ' ';
        break;
      default:
        point = static_cast<uint32_t>('a' + random.below(8));
    }
    if ((point >= 0xd800 && point < 0xe000) || point == 0x2581) point = 0x1f600;
    append_character(text, point);
  }
  return text;
}

inline std::string random_bytes(Random& random, int64_t most) {
  std::string text;
  for (int64_t n = random.below(most + 1); n > 0; --n) text += static_cast<char>(random.below(256));
  return text;
}

}  // namespace hone::model::testing
