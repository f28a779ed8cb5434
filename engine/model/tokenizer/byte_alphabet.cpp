// See byte_alphabet_internal.h.
#include "engine/model/tokenizer/byte_alphabet_internal.h"

#include <array>

namespace hone::model {
namespace {

struct Alphabet {
  struct Letter {
    char text[2];
    uint8_t length;
  };
  std::array<Letter, 256> letters;
  std::array<int16_t, 0x144> bytes;  // by code point; -1: no letter

  Alphabet() {
    bytes.fill(-1);
    int next = 0x100;
    for (int b = 0; b < 256; ++b) {
      const bool prints = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
      const int point = prints ? b : next++;
      bytes[static_cast<size_t>(point)] = static_cast<int16_t>(b);
      letters[static_cast<size_t>(b)] =
          point < 0x80 ? Letter{{static_cast<char>(point), 0}, 1}
                       : Letter{{static_cast<char>(0xc0 | point >> 6), static_cast<char>(0x80 | (point & 0x3f))}, 2};
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet one;
  return one;
}

}  // namespace

std::string_view letter_of_byte(uint8_t byte) {
  const Alphabet::Letter& letter = alphabet().letters[byte];
  return {letter.text, letter.length};
}

void append_letters(std::string_view bytes, std::string& text) {
  for (const char c : bytes) text += letter_of_byte(static_cast<uint8_t>(c));
}

bool append_bytes_of(std::string_view text, std::string& bytes) {
  const Alphabet& table = alphabet();
  const size_t before = bytes.size();
  for (size_t i = 0; i < text.size();) {
    const auto first = static_cast<uint8_t>(text[i]);
    size_t point = first, length = 1;
    if (first >= 0xc2 && first <= 0xc5 && i + 1 < text.size() && (static_cast<uint8_t>(text[i + 1]) & 0xc0) == 0x80) {
      point = (first & 0x1fu) << 6 | (static_cast<uint8_t>(text[i + 1]) & 0x3fu);
      length = 2;
    } else if (first >= 0x80) {
      point = table.bytes.size();
    }
    if (point >= table.bytes.size() || table.bytes[point] < 0) {
      bytes.resize(before);
      return false;
    }
    bytes += static_cast<char>(table.bytes[point]);
    i += length;
  }
  return true;
}

}  // namespace hone::model
