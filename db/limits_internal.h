// Ranges that hold for every record, whether a program writes it or a file brings it: what a store holds can be
// exported, and what was exported can be imported again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hone::db {

// 11 days: a kernel that takes so long was not measured.
inline constexpr int64_t kMaxNs = 1'000'000'000'000'000;

// 9999-12-31 23:59:59, the last second that a date of four digits can say.
inline constexpr int64_t kMaxUnixTime = 253'402'300'799;
inline constexpr bool is_unix_time(int64_t t) { return t >= 0 && t <= kMaxUnixTime; }

// A label is the machine as JSON: a few KiB, and three levels deep.
inline constexpr size_t kMaxLabel = size_t{64} << 10;
inline constexpr int kMaxLabelDepth = 16;

// How deep the brackets of a JSON text go; parsers that recurse fall over one that is very deep.
inline int json_depth(std::string_view text) {
  int depth = 0, deepest = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\')
      ++i;
    else if (text[i] == '"')
      quoted = !quoted;
    else if (!quoted && (text[i] == '[' || text[i] == '{'))
      deepest = std::max(deepest, ++depth);
    else if (!quoted && (text[i] == ']' || text[i] == '}'))
      --depth;
  }
  return deepest;
}

}  // namespace hone::db
