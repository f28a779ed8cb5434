// From the public description of a matmul to the problem that kernels are made for.
#pragma once

#include "hone/engine.hpp"
#include "kernels/matmul/problem.h"

namespace hone {

// With m = 0, validated. Error: invalid_argument naming the field.
Result<matmul::MatmulProblem> problem_of(const MatmulSpec& spec);

}  // namespace hone
