// Every unknown dimension starts as a symbol that nobody has declared. What an op needs to be equal is an equation
// (equal_dims_internal.h), and what is left unsolved in an input is a size that callers choose. The rules of results
// are infer_types'; here is only which dimensions of operands belong together.
#include "engine/passes/shape_inference.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "engine/graph/infer.h"
#include "engine/passes/equal_dims_internal.h"
#include "engine/passes/plan_memory.h"

namespace hone::passes {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::OpKind;
using graph::Shape;
using graph::Symbol;
using graph::TensorType;
using graph::ValueId;

class Inference {
 public:
  explicit Inference(Compilation& c) : c_(c), g_(c.graph), equal_(g_.symbols, g_.position, g_.tokens) {}

  Status run() {
    open_unknown();
    for (size_t before = 1, after = 0; before != after;) {
      before = equal_.replaced();
      for (const NodeId id : g_.order()) HONE_RETURN_IF_ERROR(visit(id));
      after = equal_.replaced();
    }
    HONE_RETURN_IF_ERROR(name_the_rest());
    HONE_RETURN_IF_ERROR(settle());
    collect_guards(c_, equal_.guards());
    return {};
  }

 private:
  TensorType type(ValueId v) const { return equal_.resolve(g_.value(v).type); }
  static std::string where(const std::string& value, int axis) { return fmt::format("%{}, dimension {}", value, axis); }
  std::string where(ValueId v, int axis) const { return where(g_.value(v).name, axis); }

  void open(ValueId v) {
    TensorType t = g_.value(v).type;
    for (Dim& d : t.dims)
      if (d.is_unknown()) d = equal_.fresh();
    g_.set_type(v, std::move(t));
  }
  void open_unknown() {
    for (const ValueId v : g_.inputs()) open(v);
    for (const ValueId v : g_.states()) open(v);
    for (const NodeId id : g_.order())
      for (const ValueId v : g_.node(id).results) open(v);
  }

  Status visit(NodeId id) {
    const Node& n = g_.node(id);
    HONE_RETURN_IF_ERROR(constrain(n));
    std::vector<TensorType> operands;
    bool open = false;
    for (const ValueId v : n.operands) {
      operands.push_back(type(v));
      for (const Dim& d : operands.back().dims) open |= EqualDims::has_fresh(d);
    }
    const TensorType wanted = type(n.results[0]);
    const Dim position = g_.position.empty() ? Dim::unknown() : Dim::symbol(g_.position);
    const auto inferred = graph::infer_types({n.op, operands, n.attributes, &wanted, position});
    // A rule that needs a number may find one later.
    if (!inferred.ok() && open) return {};
    if (!inferred.ok()) return failed(n, inferred.status());
    for (size_t r = 0; r < n.results.size(); ++r) {
      const TensorType recorded = type(n.results[r]);
      const Shape& dims = (*inferred)[r].dims;
      for (int i = 0; i < recorded.rank() && i < (*inferred)[r].rank(); ++i)
        HONE_RETURN_IF_ERROR(equate(n.results[r], i, recorded.dims[at(i)], dims[at(i)], "its operands say so"));
    }
    return {};
  }

  static size_t at(int i) { return static_cast<size_t>(i); }
  Status failed(const Node& n, const Status& s) const {
    const std::string line = n.line > 0 ? fmt::format("line {}: ", n.line) : "";
    return {s.code(), fmt::format("{}%{}: {}", line, n.name, s.message())};
  }

  Status equate(ValueId v, int axis, const Dim& a, const Dim& b, const std::string& why) {
    const Node* n = g_.definition(v);
    const std::string line = n != nullptr && n->line > 0 ? fmt::format("line {}: ", n->line) : "";
    return equal_.equate(a, b, line + where(v, axis), why);
  }
  // Dimension i of one operand is dimension j of another (by number of the operand).
  Status same(const Node& n, int operand, int i, int other, int j) {
    const ValueId a = n.operands[at(operand)], b = n.operands[at(other)];
    const Shape &da = g_.value(a).type.dims, &db = g_.value(b).type.dims;
    return equate(a, i, da[at(i)], db[at(j)],
                  fmt::format("{} %{} takes it with {}", op_info(n.op).name, n.name, where(b, j)));
  }
  Status same_shapes(const Node& n, int operand, int other) {
    for (int i = 0; i < rank(n, operand) && i < rank(n, other); ++i)
      HONE_RETURN_IF_ERROR(same(n, operand, i, other, i));
    return {};
  }
  int rank(const Node& n, int operand) const { return g_.value(n.operands[at(operand)]).type.rank(); }
  static int count(const Node& n) { return static_cast<int>(n.operands.size()); }

  // Equations among the operands, and with the result where infer_types is told it.
  Status constrain(const Node& n) {
    switch (n.op) {
      case OpKind::broadcast:
        return constrain_broadcast(n);
      case OpKind::reshape:
        return constrain_reshape(n);
      case OpKind::concatenate:
        return constrain_concatenate(n);
      case OpKind::dot_general:
        HONE_RETURN_IF_ERROR(constrain_pairs(n, "lhs_batch", "rhs_batch"));
        return constrain_pairs(n, "lhs_contract", "rhs_contract");
      case OpKind::matmul:
        return same(n, 0, rank(n, 0) - 1, 1, n.text("layout") == "nt" ? 1 : 0);
      case OpKind::attention:
        return constrain_attention(n);
      case OpKind::rms_norm:
      case OpKind::layer_norm:
        for (int i = 1; i < count(n); ++i) HONE_RETURN_IF_ERROR(same(n, 0, rank(n, 0) - 1, i, 0));
        return {};
      case OpKind::rope:
        return count(n) > 2 && rank(n, 0) >= 3 ? same(n, 0, rank(n, 0) - 3, 2, 0) : Status();
      case OpKind::experts:
        HONE_RETURN_IF_ERROR(same(n, 0, 0, 1, 0));
        return same_shapes(n, 1, 2);
      case OpKind::kv_append:
        HONE_RETURN_IF_ERROR(equate(n.operands[1], 0, g_.value(n.operands[1]).type.dims[0], g_.tokens,
                                    "as many rows as tokens of a call"));
        HONE_RETURN_IF_ERROR(same(n, 1, 1, 0, 1));
        return same(n, 1, 2, 0, 2);
      case OpKind::select:
        if (rank(n, 0) != 0) HONE_RETURN_IF_ERROR(same_shapes(n, 0, 1));
        return same_shapes(n, 2, 1);
      case OpKind::gather:
      case OpKind::dynamic_slice:
      case OpKind::dynamic_update_slice:
        return {};
      default:
        for (int i = 1; i < count(n); ++i) HONE_RETURN_IF_ERROR(same_shapes(n, i, 0));
        return {};
    }
  }

  Status constrain_broadcast(const Node& n) {
    const auto dims = n.integers("dims");
    const TensorType x = type(n.operands[0]), result = type(n.results[0]);
    for (int i = 0; i < x.rank() && at(i) < dims.size(); ++i) {
      if (x.dims[at(i)] == Dim(1)) continue;
      const int axis = static_cast<int>(dims[at(i)]);
      HONE_RETURN_IF_ERROR(
          equate(n.results[0], axis, result.dims[at(axis)], x.dims[at(i)], "it repeats " + where(n.operands[0], i)));
    }
    return {};
  }

  Status constrain_concatenate(const Node& n) {
    const int64_t axis = n.integer("axis");
    for (int i = 1; i < count(n); ++i)
      for (int a = 0; a < rank(n, 0) && a < rank(n, i); ++a)
        if (a != axis) HONE_RETURN_IF_ERROR(same(n, i, a, 0, a));
    return {};
  }

  Status constrain_pairs(const Node& n, std::string_view lhs, std::string_view rhs) {
    const auto a = n.integers(lhs), b = n.integers(rhs);
    for (size_t i = 0; i < a.size() && i < b.size(); ++i)
      HONE_RETURN_IF_ERROR(same(n, 1, static_cast<int>(b[i]), 0, static_cast<int>(a[i])));
    return {};
  }

  Status constrain_attention(const Node& n) {
    const int r = rank(n, 0);
    HONE_RETURN_IF_ERROR(same(n, 1, r - 1, 0, r - 1));
    for (int i = 0; i + 1 < r; ++i) HONE_RETURN_IF_ERROR(same(n, 2, i, 1, i));
    if (r == 4) HONE_RETURN_IF_ERROR(same(n, 1, 0, 0, 0));
    if (count(n) < 4) return {};
    const int m = rank(n, 3);
    HONE_RETURN_IF_ERROR(same(n, 3, m - 2, 0, r - 3));
    return same(n, 3, m - 1, 1, r - 3);
  }

  // Products of both sides are equal; what both have cancels.
  Status constrain_reshape(const Node& n) {
    Shape from = type(n.operands[0]).dims, to = type(n.results[0]).dims;
    int64_t a = 1, b = 1;
    for (auto d = from.begin(); d != from.end();) {
      const auto twin = d->is_static() ? to.end() : std::find(to.begin(), to.end(), *d);
      if (twin == to.end()) {
        ++d;
        continue;
      }
      to.erase(twin);
      d = from.erase(d);
    }
    const auto fold = [](Shape& dims, int64_t& number) {
      for (const Dim& d : dims)
        if (d.is_static()) number *= d.value();
      std::erase_if(dims, [](const Dim& d) { return d.is_static(); });
    };
    fold(from, a), fold(to, b);
    if (from.size() > 1 || to.size() > 1 || a == 0 || b == 0) return {};
    // a * from = b * to, each of which is one dimension or none. Divided, where the other side is one.
    const Dim left = (from.empty() ? Dim(1) : from[0]) * Dim(a), right = (to.empty() ? Dim(1) : to[0]) * Dim(b);
    const std::string why =
        fmt::format("reshape from {} to {}", to_string(type(n.operands[0])), to_string(type(n.results[0])));
    if (const auto d = Dim::divide(left, b); d && !to.empty()) return equate(n.results[0], 0, to[0], *d, why);
    if (const auto d = Dim::divide(right, a); d && !from.empty()) return equate(n.operands[0], 0, from[0], *d, why);
    return equate(n.results[0], 0, right, left, why + ": not as many elements");
  }

  // Sizes that only callers know get names.
  Status name_the_rest() {
    std::set<std::string> taken;
    for (const Symbol& s : g_.symbols) taken.insert(s.name);
    int next = 0;
    for (const ValueId v : g_.inputs())
      for (const Dim& d : type(v).dims)
        for (const auto& [symbol, factor] : d.terms()) {
          if (!EqualDims::is_fresh(symbol) || equal_.resolve(Dim::symbol(symbol)) != Dim::symbol(symbol)) continue;
          while (taken.contains(fmt::format("d{}", next))) ++next;
          const std::string name = fmt::format("d{}", next++);
          const Dim named = Dim::symbol(name);
          HONE_RETURN_IF_ERROR(equal_.equate(Dim::symbol(symbol), named, "%" + g_.value(v).name, "a size of callers"));
          g_.symbols.push_back({.name = name});
          c_.notes.push_back({"shape_inference", g_.value(v).name, name + ": a size that callers choose",
                              "nothing in the graph says more about it"});
        }
    return {};
  }

  // Types, attributes and tokens in terms of what is left.
  Status settle() {
    g_.tokens = equal_.resolve(g_.tokens);
    const auto settle_value = [&](ValueId v) -> Status {
      TensorType t = type(v);
      for (int i = 0; i < t.rank(); ++i)
        if (EqualDims::has_fresh(t.dims[at(i)]))
          return invalid_argument(fmt::format("{}: nothing says how long it is", where(v, i)));
      g_.set_type(v, std::move(t));
      return {};
    };
    for (const ValueId v : g_.inputs()) HONE_RETURN_IF_ERROR(settle_value(v));
    for (const ValueId v : g_.states()) HONE_RETURN_IF_ERROR(settle_value(v));
    for (const NodeId id : g_.order()) {
      Node& n = g_.node(id);
      for (auto& [name, attribute] : n.attributes)
        if (Dim* d = std::get_if<Dim>(&attribute)) *d = equal_.resolve(*d);
      for (const ValueId v : n.results) HONE_RETURN_IF_ERROR(settle_value(v));
      auto types = graph::infer_types(g_, n);
      if (!types.ok()) return failed(n, types.status());
      for (size_t r = 0; r < n.results.size(); ++r) g_.set_type(n.results[r], std::move((*types)[r]));
    }
    return {};
  }

  Compilation& c_;
  Graph& g_;
  EqualDims equal_;
};

// Bounds of what a node reads along dimensions that are no numbers.
void guard_reads(const Graph& g, const Node& n, std::vector<Guard>& guards) {
  const auto at_least = [&](int operand, size_t axis, const Dim& least) {
    const graph::Value& x = g.value(n.operands[static_cast<size_t>(operand)]);
    const Dim& d = x.type.dims[axis];
    if ((d - least).is_static() && (d - least).value() >= 0) return;
    guards.push_back({Guard::Kind::kAtLeast, d, least, fmt::format("%{}, dimension {}", x.name, axis),
                      fmt::format("{} %{} reads as much", op_info(n.op).name, n.name)});
  };
  if (n.op == OpKind::slice) {
    const auto start = n.integers("start"), limit = n.integers("limit");
    for (size_t i = 0; i < limit.size(); ++i) at_least(0, i, Dim(limit[i] < 0 ? start[i] : limit[i]));
  } else if (n.op == OpKind::dynamic_slice) {
    const auto sizes = n.integers("sizes");
    for (size_t i = 0; i < sizes.size(); ++i) at_least(0, i, Dim(sizes[i]));
  } else if (n.op == OpKind::dynamic_update_slice) {
    const Shape& update = g.value(n.operands[1]).type.dims;
    for (size_t i = 0; i < update.size(); ++i) at_least(0, i, update[i]);
  } else if (n.op == OpKind::top_k) {
    at_least(0, g.value(n.operands[0]).type.dims.size() - 1, Dim(n.integer("k")));
  }
}

// A difference of symbols may be negative, a size may not.
void guard_sizes(const Graph& g, const graph::Value& value, std::vector<Guard>& guards) {
  for (size_t i = 0; i < value.type.dims.size(); ++i) {
    const Dim& d = value.type.dims[i];
    if (d.is_static() || d.is_unknown()) continue;
    const Result<int64_t> least = smallest(g, d);
    if (least.ok() && *least >= 0) continue;
    guards.push_back({Guard::Kind::kAtLeast, d, 0, fmt::format("{}, dimension {}", value.name, i),
                      fmt::format("{} is a size", to_string(d))});
  }
}

}  // namespace

void collect_guards(Compilation& c, std::vector<Guard> equal) {
  const Graph& g = c.graph;
  std::vector<Guard> all;
  for (const Symbol& s : g.symbols) {
    if (s.name == g.position) continue;
    const std::string rule = fmt::format("{} in {}..{} as declared", s.name, s.min, s.max);
    all.push_back({Guard::Kind::kAtLeast, Dim::symbol(s.name), s.min, s.name, rule});
    all.push_back({Guard::Kind::kAtMost, Dim::symbol(s.name), s.max, s.name, rule});
    if (s.multiple_of != 1)
      all.push_back({Guard::Kind::kMultiple, Dim::symbol(s.name), s.multiple_of, s.name,
                     fmt::format("{} is a multiple of {} as declared", s.name, s.multiple_of)});
  }
  if (const Symbol* p = g.find_symbol(g.position); p != nullptr)
    all.push_back({Guard::Kind::kAtMost, Dim::symbol(p->name) + g.tokens, p->max, "tokens after this call",
                   fmt::format("position {} in 0..{} as declared", p->name, p->max)});
  for (const NodeId id : g.order()) {
    const Node& n = g.node(id);
    if (n.op == OpKind::kv_append) {
      const graph::Value& state = g.value(n.operands[0]);
      all.push_back({Guard::Kind::kAtMost, g.value(n.results[0]).type.dims[0], state.type.dims[0],
                     fmt::format("rows of state {}", state.name),
                     fmt::format("state {} holds {} rows", state.name, to_string(state.type.dims[0]))});
    }
    guard_reads(g, n, all);
    for (const ValueId v : n.results) guard_sizes(g, g.value(v), all);
  }
  all.insert(all.end(), equal.begin(), equal.end());
  c.guards.clear();
  for (Guard& guard : all) {
    const bool known = std::any_of(c.guards.begin(), c.guards.end(), [&](const Guard& o) {
      return o.kind == guard.kind && o.left == guard.left && o.right == guard.right && o.what == guard.what;
    });
    if (!known) c.guards.push_back(std::move(guard));
  }
}

Status shape_inference(Compilation& compilation) { return Inference(compilation).run(); }

}  // namespace hone::passes
