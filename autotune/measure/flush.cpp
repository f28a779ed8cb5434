// See flush.h.
#include "autotune/measure/flush.h"

#include <cstdint>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#include <emmintrin.h>
#endif

namespace hone::autotune {
namespace {

constexpr uintptr_t kLine = 64;

#if defined(__x86_64__)

bool has_clflushopt() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & (1U << 23)) != 0;
}

__attribute__((target("clflushopt"))) void flush_opt(const std::byte* begin, const std::byte* end) {
  for (const std::byte* p = begin; p < end; p += kLine) __builtin_ia32_clflushopt(const_cast<std::byte*>(p));
}

void flush_plain(const std::byte* begin, const std::byte* end) {
  for (const std::byte* p = begin; p < end; p += kLine) _mm_clflush(p);
}

void flush_range(std::span<const std::byte> range) {
  static const bool opt = has_clflushopt();
  if (range.empty()) return;
  const auto address = reinterpret_cast<uintptr_t>(range.data());
  const std::byte* begin = range.data() - address % kLine;  // the line that holds the first byte
  const std::byte* end = range.data() + range.size();
  opt ? flush_opt(begin, end) : flush_plain(begin, end);
}

#endif

}  // namespace

void flush_caches(std::span<const std::span<const std::byte>> ranges) {
#if defined(__x86_64__)
  for (std::span<const std::byte> range : ranges) flush_range(range);
  _mm_mfence();
#else
  // No instruction for it: push everything out. 64 MiB exceeds the last-level share of one core on what we know.
  static std::vector<std::byte> walk(size_t{64} << 20);
  for (size_t i = 0; i < walk.size(); i += kLine) walk[i] = static_cast<std::byte>(static_cast<int>(walk[i]) + 1);
  (void)ranges;
#endif
}

}  // namespace hone::autotune
