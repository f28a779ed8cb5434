// Random problems and programs of any op, and memory to try them on: what `hone fuzz` draws from. An op's part is
// struct Trials in its trial.h.
//
//   auto problem = random_problem("matmul", seed);
//   auto program = random_program(problem, seed, Isa::kAvx2);      legal
//   auto trial = make_trial(problem, *program, seed);              calls(), then compare() with the naive reference
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "kernels/op/op.h"

namespace hone::op {

// Of all ops, in the order of ops.inc.
std::vector<std::string_view> names();

// Small problems, at the edges of blocks and tiles; equal seeds give equal ones. Error: not_found listing the ops.
Result<Problem> random_problem(std::string_view op, uint64_t seed);
// A legal program, which may need features() beyond those of the ISA; none when chance finds none.
std::optional<Program> random_program(const Problem& problem, uint64_t seed, Isa isa);
// Error: invalid_argument for a program of another op, resource_exhausted when there is no memory for it.
Result<std::unique_ptr<Trial>> make_trial(const Problem& problem, const Program& program, uint64_t seed);

}  // namespace hone::op
