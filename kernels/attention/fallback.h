// The precompiled attention: what runs when executable memory is refused, or when no code generator can target this
// CPU.
//
// Plain C++, any problem, the bits of two classes. Vectorised by the compiler over keys and columns for AVX2 and FMA;
// on older CPUs std::fma is a library call, which is slow but gives the same bits.
#pragma once

#include <cstdint>

#include "kernels/attention/operands.h"
#include "kernels/attention/problem.h"

namespace hone::attention {

enum class FallbackClass : uint8_t {
  kOnline,   // online(kDefaultKeyBlock)
  kOrdered,  // ordered
};

// Parts of a sequence, each some rows of one query head; they share no output and may run at the same time.
int64_t fallback_parts(const AttentionProblem& problem, const Sequence& sequence);

// Parts [begin, end). The problem and sequence must have passed validate() and check_sequence(). Allocates nothing.
void fallback_attention(const AttentionProblem& problem, const Sequence& sequence, FallbackClass numerics,
                        int64_t begin, int64_t end);

}  // namespace hone::attention
