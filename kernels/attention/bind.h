// From a problem, a program and one sequence to the arguments of the lowered kernels.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/attention/operands.h"
#include "kernels/attention/program.h"

namespace hone::attention {

struct Arguments {
  std::array<void*, 8> buffers{};
  std::array<int64_t, 16> params{};
};

// Elements of the partial states of one sequence that kSplit's two kernels share (0 for other algorithms); of a length
// up to that of the problem.
int64_t partial_elements(const AttentionProblem& problem, const AttentionProgram& program);

// Arguments of kernel `index` (in the order of lower()). `partials`: partial_elements() floats, 64-byte aligned, or
// null.
Arguments bind(const AttentionProblem& problem, const AttentionProgram& program, const Sequence& sequence, int index,
               float* partials);

// Whether kernel `index` has longer tasks the later they come, so that they should be started first: later rows of a
// causal sequence see more keys.
inline bool later_tasks_are_longer(const AttentionProblem& problem, int index) {
  return problem.causal && problem.q > 1 && index == 0;
}

}  // namespace hone::attention
