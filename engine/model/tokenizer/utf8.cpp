// See utf8_internal.h.
#include "engine/model/tokenizer/utf8_internal.h"

#include <cstdint>
#include <cstring>

namespace hone::model {
namespace {

// What the second byte must be; the third and fourth are 80 .. BF.
struct Form {
  size_t length = 0;  // 0: starts no character
  uint8_t low = 0x80, high = 0xbf;
};

Form form_of(uint8_t first) {
  if (first < 0x80) return {.length = 1};
  if (first < 0xc2) return {};
  if (first < 0xe0) return {.length = 2};
  if (first == 0xe0) return {.length = 3, .low = 0xa0};
  if (first == 0xed) return {.length = 3, .high = 0x9f};
  if (first < 0xf0) return {.length = 3};
  if (first == 0xf0) return {.length = 4, .low = 0x90};
  if (first < 0xf4) return {.length = 4};
  if (first == 0xf4) return {.length = 4, .high = 0x8f};
  return {};
}

}  // namespace

Character first_character(std::string_view text) {
  const Form form = form_of(static_cast<uint8_t>(text[0]));
  if (form.length == 0) return {};
  for (size_t i = 1; i < form.length; ++i) {
    if (i == text.size()) return {.length = i, .cut = true};
    const auto byte = static_cast<uint8_t>(text[i]);
    const uint8_t low = i == 1 ? form.low : 0x80, high = i == 1 ? form.high : 0xbf;
    if (byte < low || byte > high) return {.length = i};
  }
  return {.length = form.length, .valid = true};
}

size_t valid_prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t word;
    if (at + sizeof word <= text.size()) {
      std::memcpy(&word, text.data() + at, sizeof word);
      if ((word & 0x8080808080808080u) == 0) {
        at += sizeof word;
        continue;
      }
    }
    const Character c = first_character(text.substr(at));
    if (!c.valid) break;
    at += c.length;
  }
  return at;
}

std::string take_utf8(std::string& held, bool all) {
  std::string out;
  std::string_view rest = held;
  while (!rest.empty()) {
    const size_t good = valid_prefix(rest);
    out += rest.substr(0, good);
    rest.remove_prefix(good);
    if (rest.empty()) break;
    const Character c = first_character(rest);
    if (c.cut && !all) break;
    out += kReplacement;
    rest.remove_prefix(c.length);
  }
  held = std::string(rest);
  return out;
}

}  // namespace hone::model
