// States on nodes which of their dimensions may be split over cores (specs of the schedule, compile lane). It reads no
// core count, and a hint that it refuses is nowhere in the graph afterwards, so that no export can carry it.
#pragma once

#include <span>
#include <string_view>

#include "engine/graph/ops.h"
#include "engine/passes/compilation.h"

namespace hone::passes {

// Names of the dimensions that an op may be split on; empty: none.
std::span<const std::string_view> splittable_dimensions(graph::OpKind op);

// Of each node, the first that there is: what an earlier run decided; the node's own hint; the graph's ambient hint;
// attention: batch and heads. A hint with one wrong dimension is refused as a whole and the node stays without.
// Diagnostics are notes.
Status schedule_annotation(Compilation& compilation);

}  // namespace hone::passes
