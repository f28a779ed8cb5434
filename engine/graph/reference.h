// The eager reference: every op one after the other, each as its definition in ops.h reads, naive and obvious. What a
// compiled plan is judged by: equal bits where the plan keeps the numerics classes of ops.h.
#pragma once

#include "engine/graph/tensor.h"

namespace hone::graph {

// What a graph keeps between calls.
struct ReferenceState {
  int64_t position = 0;
  std::map<std::string, Tensor, std::less<>> states;  // by name; made at the first call
};

// One call. Inputs in the order of graph.inputs(); their shapes give the symbols values. `state` may be null for a
// graph without position. Errors, with `state` as before: invalid_argument naming input, dimension, value and rule;
// what an op says (an index out of range names it).
Result<std::vector<Tensor>> evaluate(const Graph& graph, std::span<const Tensor> inputs, ReferenceState* state);

// The values of symbols that these shapes give. Error: invalid_argument naming the input, the dimension, its value and
// the rule: "input x, dimension 1 is 2047 and must be 2048".
Result<Bindings> bind_symbols(const Graph& graph, std::span<const std::vector<int64_t>> shapes, int64_t position);

}  // namespace hone::graph
