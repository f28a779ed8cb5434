// The epilogue of a matmul node: the text of a MatmulProblem's ("+bias+gelu_tanh*gate"), and which operands it reads.
#pragma once

#include <string_view>
#include <vector>

#include "kernels/matmul/problem.h"

namespace hone::graph {

// Error: invalid_argument "epilogue '+foo': ...".
Result<std::vector<matmul::EpilogueOp>> parse_epilogue(std::string_view text);

}  // namespace hone::graph
