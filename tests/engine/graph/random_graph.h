// Graphs that nobody would write: ops with operands and attributes drawn at random, kept where the rules allow them.
#pragma once

#include "engine/base/random.h"
#include "engine/graph/graph.h"

namespace hone::graph {

// Verified. `executable`: no dimension is unknown, so that it can be evaluated.
Graph random_graph(Random& random, int nodes, bool executable);

}  // namespace hone::graph
