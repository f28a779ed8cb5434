// Activations over an array in plain C++, for the precompiled kernel and for tests: the bits of ScalarOps, at vector
// speed where the CPU has AVX2 and FMA.
#pragma once

#include <cstdint>

#include "kernels/math/vector_math.h"

namespace hone::math {

// y[i] = activation(x[i]) for i in [0, n). y may equal x.
void activate_array(Activation activation, const float* x, float* y, int64_t n);

// Does this CPU (and its OS) run AVX2 and FMA? What activate_array and the precompiled kernel choose their version by.
bool cpu_has_avx2_fma();
// Makes cpu_has_avx2_fma() say no, so that tests reach the portable versions on any machine.
void pretend_no_avx2_for_testing(bool pretend);

}  // namespace hone::math
