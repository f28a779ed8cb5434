// The two 16-bit floats that weights are stored in, as bits. Both widen to f32 exactly; narrowing rounds to nearest,
// ties to even.
#pragma once

#include <bit>
#include <cstdint>

namespace hone {

constexpr float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

constexpr uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40);  // NaN stays one
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

constexpr float f16_to_f32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, rest = bits & 0x7fff;
  if (rest >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000u | (rest & 0x3ff) << 13);  // infinity, NaN
  if (rest >= 0x0400) return std::bit_cast<float>(sign | ((rest << 13) + (112u << 23)));
  // Denormal: a whole number of 2^-24.
  const float magnitude = static_cast<float>(rest) * 0x1p-24F;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

constexpr uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00);
  if (rest >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00);  // 65520 and more
  if (rest >= 0x38800000u) {
    const uint32_t rebased = rest - (112u << 23);
    return static_cast<uint16_t>(sign | (rebased + 0xfff + (rebased >> 13 & 1)) >> 13);
  }
  // Below 2^-14: adding 0.5 leaves the multiple of 2^-24 in the low bits, rounded as f32 additions are.
  const float shifted = std::bit_cast<float>(rest) + 0.5F;
  return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
}

}  // namespace hone
