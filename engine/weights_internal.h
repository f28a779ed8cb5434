// Constant weights, packed once into the panels that the kernels of b=packed read.
#pragma once

#include <functional>

#include "engine/base/aligned_buffer.h"
#include "engine/state_internal.h"
#include "kernels/matmul/operands.h"
#include "kernels/matmul/problem.h"

namespace hone {

struct PackedWeights {
  AlignedBuffer memory;
  matmul::PackedB layout;
};

// `source` has b = nn or nt; `width` is the width of a panel. Errors: invalid_argument (null weights),
// resource_exhausted.
Result<PackedWeights> pack_weights(Engine::State& state, const matmul::MatmulProblem& source, const float* weights,
                                   int64_t width, Isa isa);
// The same where batch items are made when their turn comes: item(i) says where the rows of item i are until the next.
using WeightItem = std::function<const float*(int64_t item)>;
Result<PackedWeights> pack_weights(Engine::State& state, const matmul::MatmulProblem& source, const WeightItem& item_of,
                                   int64_t width, Isa isa);

}  // namespace hone
