// What computes nothing. All of it keeps bits, but that x + 0 gives +0 for a -0.
#include <algorithm>
#include <cmath>
#include <map>

#include "engine/graph/infer.h"
#include "engine/passes/canonicalize_internal.h"
#include "engine/passes/fold_internal.h"
#include "engine/passes/match_internal.h"

namespace hone::passes {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::OpKind;
using graph::Shape;
using graph::TensorType;
using graph::ValueId;

constexpr FoldLimits kSmall = {.computed = 4096, .moved = 4096};
// Constants that are compared to find equal ones.
constexpr size_t kSmallBytes = 1024;
// Rounds of rewriting each node; every rule makes the graph smaller, so that few are needed.
constexpr int kMaxRounds = 16;

class Simplifier {
 public:
  explicit Simplifier(Rewriter& r) : r_(r), g_(r.g) {}

  int run() {
    int all = 0;
    for (int round = 0; round < kMaxRounds; ++round) {
      changed_ = 0;
      seen_.clear();
      const std::vector<NodeId> order = g_.order();
      for (const NodeId id : order)
        if (g_.is_live(id)) visit(id);
      g_.erase_dead();
      if (changed_ == 0) break;
      all += changed_;
    }
    return all;
  }

 private:
  const TensorType& type(ValueId v) const { return g_.value(v).type; }

  void become(NodeId id, ValueId v) {
    r_.drop(id, v);
    ++changed_;
  }

  void visit(NodeId id) {
    const Node& n = g_.node(id);
    if (n.op == OpKind::kv_append) return;
    if (n.op == OpKind::constant) return unify(id);
    if (const auto v = same_value(n)) return become(id, *v);
    r_.before(id);
    if (n.op == OpKind::reshape && moved_over_matmul(n)) return;
    if (const auto v = shorter(n)) return become(id, *v);
    // Patterns look for an iota, and for the rows of a table that are read.
    const bool looked_for = n.op == OpKind::iota || (n.op == OpKind::slice && !uniform(g_, n.operands[0]));
    if (!looked_for && n.results.size() == 1)
      if (auto c = fold(g_, n, kSmall)) return become(id, r_.constant(*std::move(c), n.name));
    unify(id);
  }

  // An operand that the node gives unchanged.
  std::optional<ValueId> same_value(const Node& n) const {
    if (n.operands.empty()) return std::nullopt;
    const ValueId x = n.operands[0];
    const bool same_type = n.results.size() == 1 && type(x) == type(n.results[0]);
    switch (n.op) {
      case OpKind::convert:
      case OpKind::reshape:
        return same_type ? std::optional(x) : std::nullopt;
      case OpKind::broadcast:
      case OpKind::transpose: {
        const auto axes = n.integers(n.op == OpKind::broadcast ? "dims" : "perm");
        bool same = same_type;
        for (size_t i = 0; i < axes.size(); ++i) same &= axes[i] == static_cast<int64_t>(i);
        return same ? std::optional(x) : std::nullopt;
      }
      case OpKind::slice:
        return same_type && n.integers("stride").empty() ? std::optional(x) : std::nullopt;
      case OpKind::concatenate:
        return n.operands.size() == 1 ? std::optional(x) : std::nullopt;
      case OpKind::add:
      case OpKind::sub:
      case OpKind::mul:
      case OpKind::div:
      case OpKind::pow:
        return neutral(n);
      case OpKind::select:
        return chosen(n);
      default:
        return std::nullopt;
    }
  }

  std::optional<ValueId> neutral(const Node& n) const {
    const double number = n.op == OpKind::add || n.op == OpKind::sub ? 0 : 1;
    const auto is = [&](int i) {
      const auto u = uniform(g_, n.operands[static_cast<size_t>(i)]);
      return u && *u == number;
    };
    if (is(1)) return n.operands[0];
    if ((n.op == OpKind::add || n.op == OpKind::mul) && is(0)) return n.operands[1];
    return std::nullopt;
  }

  std::optional<ValueId> chosen(const Node& n) const {
    const auto u = uniform(g_, n.operands[0]);
    if (!u) return n.operands[1] == n.operands[2] ? std::optional(n.operands[1]) : std::nullopt;
    return n.operands[*u != 0 ? 1 : 2];
  }

  // The same in fewer nodes.
  std::optional<ValueId> shorter(const Node& n) {
    // Those that ask nothing of the operand.
    if (n.op == OpKind::broadcast)
      if (const auto v = unit_broadcast(n)) return v;
    if (n.op == OpKind::transpose)
      if (const auto v = transposed_units(n)) return v;
    if (n.op == OpKind::concatenate) return repeated(n);
    const Node* x = n.operands.empty() ? nullptr : g_.definition(n.operands[0]);
    if (x == nullptr) return std::nullopt;
    switch (n.op) {
      case OpKind::reshape:
        return x->op == OpKind::reshape ? reshaped_twice(n, *x) : std::nullopt;
      case OpKind::transpose:
        if (x->op == OpKind::transpose) return transposed_twice(n, *x);
        return x->op == OpKind::reshape ? transposed_behind_units(n, *x) : std::nullopt;
      case OpKind::broadcast:
        return simpler_broadcast(n, *x);
      case OpKind::convert:
        // A truth value or a small whole number stays what it is on the way through a wider type.
        if (x->op == OpKind::convert && type(x->operands[0]).dtype == DType::kU8)
          return r_.add_typed(OpKind::convert, {x->operands[0]}, {}, type(n.results[0]));
        return std::nullopt;
      case OpKind::logical_not:
        return x->op == OpKind::logical_not ? std::optional(x->operands[0]) : std::nullopt;
      case OpKind::neg:
        return x->op == OpKind::neg ? std::optional(x->operands[0]) : std::nullopt;
      default:
        return std::nullopt;
    }
  }

  // Not where only the shape between says that sizes contradict each other: [4] -> [t, s] -> [].
  std::optional<ValueId> reshaped_twice(const Node& outer, const Node& inner) {
    const TensorType &from = type(inner.operands[0]), &to = type(outer.results[0]);
    if (!graph::infer_types({OpKind::reshape, {&from, 1}, outer.attributes, &to, {}}).ok()) return std::nullopt;
    return r_.reshape(inner.operands[0], to.dims);
  }

  // reshape(matmul(reshape(x), w)), which collapses leading dimensions and restores them.
  bool moved_over_matmul(const Node& n) {
    const Node* m = defined_by(g_, n.operands[0], OpKind::matmul);
    if (m == nullptr || m->operands.size() != 2 || !used_once(g_, m->results[0])) return false;
    const Node* before = defined_by(g_, m->operands[0], OpKind::reshape);
    if (before == nullptr) return false;
    const Shape &from = type(before->operands[0]).dims, &to = type(n.results[0]).dims;
    const bool same_rows =
        !from.empty() && from.size() == to.size() && std::equal(from.begin(), from.end() - 1, to.begin());
    if (!same_rows || from.back() != type(m->operands[0]).dims.back() || to.back() != type(m->results[0]).dims.back())
      return false;
    const ValueId moved = r_.add(OpKind::matmul, {before->operands[0], m->operands[1]}, m->attributes);
    const NodeId matmul = m->id;
    become(n.id, moved);
    r_.replace(matmul, moved);
    return true;
  }

  std::optional<ValueId> transposed_twice(const Node& outer, const Node& inner) {
    const auto second = outer.integers("perm"), first = inner.integers("perm");
    std::vector<int64_t> perm;
    for (const int64_t axis : second) perm.push_back(first[static_cast<size_t>(axis)]);
    return r_.transpose(inner.operands[0], std::move(perm));
  }

  // That only dimensions of 1 change their place.
  std::optional<ValueId> transposed_units(const Node& n) {
    int64_t last = -1;
    const Shape& dims = type(n.operands[0]).dims;
    for (const int64_t axis : n.integers("perm")) {
      if (dims[static_cast<size_t>(axis)] == graph::Dim(1)) continue;
      if (axis < last) return std::nullopt;
      last = axis;
    }
    return r_.reshape(n.operands[0], type(n.results[0]).dims);
  }

  // transpose(reshape(transpose(x))) where the reshape only adds or drops dimensions of 1: they go to the outside.
  std::optional<ValueId> transposed_behind_units(const Node& n, const Node& units) {
    const ValueId inner = units.operands[0];
    if (defined_by(g_, inner, OpKind::transpose) == nullptr) return std::nullopt;
    const Shape &with = type(units.results[0]).dims, &without = type(inner).dims;
    const auto large = [](const Shape& dims) {
      std::vector<int64_t> axes;
      for (size_t i = 0; i < dims.size(); ++i)
        if (dims[i] != graph::Dim(1)) axes.push_back(static_cast<int64_t>(i));
      return axes;
    };
    const std::vector<int64_t> from = large(with), to = large(without);
    if (from.size() != to.size()) return std::nullopt;
    for (size_t i = 0; i < from.size(); ++i)
      if (with[static_cast<size_t>(from[i])] != without[static_cast<size_t>(to[i])]) return std::nullopt;
    std::vector<int64_t> perm;
    for (size_t i = 0; i < without.size(); ++i)
      if (without[i] == graph::Dim(1)) perm.push_back(static_cast<int64_t>(i));
    for (const int64_t axis : n.integers("perm")) {
      const auto at = std::find(from.begin(), from.end(), axis);
      if (at != from.end()) perm.push_back(to[static_cast<size_t>(at - from.begin())]);
    }
    return r_.reshape(r_.transpose(inner, std::move(perm)), type(n.results[0]).dims);
  }

  std::optional<ValueId> simpler_broadcast(const Node& n, const Node& x) {
    const auto dims = n.integers("dims");
    const TensorType from = type(n.operands[0]), to = type(n.results[0]);
    if (x.op == OpKind::broadcast) {
      std::vector<int64_t> merged;
      for (const int64_t axis : x.integers("dims")) merged.push_back(dims[static_cast<size_t>(axis)]);
      return r_.add_typed(OpKind::broadcast, {x.operands[0]}, {{"dims", merged}}, to);
    }
    // Dimensions of 1 are not broadcast but left out, where that takes no node.
    if (x.op != OpKind::constant && x.op != OpKind::reshape) return std::nullopt;
    Shape kept;
    std::vector<int64_t> axes;
    for (size_t i = 0; i < dims.size(); ++i)
      if (from.dims[i] != graph::Dim(1)) {
        kept.push_back(from.dims[i]);
        axes.push_back(dims[i]);
      }
    if (kept.size() == from.dims.size()) return std::nullopt;
    return r_.add_typed(OpKind::broadcast, {r_.reshape(n.operands[0], kept)}, {{"dims", axes}}, to);
  }

  // A broadcast that only adds dimensions of 1.
  std::optional<ValueId> unit_broadcast(const Node& n) {
    const Shape &from = type(n.operands[0]).dims, &to = type(n.results[0]).dims;
    const auto dims = n.integers("dims");
    size_t next = 0;
    for (size_t axis = 0; axis < to.size(); ++axis) {
      if (next < dims.size() && dims[next] == static_cast<int64_t>(axis) && surely_equal(from[next], to[axis])) {
        ++next;
      } else if (to[axis] != graph::Dim(1)) {
        return std::nullopt;
      }
    }
    return next == dims.size() ? std::optional(r_.reshape(n.operands[0], to)) : std::nullopt;
  }

  // The same value side by side along an axis on which it has one element.
  std::optional<ValueId> repeated(const Node& n) {
    const size_t axis = static_cast<size_t>(n.integer("axis"));
    const ValueId x = n.operands[0];
    if (n.operands.size() < 2 || type(x).dims[axis] != graph::Dim(1)) return std::nullopt;
    if (std::any_of(n.operands.begin(), n.operands.end(), [&](ValueId v) { return v != x; })) return std::nullopt;
    std::vector<int64_t> dims;
    for (int i = 0; i < type(x).rank(); ++i) dims.push_back(i);
    return r_.add_typed(OpKind::broadcast, {x}, {{"dims", dims}}, type(n.results[0]));
  }

  // Equal nodes become the first of them.
  void unify(NodeId id) {
    const Node& n = g_.node(id);
    const auto [first, last] = seen_.equal_range(n.op);
    for (auto at = first; at != last; ++at) {
      const Node& o = g_.node(at->second);
      if (o.operands != n.operands || o.attributes != n.attributes || o.results.size() != n.results.size()) continue;
      bool same = n.op != OpKind::constant || same_elements(*n.constant, *o.constant);
      for (size_t i = 0; i < n.results.size(); ++i) same &= type(o.results[i]) == type(n.results[i]);
      if (!same) continue;
      for (size_t i = 1; i < n.results.size(); ++i) g_.replace_uses(n.results[i], o.results[i]);
      return become(id, o.results[0]);
    }
    seen_.emplace(n.op, id);
  }

  static bool same_elements(const graph::Constant& a, const graph::Constant& b) {
    return a.splat == b.splat && !a.runs && !b.runs && a.data.size() == b.data.size() && a.data.size() <= kSmallBytes &&
           std::equal(a.data.begin(), a.data.end(), b.data.begin());
  }

  Rewriter& r_;
  Graph& g_;
  std::multimap<OpKind, NodeId> seen_;
  int changed_ = 0;
};

}  // namespace

int simplify(Rewriter& r) { return Simplifier(r).run(); }

}  // namespace hone::passes
