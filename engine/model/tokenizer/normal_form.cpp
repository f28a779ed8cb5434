// See normal_form_internal.h. utf8proc has the tables and composes; here is what keeps it out of nearly all of a text,
// and the order of marks: its own sort of them takes quadratic time, which a megabyte of marks would show.
#include "engine/model/tokenizer/normal_form_internal.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "engine/model/tokenizer/utf8_internal.h"

namespace hone::model {
namespace {

constexpr uint32_t kFirstMark = 0x300;  // all before it are in form C and combine with nothing before them

struct Range {
  uint32_t first, last;
};
// Of letters beyond, those of much text that are so too: Cyrillic, kana, ideographs, Hangul syllables. And the vowel
// before the first trailing consonant, which utf8proc up to 2.8 takes for one: it must not see it behind a syllable.
constexpr Range kSettled[] = {{0x400, 0x482},   {0x3041, 0x3096}, {0x30a1, 0x30fa},
                              {0x3400, 0x9fff}, {0xac00, 0xd7a3}, {0x11a7, 0x11a7}};

bool is_settled(uint32_t c) {
  return c < kFirstMark ||
         std::ranges::any_of(kSettled, [c](const Range& range) { return c >= range.first && c <= range.last; });
}

// Of a whole character.
uint32_t code_of(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[i])); };
  switch (text.size()) {
    case 1:
      return byte(0);
    case 2:
      return (byte(0) & 0x1f) << 6 | (byte(1) & 0x3f);
    case 3:
      return (byte(0) & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
    default:
      return (byte(0) & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f);
  }
}

int mark_class(utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; }

// Marks between two starters, by class; those of one class stay in their order.
void order_marks(std::vector<utf8proc_int32_t>& codes) {
  for (auto at = codes.begin(); at != codes.end();) {
    const auto first = std::find_if(at, codes.end(), [](utf8proc_int32_t c) { return mark_class(c) != 0; });
    at = std::find_if(first, codes.end(), [](utf8proc_int32_t c) { return mark_class(c) == 0; });
    std::stable_sort(first, at, [](utf8proc_int32_t a, utf8proc_int32_t b) { return mark_class(a) < mark_class(b); });
  }
}

// `text` is UTF-8.
void append_composed(std::string_view text, std::vector<utf8proc_int32_t>& codes, std::string& out) {
  codes.clear();
  for (size_t length; !text.empty(); text.remove_prefix(length)) {
    length = first_character(text).length;
    std::array<utf8proc_int32_t, 8> parts;  // form D of a character has four at most
    const auto count = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(code_of(text.substr(0, length))), parts.data(), std::ssize(parts),
        static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE), nullptr);
    for (utf8proc_ssize_t i = 0; i < std::min(count, std::ssize(parts)); ++i)
      codes.push_back(parts[static_cast<size_t>(i)]);
  }
  order_marks(codes);
  const auto count = utf8proc_normalize_utf32(codes.data(), std::ssize(codes),
                                              static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    std::array<utf8proc_uint8_t, 4> bytes;
    const auto size = utf8proc_encode_char(codes[static_cast<size_t>(i)], bytes.data());
    out.append(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(size));
  }
}

}  // namespace

bool surely_form_c(std::string_view text) {
  const auto below_marks = [](char c) { return static_cast<uint8_t>(c) < 0xcc; };  // U+0300 is CC 80
  while (text.size() >= sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, text.data(), sizeof word);
    if ((word & 0x8080808080808080u) != 0 && !std::all_of(text.begin(), text.begin() + sizeof word, below_marks))
      return false;
    text.remove_prefix(sizeof word);
  }
  return std::ranges::all_of(text, below_marks);
}

// A run begins at the character before one that may change or combine, and ends before the next that does neither.
void append_form_c(std::string_view text, std::string& out) {
  std::vector<utf8proc_int32_t> codes;
  size_t done = 0, last = 0;  // text[0, done) is out; `last`: where the character before `at` begins
  for (size_t at = 0; at < text.size();) {
    const Character c = first_character(text.substr(at));
    if (!c.valid || is_settled(code_of(text.substr(at, c.length)))) {
      last = at;
      at += c.length;
      continue;
    }
    const size_t begin = last < at && first_character(text.substr(last)).valid ? last : at;
    size_t end = at;
    while (end < text.size()) {
      const Character next = first_character(text.substr(end));
      if (!next.valid || (end > at && is_settled(code_of(text.substr(end, next.length))))) break;
      end += next.length;
    }
    out += text.substr(done, begin - done);
    append_composed(text.substr(begin, end - begin), codes, out);
    done = at = last = end;
  }
  out += text.substr(done);
}

}  // namespace hone::model
