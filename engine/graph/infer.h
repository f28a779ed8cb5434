// Result types of ops, and with them every rule about the operands and attributes of an op: what the verifier, the
// builder and the importer all go by.
#pragma once

#include <span>
#include <vector>

#include "engine/graph/graph.h"

namespace hone::graph {

struct OpDescription {
  OpKind op;
  std::span<const TensorType> operands;
  const Attributes& attributes;
  // Of the result, for ops that do not say it otherwise (constant, iota, convert, broadcast, reshape); null where it is
  // to be found out.
  const TensorType* wanted = nullptr;
  Dim position;  // of the graph, for kv_append
};

// Dimensions that may be equal for all we know ("?" against 4, s against t) are taken as equal, and the surer one is in
// the result. Error: invalid_argument "op: what is wrong", naming operand, dimension, attribute and what is right.
Result<std::vector<TensorType>> infer_types(const OpDescription& description);

// Of a node as it stands.
Result<std::vector<TensorType>> infer_types(const Graph& graph, const Node& node);

}  // namespace hone::graph
