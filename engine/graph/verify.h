// Judges a graph: everything that passes, printers and evaluators rely on.
#pragma once

#include "engine/graph/graph.h"

namespace hone::graph {

// ids and uses agree, definitions precede uses, names are unique, symbols are declared with sane bounds, the
// position is one of them and of minimum 0, each state is the first operand of one kv_append and nothing else, every
// node's results are what infer_types says (a recorded dimension may be surer or less sure, not another), constants
// hold as many bytes as their type says. Error: invalid_argument naming node, op and rule.
Status verify(const Graph& graph);

}  // namespace hone::graph
