#include "engine/graph/builder.h"

#include <fmt/format.h>

#include "engine/graph/infer.h"
#include "engine/graph/verify.h"

namespace hone::graph {

namespace {

Attributes of_attention(const AttentionOptions& options) {
  Attributes attributes{{"causal", options.causal}};
  if (options.window != 0) attributes["window"] = options.window;
  if (options.scale != 0) attributes["scale"] = options.scale;
  if (options.softcap != 0) attributes["softcap"] = options.softcap;
  return attributes;
}

}  // namespace

Builder::Builder(std::string graph_name) { graph_.name = std::move(graph_name); }

void Builder::fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

void Builder::symbol(Symbol symbol) { graph_.symbols.push_back(std::move(symbol)); }

void Builder::position(std::string name, int64_t max, Dim tokens) {
  if (!graph_.position.empty())
    return fail(invalid_argument(fmt::format("position: the graph has one already, '{}'", graph_.position)));
  graph_.symbols.push_back({.name = name, .min = 0, .max = max});
  graph_.position = std::move(name);
  graph_.tokens = std::move(tokens);
}

ValueId Builder::input(std::string name, TensorType type) { return graph_.add_input(std::move(name), std::move(type)); }

ValueId Builder::state(std::string name, TensorType type) { return graph_.add_state(std::move(name), std::move(type)); }

ValueId Builder::constant(Constant constant, std::string name) {
  return graph_.result(graph_.add_constant(std::move(constant), std::move(name)));
}

void Builder::output(ValueId value) {
  if (status_.ok()) outputs_.push_back(value);
}

const TensorType& Builder::type(ValueId value) const {
  static const TensorType kNone;
  return value < 0 || static_cast<size_t>(value) >= graph_.value_count() ? kNone : graph_.value(value).type;
}

ValueId Builder::add(OpKind op, std::vector<ValueId> operands, Attributes attributes, std::string name) {
  return add_node(op, std::move(operands), std::move(attributes), nullptr, std::move(name));
}

ValueId Builder::add_typed(OpKind op, std::vector<ValueId> operands, Attributes attributes, TensorType type,
                           std::string name) {
  return add_node(op, std::move(operands), std::move(attributes), &type, std::move(name));
}

ValueId Builder::add_node(OpKind op, std::vector<ValueId> operands, Attributes attributes, const TensorType* wanted,
                          std::string name) {
  if (!status_.ok()) return -1;
  const auto wrong = [&](std::string_view what) {
    fail(invalid_argument(name.empty() ? std::string(what) : fmt::format("{}: {}", name, what)));
    return -1;
  };
  std::vector<TensorType> types;
  for (const ValueId v : operands) {
    if (v < 0 || static_cast<size_t>(v) >= graph_.value_count())
      return wrong(fmt::format("{}: value {} is not of this graph", op_info(op).name, v));
    types.push_back(graph_.value(v).type);
  }
  const Dim position = graph_.position.empty() ? Dim::unknown() : Dim::symbol(graph_.position);
  Result<std::vector<TensorType>> results = infer_types({op, types, attributes, wanted, position});
  if (!results.ok()) return wrong(results.status().message());
  return graph_.result(
      graph_.add_node(op, std::move(operands), std::move(attributes), std::move(*results), std::move(name)));
}

ValueId Builder::matmul(ValueId a, ValueId b, std::string name) {
  return add(OpKind::matmul, {a, b}, {{"layout", std::string("nt")}}, std::move(name));
}

ValueId Builder::attention(ValueId q, ValueId k, ValueId v, const AttentionOptions& options, std::string name) {
  return add(OpKind::attention, {q, k, v}, of_attention(options), std::move(name));
}

ValueId Builder::rms_norm(ValueId x, ValueId weight, double eps, std::string name) {
  return add(OpKind::rms_norm, {x, weight}, {{"eps", eps}}, std::move(name));
}

ValueId Builder::layer_norm(ValueId x, ValueId weight, ValueId bias, double eps, std::string name) {
  return add(OpKind::layer_norm, {x, weight, bias}, {{"eps", eps}}, std::move(name));
}

ValueId Builder::rope(ValueId x, ValueId inv_freq, Dim offset, std::string style, std::string name) {
  return add(OpKind::rope, {x, inv_freq}, {{"style", std::move(style)}, {"offset", std::move(offset)}},
             std::move(name));
}

ValueId Builder::softmax(ValueId x, double scale, std::string name) {
  Attributes attributes;
  if (scale != 1) attributes["scale"] = scale;
  return add(OpKind::softmax, {x}, std::move(attributes), std::move(name));
}

ValueId Builder::swiglu(ValueId gate, ValueId up, std::string name) {
  return add(OpKind::swiglu, {gate, up}, {}, std::move(name));
}

ValueId Builder::reshape(ValueId x, Shape shape, std::string name) {
  return add_typed(OpKind::reshape, {x}, {}, {type(x).dtype, std::move(shape)}, std::move(name));
}

ValueId Builder::gather(ValueId table, ValueId indices, std::string name) {
  return add(OpKind::gather, {table, indices}, {}, std::move(name));
}

ValueId Builder::kv_append(ValueId state, ValueId rows, std::string name) {
  return add(OpKind::kv_append, {state, rows}, {}, std::move(name));
}

std::pair<ValueId, ValueId> Builder::top_k(ValueId x, int64_t k, std::string name) {
  const ValueId values = add(OpKind::top_k, {x}, {{"k", k}}, std::move(name));
  if (values < 0) return {values, values};
  return {values, graph_.result(graph_.value(values).node, 1)};
}

ValueId Builder::experts(ValueId x, ValueId indices, ValueId weights, ValueId gate, ValueId up, ValueId down,
                         std::string name) {
  return add(OpKind::experts, {x, indices, weights, gate, up, down}, {}, std::move(name));
}

Result<Graph> Builder::finish() {
  if (!status_.ok()) return status_;
  for (const ValueId v : outputs_)
    if (v < 0 || static_cast<size_t>(v) >= graph_.value_count())
      return invalid_argument(fmt::format("output: value {} is not of this graph", v));
  graph_.set_outputs(outputs_);
  HONE_RETURN_IF_ERROR(verify(graph_));
  return graph_;
}

}  // namespace hone::graph
