// Random problems and programs of attention, and what kernels/op/trial.h asks of an op.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "kernels/attention/program.h"
#include "kernels/op/types.h"

namespace hone::attention {

struct ProblemLimits {
  int64_t max_q, max_kv, max_d;
};
// Any heads, head sizes, strides, layouts, pages, visibility, mask and options; sizes favour edges of blocks and tiles.
AttentionProblem random_problem(uint64_t seed, const ProblemLimits& limits);

// A legal program for the problem, small blocks and tiles, any knob; none when chance finds none. `small`: mostly tiles
// of few rows, which compile in milliseconds.
std::optional<AttentionProgram> random_program(const AttentionProblem& problem, uint64_t seed, Isa isa,
                                               bool small = false);

struct Trials {
  static AttentionProblem random_problem(uint64_t seed);
  static std::optional<AttentionProgram> random_program(const AttentionProblem& problem, uint64_t seed, Isa isa);
  static std::unique_ptr<op::Trial> make(const AttentionProblem& problem, const AttentionProgram& program,
                                         uint64_t seed);
};

}  // namespace hone::attention
