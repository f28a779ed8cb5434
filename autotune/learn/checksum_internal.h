// FNV-1a, for names of feature sets and for stored models: against accidents, not against attackers.
#pragma once

#include <cstdint>
#include <string_view>

namespace hone::autotune {

inline constexpr uint64_t kFnvBasis = 0xcbf29ce484222325u;

constexpr uint64_t fnv1a(std::string_view text, uint64_t h = kFnvBasis) {
  for (char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h;
}

}  // namespace hone::autotune
