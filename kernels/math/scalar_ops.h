// The Ops of vector_math.h on one float: the reference for every vector version, and the epilogue of the precompiled
// kernel.
//
// Everything is forced inline, so that a caller compiled for AVX2+FMA gets vfmadd and can be vectorised; elsewhere
// std::fma calls libm, slow but with the same bits. Sources that include this must be compiled with -ffp-contract=off.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/math/vector_math.h"

namespace hone::math {

struct ScalarOps {
  using V = float;
  [[gnu::always_inline]] static inline V constant(float v) { return v; }
  [[gnu::always_inline]] static inline V add(V a, V b) { return a + b; }
  [[gnu::always_inline]] static inline V sub(V a, V b) { return a - b; }
  [[gnu::always_inline]] static inline V mul(V a, V b) { return a * b; }
  [[gnu::always_inline]] static inline V div(V a, V b) { return a / b; }
  [[gnu::always_inline]] static inline V fma(V a, V b, V c) { return std::fma(a, b, c); }
  [[gnu::always_inline]] static inline V min(V a, V b) { return a < b ? a : b; }
  [[gnu::always_inline]] static inline V max(V a, V b) { return a > b ? a : b; }
  [[gnu::always_inline]] static inline V exponent(V a) {
    return std::bit_cast<float>(std::bit_cast<uint32_t>(a) << 23);
  }
  [[gnu::always_inline]] static inline V bits_as_number(V a) { return static_cast<float>(std::bit_cast<int32_t>(a)); }
};

inline float scalar_activation(Activation a, float x) {
  ScalarOps ops;
  return activate(ops, a, x);
}

}  // namespace hone::math
