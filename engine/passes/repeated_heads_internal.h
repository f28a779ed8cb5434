// Factors and copies that frameworks put on keys, values and queries before attention, which does without them.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/passes/rewrite_internal.h"

namespace hone::passes {

// The number that v is a multiple of, below transposes and reshapes; v becomes what is multiplied.
double take_scale(Rewriter& r, graph::ValueId& v);

// How many times each head along `axis` is repeated, one after the other (a broadcast behind the heads that a reshape
// merges with them); nothing where none is.
std::optional<int64_t> repeats_of(const graph::Graph& graph, graph::ValueId v, int axis);
// v with each of these heads once.
graph::ValueId without_repeats(Rewriter& r, graph::ValueId v, int axis);

}  // namespace hone::passes
