#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "engine/graph/infer.h"
#include "engine/passes/rewrite_internal.h"

namespace hone::passes {

using graph::Attributes;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::OpKind;
using graph::TensorType;
using graph::ValueId;

ValueId Rewriter::add(OpKind op, std::vector<ValueId> operands, Attributes attributes, std::string name) {
  std::vector<TensorType> types;
  for (const ValueId v : operands) types.push_back(g.value(v).type);
  const graph::Dim position = g.position.empty() ? graph::Dim::unknown() : graph::Dim::symbol(g.position);
  auto results = graph::infer_types({op, types, attributes, nullptr, position});
  if (!results.ok()) {
    if (status_.ok())
      status_ = internal_error(fmt::format("pass {} builds what is no node: {}", pass_, results.status().message()));
    return operands.empty() ? 0 : operands[0];
  }
  return g.result(
      g.add_node(op, std::move(operands), std::move(attributes), *std::move(results), std::move(name), before_));
}

ValueId Rewriter::add_typed(OpKind op, std::vector<ValueId> operands, Attributes attributes, TensorType type,
                            std::string name) {
  return g.result(
      g.add_node(op, std::move(operands), std::move(attributes), {std::move(type)}, std::move(name), before_));
}

ValueId Rewriter::constant(graph::Constant constant, std::string name) {
  return g.result(g.add_constant(std::move(constant), std::move(name), before_));
}

ValueId Rewriter::reshape(ValueId x, graph::Shape dims) {
  if (type(x).dims == dims) return x;
  TensorType to{type(x).dtype, std::move(dims)};
  return add_typed(OpKind::reshape, {x}, {}, std::move(to));
}

ValueId Rewriter::transpose(ValueId x, std::vector<int64_t> perm) {
  std::vector<int64_t> same(perm.size());
  std::iota(same.begin(), same.end(), 0);
  return perm == same ? x : add(OpKind::transpose, {x}, {{"perm", std::move(perm)}});
}

void Rewriter::replace(NodeId old, ValueId by, ValueId heir) {
  const std::string name = g.node(old).name;
  const int line = g.node(old).line;
  auto schedule = g.node(old).schedule;
  g.replace_uses(g.result(old), by);
  if (old == before_) {  // what is added next goes where it stood
    const auto at = std::find(g.order().begin(), g.order().end(), old) + 1;
    before_ = at == g.order().end() ? -1 : *at;
  }
  g.erase(old);
  if (heir < 0 || g.definition(heir) == nullptr) return;
  Node& n = g.node(g.value(heir).node);
  if (n.line == 0) n.line = line;
  if (!n.schedule) n.schedule = std::move(schedule);
  g.rename(n.id, name);
}

void Rewriter::note(const std::string& node, std::string what, std::string why) {
  c_.notes.push_back({pass_, node, std::move(what), std::move(why)});
}

bool Rewriter::noted(const std::string& node, std::string_view what) const {
  return std::any_of(c_.notes.begin(), c_.notes.end(),
                     [&](const Note& n) { return n.pass == pass_ && n.node == node && n.what == what; });
}

bool used_once(const Graph& graph, ValueId value) {
  return graph.value(value).uses.size() == 1 && !graph.is_output(value);
}

const Node* sole_user(const Graph& graph, ValueId value) {
  return used_once(graph, value) ? &graph.node(graph.value(value).uses[0].node) : nullptr;
}

std::string saved_traffic(const TensorType& type, int launches) {
  const std::string bytes = type.is_static() ? fmt::format(" ({} bytes)", 2 * type.bytes()) : "";
  return fmt::format("saves {} launch{}, and a store and a load of {}{}", launches, launches == 1 ? "" : "es",
                     to_string(type), bytes);
}

}  // namespace hone::passes
