// Builds graphs: each call adds one op, with its result type inferred. The first error is kept, later calls add nothing
// and return an id that is only good for passing on; finish() returns the error.
//
//   Builder b("layer");
//   b.symbol({.name = "s", .min = 1, .max = 4096});
//   b.position("p", 4096, Dim::symbol("s"));
//   const ValueId x = b.input("x", {DType::kF32, {Dim::symbol("s"), 2048}});
//   const ValueId h = b.rms_norm(x, b.constant(weights, "norm"), 1e-5);
//   b.output(h);
//   Result<Graph> graph = b.finish();                              verified
#pragma once

#include "engine/graph/graph.h"

namespace hone::graph {

struct AttentionOptions {
  bool causal = true;
  int64_t window = 0;
  double scale = 0;  // 0: 1 / sqrt(d)
  double softcap = 0;
};

class Builder {
 public:
  explicit Builder(std::string graph_name);

  void symbol(Symbol symbol);
  // The number of tokens so far: a symbol in 0 .. max, raised by `tokens` at the end of a call.
  void position(std::string name, int64_t max, Dim tokens);
  ValueId input(std::string name, TensorType type);
  ValueId state(std::string name, TensorType type);
  ValueId constant(Constant constant, std::string name = {});
  void output(ValueId value);

  // Any op; the name of its node, and of its first result. For ops with several results see Graph::result.
  ValueId add(OpKind op, std::vector<ValueId> operands, Attributes attributes = {}, std::string name = {});
  // Ops whose result type is not a function of operands and attributes: constant, iota, convert, broadcast, reshape.
  ValueId add_typed(OpKind op, std::vector<ValueId> operands, Attributes attributes, TensorType type,
                    std::string name = {});

  ValueId matmul(ValueId a, ValueId b, std::string name = {});  // b [n, k], as model files store weights
  ValueId attention(ValueId q, ValueId k, ValueId v, const AttentionOptions& options, std::string name = {});
  ValueId rms_norm(ValueId x, ValueId weight, double eps, std::string name = {});
  ValueId layer_norm(ValueId x, ValueId weight, ValueId bias, double eps, std::string name = {});
  ValueId rope(ValueId x, ValueId inv_freq, Dim offset, std::string style,
               std::string name = {});  // "half", "interleaved"
  ValueId softmax(ValueId x, double scale = 1, std::string name = {});
  ValueId swiglu(ValueId gate, ValueId up, std::string name = {});
  ValueId reshape(ValueId x, Shape shape, std::string name = {});
  ValueId gather(ValueId table, ValueId indices, std::string name = {});
  ValueId kv_append(ValueId state, ValueId rows, std::string name = {});
  // Values and indices along the last axis.
  std::pair<ValueId, ValueId> top_k(ValueId x, int64_t k, std::string name = {});
  ValueId experts(ValueId x, ValueId indices, ValueId weights, ValueId gate, ValueId up, ValueId down,
                  std::string name = {});

  const TensorType& type(ValueId value) const;
  // The graph so far, for what has no method here.
  Graph& graph() { return graph_; }

  Result<Graph> finish();

 private:
  void fail(Status status);
  ValueId add_node(OpKind op, std::vector<ValueId> operands, Attributes attributes, const TensorType* wanted,
                   std::string name);

  Graph graph_;
  std::vector<ValueId> outputs_;
  Status status_;
};

}  // namespace hone::graph
