// bf16 and f16 against their definition, for every pattern there is.
#include "engine/base/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace hone {
namespace {

struct Format {
  const char* name;
  int fraction, bias;  // bits of the fraction; exponent of 1
  float (*widen)(uint16_t);
  uint16_t (*narrow)(float);
};
constexpr Format kFormats[] = {{"bf16", 7, 127, bf16_to_f32, f32_to_bf16}, {"f16", 10, 15, f16_to_f32, f32_to_f16}};

double meaning(const Format& f, uint32_t bits) {
  const int exponent = static_cast<int>(bits >> f.fraction & ((1U << (15 - f.fraction)) - 1));
  const double part = bits & ((1U << f.fraction) - 1), sign = bits >> 15 != 0 ? -1 : 1;
  if (exponent == 2 * f.bias + 1) return part == 0 ? sign * INFINITY : NAN;
  return sign * std::ldexp(part + (exponent == 0 ? 0 : std::ldexp(1, f.fraction)),
                           std::max(exponent, 1) - f.bias - f.fraction);
}

TEST(Half, WidensEveryPatternAndNarrowsItBack) {
  for (const Format& f : kFormats) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const auto half = static_cast<uint16_t>(bits);
      const double want = meaning(f, bits);
      const float got = f.widen(half);
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(got)) << f.name << " " << bits;
        ASSERT_TRUE(std::isnan(f.widen(f.narrow(got)))) << f.name << " " << bits;
        continue;
      }
      ASSERT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(static_cast<float>(want)))
          << f.name << " " << bits;
      ASSERT_EQ(f.narrow(got), half) << f.name << " " << bits;
    }
  }
}

// Between two neighbours: to the nearer, at the middle to the one whose last bit is 0. Infinity is the neighbour of the
// largest number, at the distance of the step before.
TEST(Half, NarrowsToNearestEven) {
  for (const Format& f : kFormats) {
    const auto last = static_cast<uint32_t>(f.narrow(std::numeric_limits<float>::infinity()));
    for (uint32_t bits = 0; bits < last; ++bits) {
      const double low = meaning(f, bits);
      const double high = bits + 1 < last ? meaning(f, bits + 1) : 2 * low - meaning(f, bits - 1);
      const auto middle = static_cast<float>((low + high) / 2);
      if (static_cast<double>(middle) != (low + high) / 2) continue;  // bf16 denormals: no f32 lies between
      const uint32_t even = bits % 2 == 0 ? bits : bits + 1;
      ASSERT_EQ(f.narrow(middle), even) << f.name << " " << bits;
      ASSERT_EQ(f.narrow(-middle), even | 0x8000) << f.name << " " << bits;
      ASSERT_EQ(f.narrow(std::nextafterf(middle, 0)), bits) << f.name << " " << bits;
      ASSERT_EQ(f.narrow(std::nextafterf(middle, INFINITY)), bits + 1) << f.name << " " << bits;
    }
  }
}

}  // namespace
}  // namespace hone
