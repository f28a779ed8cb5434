// Kernels of random structure that use all of LoopIR: what code generators are tried on (jit/fuzz), where every kernel
// that an op lowers to uses the same few shapes of it.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/ir/ir.h"

namespace hone::ir {

struct RandomKernel {
  Kernel kernel;
  // Parameter values to run it with. verify() accepts about nine in ten kernels, for all values; the others use
  // parameters in a way that is right for these values only.
  std::vector<std::vector<int64_t>> runs;
};

// Equal seeds give equal kernels, on every machine. Vectors have at most max_lanes lanes. A bit pattern that may be
// unspecified (of a NaN) never becomes an integer, so two runs of a kernel differ at most in NaN payloads. `pairs`:
// with pairs of bf16 as well, for CPUs that have them (required_features).
RandomKernel random_kernel(uint64_t seed, int max_lanes = 16, bool pairs = false);

}  // namespace hone::ir
