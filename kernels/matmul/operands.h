// The memory of one matmul call, and the check that it may be written.
#pragma once

#include <cstdint>

#include "engine/base/status.h"
#include "kernels/matmul/problem.h"

namespace hone::matmul {

// Element 0 of each operand; null where the problem has no use for it. gate and residual are laid out like C.
struct MatmulOperands {
  const float* a = nullptr;
  const void* b = nullptr;  // elements of the problem's dtype: nn or nt rows, or panels (b=packed)
  float* c = nullptr;
  const float* bias = nullptr;
  const float* gate = nullptr;
  const float* residual = nullptr;
  const float* row_scale = nullptr;  // [m]
};

// How B was packed, for b=packed: panel q holds columns [q*width, (q+1)*width). `kr` k-steps of a column lie side by
// side: with K = k rounded up to a multiple of kr, element (p, column c of the panel) is at
//   (q*K + p / kr * kr)*width + c*kr + p mod kr
// and columns from n on, and k-steps from k on, are zero.
struct PackedB {
  int64_t width = 0;
  int64_t batch_stride = 0;  // elements from one batch item's panels to the next; 0: shared
  int64_t kr = 1;            // 2: pairs, as dot(bf16) reads them (program.h)

  int64_t panels(int64_t n) const { return (n + width - 1) / width; }
  int64_t depth(int64_t k) const { return (k + kr - 1) / kr * kr; }
  int64_t elements(int64_t n, int64_t k) const { return panels(n) * width * depth(k); }
  int64_t index(int64_t k, int64_t p, int64_t column) const {
    return (column / width * depth(k) + p / kr * kr) * width + column % width * kr + p % kr;
  }
};

// Element `at` of B, as f32.
float element_b(DType dtype, const void* b, int64_t at);

// Refuses, by name, an operand that is needed but null, and a C whose memory (first to last element, as an interval)
// overlaps an operand that is read. `packed` is needed for b=packed only.
Status check_overlap(const MatmulProblem& problem, const MatmulOperands& operands, const PackedB& packed = {});

}  // namespace hone::matmul
