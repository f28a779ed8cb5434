// Small kernels that together use every statement and operation of LoopIR, for tests of code generators.
#pragma once

#include <string>
#include <vector>

#include "tests/jit/differential.h"

namespace hone::jit {

// A buffer whose elements lie one behind the other.
ir::Buffer dense(std::string name, ir::Scope scope, std::vector<int64_t> extents, DType dtype = DType::kF32);

// Kernels on vectors of `lanes` (1, 4, 8 or 16).
std::vector<KernelCase> sample_kernels(int lanes);
// The same of pairs of bf16: 4, 8 or 16 lanes, on a CPU that has_pairs().
std::vector<KernelCase> pair_kernels(int lanes);

// out[mr, nr] = a[mr, k] * b[k, nr], the whole tile in registers: mr * nr / lanes accumulators, nr / lanes vectors of
// b, one broadcast of a. With `versions`, rows come as a parameter and the body is specialised for 1..mr.
struct TileShape {
  int mr, nr, k, lanes;
  int unroll = 1;
  bool packed_a = false;
  bool versions = false;
  bool one_b = false;
  bool pairs = false;  // a and b hold pairs of bf16, so that k counts pairs
};
ir::Kernel tile_kernel(const TileShape& shape);

// y[0] = x by vectors, y[1] = x by single elements, y[2] = x by broadcasts, x being `count` (a multiple of `lanes`)
// bf16 or f16.
ir::Kernel widening_kernel(DType dtype, int64_t count, int lanes);

}  // namespace hone::jit
