// StableHLO text to a graph.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace hone::graph::stablehlo {

// A name for a dimension that the text leaves open (`?`): the graph declares the symbol, and sizes that are computed
// from the dimension become sums of it. Without one the dimension is unknown until shape inference.
struct NamedDimension {
  std::string input;  // as the graph calls it: arg0
  int dimension = 0;
  Symbol symbol;
};

struct ImportOptions {
  std::string function = "main";
  std::vector<NamedDimension> dimensions;
  // What a reader should know and no error says: i64 that became s32, a hint that names no node.
  std::vector<std::string>* notes = nullptr;
};

// The function of the module as a graph, every call of other functions inlined, verified. Inputs are called as their
// argument (arg0) or as jax.arg_info or a location names it. An argument with tf.aliasing_output or jax.buffer_donor
// has Value::aliases_output. hone.schedule and hone.tensor_layouts of the module's header become Node::schedule and
// Graph::layouts as they stand; nobody has judged them.
//
// Numbers: f32; i32; i64, which becomes s32 (a constant that does not fit is an error); i1, which becomes u8.
//
// Errors, one line each: invalid_argument "line L[, column C]: ..."; unsupported "line L: ..." naming the op, type or
// attribute, and what is supported.
Result<Graph> import_stablehlo(std::string_view text, const ImportOptions& options = {});

}  // namespace hone::graph::stablehlo
