// What vcvtne2ps2bf16 and vdpbf16ps of AVX512_BF16 compute, lane by lane, on any CPU and whatever its MXCSR says of
// denormals: the meaning of the ops Pairs and DotPairs (ir.h).
//
// Both instructions take denormal operands for zeros. Results: bf16 has the exponents of f32, so that rounding to it
// makes no denormal; a sum that is one is flushed to zero, and so is the sum in between. As everywhere on x86 that is
// judged after rounding: a sum that would round to 2^-126 if exponents had no end is kept, one that becomes 2^-126 only
// because denormals have fewer bits is not.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#define HONE_PAIRS_INLINE __attribute__((always_inline)) inline

namespace hone::ir {

// Denormals are zeros of their sign.
HONE_PAIRS_INLINE uint32_t without_denormals(uint32_t bits) {
  return (bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits;
}

// The bf16 nearest to the f32 `bits`, ties to even; a NaN keeps its upper bits and becomes quiet.
HONE_PAIRS_INLINE uint16_t round_to_bf16(uint32_t bits) {
  bits = without_denormals(bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

HONE_PAIRS_INLINE uint32_t bf16_pair(uint16_t low, uint16_t high) { return static_cast<uint32_t>(high) << 16 | low; }

// a * b + c with one rounding, where a and b are bf16 and none of the three is denormal, flushed. For results near the
// smallest normal number: f64 has the exact product, and the sum rounded to odd, which rounds to f32 as the exact one
// does. No f64 here is denormal (none is below 2^-300).
inline float small_flushed_fma(float a, float b, float c) {
  constexpr double kRoundsToNormal = 0x1p-126 - 0x1p-151;  // and what is less does not; ties to even do
  const double product = static_cast<double>(a) * b, sum = product + c;
  const double part = sum - product, error = (product - (sum - part)) + (c - part);
  uint64_t odd = std::bit_cast<uint64_t>(sum);
  if (error != 0 && (odd & 1) == 0) odd += (error > 0) == (sum > 0) ? 1 : ~uint64_t{0};
  const double exact = std::bit_cast<double>(odd);
  if (std::fabs(exact) < kRoundsToNormal) return std::bit_cast<float>(static_cast<uint32_t>(odd >> 32) & 0x80000000u);
  return static_cast<float>(exact);
}

// Bits of 2^-125: beyond it, and for NaN, MXCSR makes no difference.
constexpr uint32_t kNearDenormals = 0x01000000;

HONE_PAIRS_INLINE float flushed_fma(uint32_t a, uint32_t b, float c) {
  const float x = std::bit_cast<float>(without_denormals(a)), y = std::bit_cast<float>(without_denormals(b));
  const float z = std::bit_cast<float>(without_denormals(std::bit_cast<uint32_t>(c)));
  const float sum = __builtin_fmaf(x, y, z);
  return (std::bit_cast<uint32_t>(sum) & 0x7fffffffu) <= kNearDenormals ? small_flushed_fma(x, y, z) : sum;
}

// a.low * b.low + (a.high * b.high + c)
HONE_PAIRS_INLINE float dot_bf16_pairs(uint32_t a, uint32_t b, float c) {
  return flushed_fma(a << 16, b << 16, flushed_fma(a & 0xffff0000u, b & 0xffff0000u, c));
}

#undef HONE_PAIRS_INLINE

}  // namespace hone::ir
