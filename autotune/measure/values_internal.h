// Values of operands: uniform in [-1, 1), from a key, and the NaN that everything else is.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

namespace hone::autotune {

// splitmix64: two floats a step, fast enough to fill a 200 MB matrix in a tenth of a second, and it needs no state
// other than a counter, so that every value can be had again.
inline uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// In [-1, 1) with 23 random bits.
inline float unit(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-23f - 1.0f; }

inline void poison(std::span<float> values) {
  if (!values.empty()) std::memset(values.data(), 0xff, values.size_bytes());
}
inline constexpr uint32_t kPoison = 0xffffffffU;

inline void fill_row(std::span<float> row, uint64_t key) {
  size_t i = 0;
  for (; i + 1 < row.size(); i += 2) {
    const uint64_t bits = mix(key + i);
    row[i] = unit(static_cast<uint32_t>(bits));
    row[i + 1] = unit(static_cast<uint32_t>(bits >> 32));
  }
  if (i < row.size()) row[i] = unit(static_cast<uint32_t>(mix(key + i)));
}

}  // namespace hone::autotune
