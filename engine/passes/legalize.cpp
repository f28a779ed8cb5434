#include "engine/passes/legalize.h"

#include <fmt/format.h>

#include <algorithm>

namespace hone::passes {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::OpKind;
using graph::Shape;
using graph::ValueId;

using Axes = std::vector<int64_t>;

Axes axes_of(const Node& n, std::string_view attribute) {
  const auto axes = n.integers(attribute);
  return {axes.begin(), axes.end()};
}

// Those that are in neither list.
Axes others(int rank, const Axes& a, const Axes& b) {
  Axes rest;
  for (int64_t i = 0; i < rank; ++i)
    if (std::find(a.begin(), a.end(), i) == a.end() && std::find(b.begin(), b.end(), i) == b.end()) rest.push_back(i);
  return rest;
}

Dim product(const Shape& dims, const Axes& axes) {
  Dim all(1);
  for (const int64_t i : axes) all = all * dims[static_cast<size_t>(i)];
  return all;
}

Shape pick(const Shape& dims, const Axes& axes) {
  Shape picked;
  for (const int64_t i : axes) picked.push_back(dims[static_cast<size_t>(i)]);
  return picked;
}

class Legalizer {
 public:
  Legalizer(Graph& g, NodeId id) : g_(g), id_(id) {}

  Status run() {
    const Node& n = g_.node(id_);
    const Shape lhs = g_.value(n.operands[0]).type.dims, rhs = g_.value(n.operands[1]).type.dims;
    const Axes lb = axes_of(n, "lhs_batch"), rb = axes_of(n, "rhs_batch");
    const Axes lc = axes_of(n, "lhs_contract"), rc = axes_of(n, "rhs_contract");
    const Axes lf = others(static_cast<int>(lhs.size()), lb, lc), rf = others(static_cast<int>(rhs.size()), rb, rc);
    const Dim m = product(lhs, lf), k = product(lhs, lc), columns = product(rhs, rf);
    if (m.is_unknown() || k.is_unknown() || columns.is_unknown())
      return unsupported(fmt::format("dot_general {}: dimensions that become one are a product of symbols", n.name));
    const bool nt = rc.empty() || rf.empty() || rc.back() > rf.back();
    const Shape batch = pick(lhs, lb);
    const int64_t rank = static_cast<int64_t>(batch.size()) + 2;
    const ValueId a = arranged(n.operands[0], {lb, lf, lc}, batch, m, k);
    const ValueId b = nt ? arranged(n.operands[1], {rb, rf, rc}, batch, columns, k)
                         : arranged(n.operands[1], {rb, rc, rf}, batch, k, columns);
    const std::vector<int64_t> batches = [&] {
      std::vector<int64_t> all;
      for (int64_t i = 0; i < rank - 2; ++i) all.push_back(i);
      return all;
    }();
    const ValueId result = n.results[0];
    const graph::TensorType wanted = g_.value(result).type;
    Shape dims = batch;
    dims.push_back(m);
    dims.push_back(columns);
    const bool same = a == n.operands[0] && b == n.operands[1] && dims == wanted.dims;
    if (same) return {};
    const NodeId dot = g_.add_node(OpKind::dot_general, {a, b},
                                   {{"lhs_batch", batches},
                                    {"rhs_batch", batches},
                                    {"lhs_contract", std::vector<int64_t>{rank - 1}},
                                    {"rhs_contract", std::vector<int64_t>{nt ? rank - 1 : rank - 2}}},
                                   {{wanted.dtype, dims}}, n.name + "_rows", id_);
    g_.node(dot).line = n.line;
    ValueId to = g_.result(dot);
    if (dims != wanted.dims) to = g_.result(g_.add_node(OpKind::reshape, {to}, {}, {wanted}, n.name + "_shaped", id_));
    g_.replace_uses(result, to);
    g_.erase(id_);
    return {};
  }

 private:
  // x with its axes in this order, batch dimensions as they are and the others as two.
  ValueId arranged(ValueId x, const std::vector<Axes>& order, const Shape& batch, const Dim& first, const Dim& second) {
    Axes perm;
    for (const Axes& axes : order) perm.insert(perm.end(), axes.begin(), axes.end());
    const graph::TensorType from = g_.value(x).type;
    if (!std::is_sorted(perm.begin(), perm.end()))
      x = g_.result(g_.add_node(OpKind::transpose, {x}, {{"perm", perm}}, {{from.dtype, pick(from.dims, perm)}},
                                g_.value(x).name + "_turned", id_));
    Shape dims = batch;
    dims.push_back(first);
    dims.push_back(second);
    if (g_.value(x).type.dims == dims) return x;
    return g_.result(g_.add_node(OpKind::reshape, {x}, {}, {{from.dtype, dims}}, g_.value(x).name + "_rows", id_));
  }

  Graph& g_;
  const NodeId id_;
};

}  // namespace

Status legalize_dot_generals(Graph& graph) {
  const std::vector<NodeId> order = graph.order();
  for (const NodeId id : order)
    if (graph.node(id).op == OpKind::dot_general) HONE_RETURN_IF_ERROR(Legalizer(graph, id).run());
  return {};
}

}  // namespace hone::passes
