// Finds out what every dimension is. Afterwards no dimension of the graph is unknown: each is a number or a sum of
// symbols, and two dimensions that an op needs to be equal are written the same way wherever that can be had.
#pragma once

#include "engine/passes/compilation.h"

namespace hone::passes {

// Unknown dimensions become what the ops on them need; one of an input that nothing says more about becomes a symbol
// d0, d1, .. A declared symbol that must equal a number or another sum is replaced by it. Then guards are collected.
// Errors: invalid_argument naming value, dimension and both sizes where they contradict each other; naming the value
// where nothing says how long it is.
Status shape_inference(Compilation& compilation);

// What each call is checked for: bounds and multiples of symbols, the position after the call, rows of states, slices
// of dimensions that are no numbers; and `equal`, conditions that replacing could not meet. Replaces
// compilation.guards.
void collect_guards(Compilation& compilation, std::vector<Guard> equal = {});

}  // namespace hone::passes
