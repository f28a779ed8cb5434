#include "engine/passes/form_dispatches.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "engine/passes/legalize.h"

namespace hone::passes {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::OpKind;
using graph::Shape;
using graph::ValueId;

bool is_view(OpKind op) {
  return op == OpKind::reshape || op == OpKind::transpose || op == OpKind::slice || op == OpKind::broadcast;
}

// Sums over a row, so that it is walked more than once.
bool walks_twice(OpKind op) {
  return op == OpKind::reduce || op == OpKind::softmax || op == OpKind::rms_norm || op == OpKind::rms_scale ||
         op == OpKind::layer_norm;
}

bool reduces_last_axis(const Graph& g, const Node& n) {
  const auto axes = n.integers("axes");
  return axes.size() == 1 && axes[0] == g.value(n.operands[0]).type.rank() - 1;
}

// "2 x f32[s, 2048]"
std::string traffic(const graph::TensorType& type) { return fmt::format("a store and a load of {}", to_string(type)); }

class Former {
 public:
  explicit Former(Compilation& c) : c_(c), g_(c.graph) {}

  Status run() {
    c_.dispatches.clear();
    HONE_RETURN_IF_ERROR(legalize_dot_generals(g_));
    add_computed_masks();
    HONE_RETURN_IF_ERROR(separate_outputs());
    for (const NodeId id : g_.order()) HONE_RETURN_IF_ERROR(place(g_.node(id)));
    for (Dispatch& d : c_.dispatches) connect(d);
    for (const Dispatch& d : c_.dispatches)
      if (!d.why.empty())
        c_.notes.push_back({"form_dispatches", d.name, std::string(dispatch_kind_name(d.kind)), d.why});
    return {};
  }

 private:
  Status place(const Node& n) {
    switch (n.op) {
      case OpKind::constant:
      case OpKind::iota:
        return {};
      case OpKind::matmul:
      case OpKind::dot_general:
        add(DispatchKind::kMatmul, n, matmul_reason(n));
        return {};
      case OpKind::attention:
        add(DispatchKind::kAttention, n, "");
        return {};
      case OpKind::kv_append:
        return place_append(n);
      case OpKind::top_k:
        add(DispatchKind::kTopK, n, "");
        return {};
      case OpKind::experts:
        add(DispatchKind::kExperts, n, "");
        return {};
      case OpKind::rope:
      case OpKind::gather:
      case OpKind::concatenate:
        add(DispatchKind::kRows, n, "");
        return {};
      default:
        break;
    }
    if (is_view(n.op)) {
      if (copies_.contains(n.id)) {
        add(DispatchKind::kRows, n, "an output has memory of its own");
      } else if (fits_inside(n)) {
        join(n, *row_group_of(n.operands[0]), n.operands[0]);
      } else {
        add(DispatchKind::kView, n, "");
      }
      return {};
    }
    if (n.op == OpKind::reduce && !reduces_last_axis(g_, n)) {
      add(DispatchKind::kRows, n, "not joined: it sums across rows");
      return {};
    }
    if (const auto domain = row_domain(g_, n)) {
      place_rows(n, *domain);
      return {};
    }
    return unsupported(fmt::format("{} {}: no kernel computes it{}", graph::op_info(n.op).name, n.name,
                                   n.line > 0 ? fmt::format(" (line {})", n.line) : ""));
  }

  // Attention reads truth values as bytes, which only callers and constants have; a mask that is computed is added to
  // the scores instead.
  void add_computed_masks() {
    const std::vector<NodeId> order = g_.order();
    for (const NodeId id : order) {
      if (g_.node(id).op != OpKind::attention || g_.node(id).operands.size() < 4) continue;
      const ValueId mask = g_.node(id).operands[3];
      const graph::TensorType truth = g_.value(mask).type;
      if (truth.dtype != DType::kU8 || has_bytes(mask)) continue;
      const graph::TensorType number{DType::kF32, truth.dims};
      const auto filled = [&](float v) {
        const NodeId scalar = g_.add_constant(graph::Constant::splat_f32({DType::kF32, {}}, v), {}, id);
        return g_.result(
            g_.add_node(OpKind::broadcast, {g_.result(scalar)}, {{"dims", std::vector<int64_t>{}}}, {number}, {}, id));
      };
      const ValueId shown = filled(0), hidden = filled(-std::numeric_limits<float>::infinity());
      const NodeId added =
          g_.add_node(OpKind::select, {mask, shown, hidden}, {}, {number}, g_.value(mask).name + "_added", id);
      g_.set_operand(id, 3, g_.result(added));
    }
  }

  // Bytes that lie one after another along the last axis, where the caller or the graph has them.
  bool has_bytes(ValueId v) const {
    const Node* def = g_.definition(v);
    if (def == nullptr) return true;
    if (def->op == OpKind::constant) return !def->constant->splat;
    if (!is_view(def->op)) return false;
    const ValueId from = def->operands[0];
    const Shape &in = g_.value(from).type.dims, &out = g_.value(v).type.dims;
    if (in.empty() || out.empty() || !has_bytes(from)) return false;
    const auto last = static_cast<int64_t>(out.size()) - 1;
    const auto dims = def->integers("dims"), perm = def->integers("perm"), stride = def->integers("stride");
    switch (def->op) {
      case OpKind::slice:
        return stride.empty() || stride.back() == 1;
      case OpKind::transpose:
        return perm.back() == last;
      case OpKind::broadcast:
        return dims.back() == last && surely_equal(in.back(), out.back());
      default: {  // a reshape of what is dense is no copy
        const Node* owner = g_.definition(from);
        return owner == nullptr || owner->op == OpKind::constant;
      }
    }
  }

  // An output that no dispatch would write (an input, a constant, a view, one that is given twice) becomes a copy.
  Status separate_outputs() {
    std::vector<ValueId> outputs = g_.outputs();
    std::set<ValueId> written;
    for (ValueId& v : outputs) {
      if (g_.value(v).type.dtype == DType::kU8)
        return unsupported(fmt::format("output {} is u8: outputs are f32 or s32, convert it", g_.value(v).name));
      const Node* def = g_.definition(v);
      const bool computed = def != nullptr && def->op != OpKind::constant && def->op != OpKind::iota &&
                            !is_view(def->op) && def->op != OpKind::kv_append;
      if (computed && written.insert(v).second) continue;
      const std::string name = g_.value(v).name + "_out";
      const NodeId copy = g_.add_node(OpKind::reshape, {v}, {}, {g_.value(v).type}, name);
      copies_.insert(copy);
      v = g_.result(copy);
      written.insert(v);
    }
    g_.set_outputs(std::move(outputs));
    return {};
  }

  Dispatch& add(DispatchKind kind, const Node& n, std::string why) {
    Dispatch d;
    d.kind = kind;
    d.name = n.name;
    d.nodes = {n.id};
    d.why = std::move(why);
    by_node_[n.id] = c_.dispatches.size();
    c_.dispatches.push_back(std::move(d));
    return c_.dispatches.back();
  }

  std::string matmul_reason(const Node& n) const {
    const std::string epilogue = n.text("epilogue");
    if (epilogue.empty()) return "";
    const auto steps = std::count_if(epilogue.begin(), epilogue.end(), [](char ch) { return ch == '+' || ch == '*'; });
    return fmt::format("epilogue {} saves {} launches, each with {}", epilogue, steps,
                       traffic(g_.value(n.results[0]).type));
  }

  // ---- keys and values ----

  // The attention that alone reads both this append and another one.
  const Node* sole_attention(ValueId appended) const {
    const auto& uses = g_.value(appended).uses;
    if (uses.size() != 1 || g_.is_output(appended)) return nullptr;
    const Node& user = g_.node(uses[0].node);
    return user.op == OpKind::attention && (uses[0].operand == 1 || uses[0].operand == 2) ? &user : nullptr;
  }

  // Placed when the second of the two is reached: keys first.
  Status place_append(const Node& n) {
    const Node* attention = sole_attention(n.results[0]);
    const bool is_key = attention != nullptr && attention->operands[1] == n.results[0];
    const Node* other = attention == nullptr ? nullptr : g_.definition(attention->operands[is_key ? 2 : 1]);
    if (other == nullptr || other->op != OpKind::kv_append || other == &n ||
        sole_attention(other->results[0]) != attention)
      return unsupported(fmt::format(
          "kv_append {}: the keys and the values that one attention reads must both be appended for it alone", n.name));
    if (!waiting_.contains(other->id)) {
      waiting_.insert(n.id);
      return {};
    }
    Dispatch& d = add(DispatchKind::kAppend, is_key ? n : *other, "");
    d.nodes.push_back(is_key ? other->id : n.id);
    by_node_[n.id] = by_node_[other->id] = c_.dispatches.size() - 1;
    return {};
  }

  // ---- rows ----

  // A view that a row program takes up: the row's one value as a row, or the same dimensions.
  bool fits_inside(const Node& n) const {
    if (n.op != OpKind::broadcast && n.op != OpKind::reshape) return false;
    const auto at = row_group_of(n.operands[0]);
    if (!at) return false;
    const Shape& domain = domains_.at(*at);
    const RowClass from = row_class(domain, g_.value(n.operands[0]).type.dims);
    const RowClass to = row_class(domain, g_.value(n.results[0]).type.dims);
    if (from != RowClass::kRow || to == RowClass::kNeither) return false;
    if (n.op == OpKind::reshape) return to == RowClass::kRow;
    const auto dims = n.integers("dims");
    for (size_t i = 0; i < dims.size(); ++i)
      if (dims[i] != static_cast<int64_t>(i)) return false;
    return true;
  }

  std::optional<size_t> row_group_of(ValueId v) const {
    const Node* def = g_.definition(v);
    if (def == nullptr) return std::nullopt;
    const auto at = by_node_.find(def->id);
    if (at == by_node_.end() || c_.dispatches[at->second].kind != DispatchKind::kRows) return std::nullopt;
    if (!domains_.contains(at->second)) return std::nullopt;
    return at->second;
  }

  // The dispatch after which a value is there: -1 for inputs, constants and what is a view of them.
  int64_t ready_after(ValueId v) const {
    const Node* def = g_.definition(v);
    if (def == nullptr) return -1;
    const auto at = by_node_.find(def->id);
    if (at == by_node_.end()) return -1;
    // A reshape may turn out to be a copy, which runs where it stands; other views are there as soon as what they show.
    if (c_.dispatches[at->second].kind == DispatchKind::kView && def->op != OpKind::reshape)
      return ready_after(def->operands[0]);
    return static_cast<int64_t>(at->second);
  }

  void place_rows(const Node& n, const Shape& domain) {
    std::string refused;
    for (const ValueId v : n.operands) {
      const auto group = row_group_of(v);
      if (!group) continue;
      const std::string why = why_not(n, domain, *group);
      if (why.empty()) {
        join(n, *group, v);
        return;
      }
      refused = fmt::format("not joined to {}: {}", c_.dispatches[*group].name, why);
    }
    add(DispatchKind::kRows, n, refused);
    domains_[c_.dispatches.size() - 1] = domain;
  }

  std::string why_not(const Node& n, const Shape& domain, size_t group) const {
    const Dispatch& d = c_.dispatches[group];
    const Shape& rows = domains_.at(group);
    if (d.nodes.size() == kMaxRowNodes) return fmt::format("{} ops are as many as one program has", kMaxRowNodes);
    if (rows.size() > kMaxRowDimensions) return fmt::format("rows of more than {} dimensions", kMaxRowDimensions);
    for (const ValueId v : n.operands)
      if (!made_by(v, group) && ready_after(v) >= static_cast<int64_t>(group))
        return fmt::format("{} is there only after it", g_.value(v).name);
    const bool row_valued = row_class(rows, domain) == RowClass::kRow;
    if (!row_valued && row_class(rows, domain) != RowClass::kFull)
      return fmt::format("it walks other rows, of {}", to_string(graph::TensorType{DType::kF32, rows}));
    if (row_valued && walks_twice(n.op)) return "it sums over its rows";
    for (const ValueId v : n.operands)
      if (row_class(rows, g_.value(v).type.dims) == RowClass::kNeither && !broadcast_along_rows(rows, v))
        return fmt::format("{} lies across its rows", g_.value(v).name);
    Dispatch joined = d;
    joined.nodes.push_back(n.id);
    connect(joined);
    const int streams = static_cast<int>(joined.inputs.size() + joined.outputs.size());
    if (streams > kMaxRowStreams) return fmt::format("{} streams are more than {}", streams, kMaxRowStreams);
    const bool twice =
        std::any_of(joined.nodes.begin(), joined.nodes.end(), [&](NodeId id) { return walks_twice(g_.node(id).op); });
    if (twice && !rows.empty() && rows.back().is_static() && rows.back().value() * 4 * streams > kMaxRowBytes)
      return fmt::format("a row of {} streams is more than {} KiB, and is walked more than once", streams,
                         kMaxRowBytes >> 10);
    return {};
  }

  // By a node of the dispatch itself; a view of what it makes is not.
  bool made_by(ValueId v, size_t group) const {
    const Node* def = g_.definition(v);
    const auto at = def == nullptr ? by_node_.end() : by_node_.find(def->id);
    return at != by_node_.end() && at->second == group;
  }

  // One row for all: a weight [columns].
  bool broadcast_along_rows(const Shape& rows, ValueId v) const {
    const Shape& dims = g_.value(v).type.dims;
    return dims.size() == 1 && !rows.empty() && surely_equal(dims[0], rows.back());
  }

  void join(const Node& n, size_t group, ValueId through) {
    Dispatch& d = c_.dispatches[group];
    d.nodes.push_back(n.id);
    by_node_[n.id] = group;
    const bool stored = g_.value(through).uses.size() > 1 || g_.is_output(through);
    const std::string saved =
        stored ? fmt::format("a load of {}", to_string(g_.value(through).type)) : traffic(g_.value(through).type);
    d.why += fmt::format("{}{} joins: saves a launch and {}", d.why.empty() ? "" : "; ", n.name, saved);
  }

  // ---- what a dispatch reads and gives ----

  void connect(Dispatch& d) const {
    const std::set<NodeId> inside(d.nodes.begin(), d.nodes.end());
    d.inputs.clear();
    d.outputs.clear();
    for (const NodeId id : d.nodes) {
      const Node& n = g_.node(id);
      for (const ValueId v : n.operands) {
        const Node* def = g_.definition(v);
        if (def != nullptr && inside.contains(def->id)) continue;
        if (std::find(d.inputs.begin(), d.inputs.end(), v) == d.inputs.end()) d.inputs.push_back(v);
      }
      for (const ValueId v : n.results) {
        const auto& uses = g_.value(v).uses;
        const bool outside =
            std::any_of(uses.begin(), uses.end(), [&](const graph::Use& u) { return !inside.contains(u.node); });
        if (outside || g_.is_output(v)) d.outputs.push_back(v);
      }
    }
  }

  Compilation& c_;
  Graph& g_;
  std::map<NodeId, size_t> by_node_;
  std::map<size_t, Shape> domains_;  // of row dispatches that others may join
  std::set<NodeId> waiting_;         // appends whose partner comes later
  std::set<NodeId> copies_;
};

}  // namespace

std::string_view dispatch_kind_name(DispatchKind kind) {
  switch (kind) {
    case DispatchKind::kMatmul:
      return "matmul";
    case DispatchKind::kAttention:
      return "attention";
    case DispatchKind::kAppend:
      return "append";
    case DispatchKind::kRows:
      return "rows";
    case DispatchKind::kTopK:
      return "top_k";
    case DispatchKind::kExperts:
      return "experts";
    case DispatchKind::kView:
      return "view";
  }
  return "?";
}

bool is_elementwise(OpKind op) {
  switch (op) {
    case OpKind::convert:
    case OpKind::neg:
    case OpKind::abs:
    case OpKind::exp:
    case OpKind::log:
    case OpKind::tanh:
    case OpKind::erf:
    case OpKind::logistic:
    case OpKind::sqrt:
    case OpKind::rsqrt:
    case OpKind::logical_not:
    case OpKind::add:
    case OpKind::sub:
    case OpKind::mul:
    case OpKind::div:
    case OpKind::max:
    case OpKind::min:
    case OpKind::logical_and:
    case OpKind::logical_or:
    case OpKind::compare:
    case OpKind::select:
    case OpKind::silu:
    case OpKind::gelu:
    case OpKind::swiglu:
      return true;
    default:
      return false;
  }
}

RowClass row_class(const Shape& domain, const Shape& dims) {
  if (dims == domain) return RowClass::kFull;
  if (domain.empty()) return RowClass::kNeither;
  Shape outer(domain.begin(), domain.end() - 1);
  if (dims == outer) return RowClass::kRow;
  outer.push_back(Dim(1));
  return dims == outer ? RowClass::kRow : RowClass::kNeither;
}

std::optional<Shape> row_domain(const Graph& graph, const Node& node) {
  if (is_elementwise(node.op)) return graph.value(node.results[0]).type.dims;
  if (node.op == OpKind::reduce && !reduces_last_axis(graph, node)) return std::nullopt;
  if (walks_twice(node.op)) return graph.value(node.operands[0]).type.dims;
  return std::nullopt;
}

Status form_dispatches(Compilation& compilation) { return Former(compilation).run(); }

}  // namespace hone::passes
