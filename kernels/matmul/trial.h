// Random problems and programs of matmul, and what kernels/op/trial.h asks of an op.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "kernels/matmul/program.h"
#include "kernels/op/types.h"

namespace hone::matmul {

struct ProblemLimits {
  int64_t max_m, max_n, max_k;
};
// Any layout, row strides, batch (with shared operands), alpha, beta and epilogue chain; sizes favour the edges of
// tiles.
MatmulProblem random_problem(uint64_t seed, const ProblemLimits& limits);

// A legal program for the problem, small blocks, any knob. `isa`: one of them, else any. `small`: mostly tiles of few
// rows, which compile in a few milliseconds; else those that fill the registers.
// `allowed`: features that its code may need beyond those of the ISA.
TransformProgram random_program(const MatmulProblem& problem, uint64_t seed, std::optional<Isa> isa = {},
                                bool small = false, FeatureSet allowed = {});

struct Trials {
  static MatmulProblem random_problem(uint64_t seed);
  static std::optional<TransformProgram> random_program(const MatmulProblem& problem, uint64_t seed, Isa isa);
  static std::unique_ptr<op::Trial> make(const MatmulProblem& problem, const TransformProgram& program, uint64_t seed);
};

}  // namespace hone::matmul
