// The precompiled matmul, and the packing of its weights: what runs when executable memory is refused, or when no code
// generator can target this CPU.
//
// Plain C++, any shape, the bits of class `ordered`. Vectorised by the compiler over columns for AVX2 and FMA; on older
// CPUs std::fma is a library call, which is slow but gives the same bits.
#pragma once

#include <cstdint>

#include "kernels/matmul/operands.h"
#include "kernels/matmul/problem.h"

namespace hone::matmul {

// Columns of C in one strip, the unit in which callers divide it among threads.
inline constexpr int64_t kFallbackColumns = 16;
int64_t fallback_strips(const MatmulProblem& problem);

// A part of the output. Parts that share no element may run at the same time.
struct FallbackRange {
  int64_t item = 0;  // batch item
  int64_t row_begin = 0, row_end = 0;
  int64_t strip_begin = 0, strip_end = 0;
};

// The problem and operands must have passed validate() and check_overlap(). Allocates nothing.
void fallback_matmul(const MatmulProblem& problem, const MatmulOperands& operands, const PackedB& packed,
                     const FallbackRange& range);

// All of it, on the calling thread.
void fallback_matmul(const MatmulProblem& problem, const MatmulOperands& operands, const PackedB& packed = {});

// Packs panels [panel_begin, panel_end) of one batch item of B, given as nn or nt rows (`source.b`), as `layout` says;
// `panels` is where panel 0 lies. Writes every element, what is beyond n and k as zeros. Weights of 16 bits, the only
// ones with kr = 2, are packed by this alone.
void fallback_pack_b(const MatmulProblem& source, const void* b, void* panels, const PackedB& layout,
                     int64_t panel_begin, int64_t panel_end);

}  // namespace hone::matmul
