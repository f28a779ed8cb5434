// Constant weights, packed once into the panels that the kernels of b=packed read.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "engine/base/aligned_buffer.h"
#include "engine/state_internal.h"
#include "engine/weight_store.h"
#include "kernels/matmul/operands.h"
#include "kernels/matmul/problem.h"

namespace hone {

struct PackedWeights {
  std::span<const std::byte> bytes;   // elements of the problem's dtype
  std::shared_ptr<const void> owner;  // keeps them: a store, or memory of our own
  matmul::PackedB layout;
};

// `source` has b = nn or nt; `panels` says how they are to lie (its batch_stride does not count). Panels that the store
// of `weights` has are used where they lie, and `weights` is not looked at; else they are packed, and put there.
// Errors: invalid_argument (null weights), resource_exhausted.
Result<PackedWeights> pack_weights(Engine::State& state, const matmul::MatmulProblem& source,
                                   const WeightSource& weights, const matmul::PackedB& panels, Isa isa);
// The same where batch items are made when their turn comes: item(i) says where the rows of item i are until the next.
using WeightItem = std::function<const void*(int64_t item)>;
Result<PackedWeights> pack_weights(Engine::State& state, const matmul::MatmulProblem& source, const WeightItem& item_of,
                                   const matmul::PackedB& panels, Isa isa);

}  // namespace hone
