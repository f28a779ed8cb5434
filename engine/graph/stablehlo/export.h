// A graph as StableHLO text, in pretty form.
#pragma once

#include <string>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace hone::graph::stablehlo {

struct ExportOptions {
  // Sizes for symbols; one without stays open (`?`), its sizes computed with get_dimension_size.
  Bindings sizes;
};

// One module with @main: the inputs, then the states, then the position (a scalar i32) are its arguments; the outputs,
// then the states as the call leaves them, then position + tokens are its results, each state and the position with
// tf.aliasing_output. Every op becomes primitive ones, so any consumer of StableHLO computes the same up to rounding;
// a graph of primitive ops comes back from import_stablehlo as it was.
//
// Keys and values of a cache are the whole state, and attention hides the rows beyond the position; query heads that
// share a head of K and V are a dimension of their own, so nothing repeats K or V. Schedule hints and layouts stand in
// the header (specs of the schedule), and the op of such a node carries its name as location.
//
// Errors, naming the node: unsupported for a cache that is anything but the keys or values of an attention, a size that
// depends on the position, an epilogue or index that StableHLO has no word for.
Result<std::string> export_stablehlo(const Graph& graph, const ExportOptions& options = {});

}  // namespace hone::graph::stablehlo
