// Computing a node of constants at compile time. Bits are those of the reference evaluator. Elements are copied where
// an op moves them, and shared where they stay (reshape, a slice of whole rows, a splat).
#pragma once

#include <cstdint>
#include <optional>

#include "engine/graph/graph.h"

namespace hone::passes {

struct FoldLimits {
  int64_t computed;        // elements of results that are computed
  int64_t moved;           // of results that are copies of elements (transpose, concatenate, slice)
  bool stand_ins = false;  // what moves elements of splats gives the first of them: Compilation::stand_ins
};

// What the node gives, where all that it reads is constant (iota reads nothing) and the limits allow it.
std::optional<graph::Constant> fold(const graph::Graph& graph, const graph::Node& node, const FoldLimits& limits);

}  // namespace hone::passes
