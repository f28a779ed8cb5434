#include "engine/passes/decoder_fusion.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "engine/passes/folded_norms_internal.h"
#include "engine/passes/match_internal.h"
#include "engine/passes/rewrite_internal.h"
#include "kernels/matmul/problem.h"

namespace hone::passes {
namespace {

using graph::Attributes;
using graph::Dim;
using graph::Node;
using graph::NodeId;
using graph::OpKind;
using graph::Shape;
using graph::TensorType;
using graph::ValueId;

constexpr std::string_view kPass = "decoder_fusion";
// How far an attention may be from a projection: reshape, norm, rope, append.
constexpr int kFarthestAttention = 8;

class Fusion {
 public:
  explicit Fusion(Compilation& c) : policy_(c.policy), r_(c, kPass), g_(c.graph) {}

  Status run() {
    for_each(OpKind::matmul, [&](NodeId id) { absorb_all(id); });
    if (policy_.gate_up == BoundaryPolicy::kFused) for_each(OpKind::swiglu, [&](NodeId id) { join_gate_up(id); });
    if (policy_.qkv == BoundaryPolicy::kFused) {
      for_each(OpKind::matmul, [&](NodeId id) { join_projections(id); });
      for_each(OpKind::rope, [&](NodeId id) { join_ropes(id); });
    }
    if (policy_.norm == NormPolicy::kFolded) fold_norms(r_);
    g_.erase_dead();
    return r_.status();
  }

 private:
  template <typename Visit>
  void for_each(OpKind op, const Visit& visit) {
    const std::vector<NodeId> order = g_.order();
    for (const NodeId id : order)
      if (g_.is_live(id) && g_.node(id).op == op) visit(id);
  }
  const TensorType& type(ValueId v) const { return g_.value(v).type; }
  const Node* matmul_of(ValueId v) const {
    const Node* n = g_.definition(v);
    return n != nullptr && n->op == OpKind::matmul ? n : nullptr;
  }

  // ---- epilogues ----

  struct Step {
    std::string text;      // "+bias"
    ValueId operand = -1;  // none
    bool residual = false;
  };

  // What the only user of `m` does to it, as a step of an epilogue; "" where it is none.
  Step step_of(const Node& m, const Node& user) const {
    const ValueId result = m.results[0];
    switch (user.op) {
      case OpKind::silu:
        return {"+silu"};
      case OpKind::gelu:
        return {user.text("approximate") == "tanh" ? "+gelu_tanh" : "+gelu_erf"};
      case OpKind::max: {
        const ValueId other = user.operands[user.operands[0] == result ? 1 : 0];
        const auto floor = uniform(g_, other);
        return floor && *floor == 0 ? Step{"+relu"} : Step{};
      }
      case OpKind::add:
      case OpKind::mul:
        break;
      default:
        return {};
    }
    const ValueId other = user.operands[user.operands[0] == result ? 1 : 0];
    if (const View view = peel(g_, whole(g_, other)); user.op == OpKind::add && is_columns(view, result))
      return {"+bias", view.value};
    const Node* n = g_.definition(other);
    if (n != nullptr && (n->op == OpKind::broadcast || n->op == OpKind::constant)) return {};  // no rows of its own
    return user.op == OpKind::mul ? Step{"*gate", other} : Step{"+residual", other, true};
  }

  // One row for all rows of `result`; of a single row, only a constant is taken for that.
  bool is_columns(const View& view, ValueId result) const {
    const int last = type(result).rank() - 1;
    if (!varies_only_along(g_, view, last)) return false;
    const Node* n = g_.definition(view.value);
    const bool repeated = type(view.value).rank() == 1 || (n != nullptr && n->op == OpKind::constant);
    const Shape& dims = type(view.value).dims;
    return repeated && std::any_of(dims.begin(), dims.end(),
                                   [&](const Dim& d) { return surely_equal(d, type(result).dims.back()); });
  }

  static bool contains(const std::string& epilogue, const std::string& step) {
    return step != "+silu" && epilogue.find(step) != std::string::npos;
  }

  void absorb_all(NodeId id) {
    while (true) {
      const Node& m = g_.node(id);
      const Node* user = sole_user(g_, m.results[0]);
      if (user == nullptr || type(m.results[0]).rank() < 2 || type(user->results[0]) != type(m.results[0])) return;
      const Step step = step_of(m, *user);
      if (step.text.empty() || contains(m.text("epilogue"), step.text)) return;
      if (step.residual && policy_.residual == BoundaryPolicy::kSeparate) {
        r_.note(m.name, fmt::format("{} stays apart", user->name), "the policy says residual=separate");
        return;
      }
      id = absorb(id, user->id, step);
    }
  }

  // One matmul at the place of what follows it.
  NodeId absorb(NodeId matmul, NodeId user, const Step& step) {
    const Node m = g_.node(matmul);
    r_.before(user);
    std::vector<ValueId> operands = m.operands;
    const bool bias = step.text == "+bias";
    if (step.operand >= 0)
      operands.push_back(bias ? r_.reshape(step.operand, {type(g_.result(matmul)).dims.back()}) : step.operand);
    Attributes attributes = m.attributes;
    attributes["epilogue"] = m.text("epilogue") + step.text;
    const ValueId fused = r_.add(OpKind::matmul, std::move(operands), std::move(attributes));
    const NodeId id = g_.value(fused).node;
    g_.node(id).schedule = m.schedule;
    r_.note(m.name, fmt::format("{} becomes its epilogue {}", g_.node(user).name, step.text),
            saved_traffic(type(fused)));
    r_.drop(user, fused);
    g_.erase(matmul);
    g_.rename(id, m.name);
    g_.node(id).line = m.line;
    return id;
  }

  // ---- gate and up ----

  bool joinable(const Node& n) const {
    const std::string epilogue = n.text("epilogue");
    if (g_.constant(n.operands[1]) == nullptr) return false;
    return epilogue.empty() || (epilogue == "+bias" && g_.constant(n.operands[2]) != nullptr);
  }

  void join_gate_up(NodeId id) {
    const Node& swiglu = g_.node(id);
    const Node *gate = matmul_of(swiglu.operands[0]), *up = matmul_of(swiglu.operands[1]);
    if (gate == nullptr || up == nullptr || gate == up) return;
    if (!used_once(g_, gate->results[0]) || !used_once(g_, up->results[0]) || type(gate->results[0]).rank() < 2) return;
    const std::string apart = why_apart(*gate, *up);
    if (apart.empty()) {
      interleave(id, *gate, *up);
    } else if (gate->operands[0] == up->operands[0]) {
      gate_as_operand(id, *gate, *up, apart);
    }
  }

  // Why one matmul cannot compute both; "" where it can.
  std::string why_apart(const Node& gate, const Node& up) const {
    if (gate.operands[0] != up.operands[0]) return "they read different values";
    if (!joinable(gate) || !joinable(up)) return "their weights are not constants";
    if (type(gate.operands[1]).dtype != type(up.operands[1]).dtype) return "their weights are of different types";
    if (gate.text("layout") != up.text("layout") || gate.text("epilogue") != up.text("epilogue"))
      return "they are laid out differently";
    const Dim& ff = type(gate.results[0]).dims.back();
    if (!ff.is_static() || ff.value() % matmul::kSwigluColumns != 0)
      return fmt::format("{} columns are no multiple of {}", to_string(ff), matmul::kSwigluColumns);
    return "";
  }

  // Columns of gate and up in turn, kSwigluColumns of each. Along `axis` of a constant.
  ValueId interleaved(ValueId gate, ValueId up, size_t axis, const std::string& name) {
    const Shape dims = type(gate).dims;
    const int64_t columns = dims[axis].value();
    Shape grouped = dims;
    grouped[axis] = columns / matmul::kSwigluColumns;
    grouped.insert(grouped.begin() + static_cast<ptrdiff_t>(axis) + 1, Dim(matmul::kSwigluColumns));
    std::vector<ValueId> parts;
    for (const ValueId v : {gate, up})
      parts.push_back(r_.reshape(r_.constant(*g_.constant(v), g_.value(v).name), grouped));
    const ValueId joined = r_.add(OpKind::concatenate, parts, {{"axis", static_cast<int64_t>(axis) + 1}});
    Shape flat = dims;
    flat[axis] = 2 * columns;
    return r_.add_typed(OpKind::reshape, {joined}, {}, {type(gate).dtype, std::move(flat)}, name);
  }

  void interleave(NodeId swiglu, const Node& gate, const Node& up) {
    r_.before(swiglu);
    const std::string name = gate.name + "_up";
    const std::string layout = gate.text("layout"), bias = gate.text("epilogue");
    std::vector<ValueId> operands = {
        gate.operands[0], interleaved(gate.operands[1], up.operands[1], layout == "nt" ? 0 : 1, name + "_weights")};
    if (!bias.empty()) operands.push_back(interleaved(gate.operands[2], up.operands[2], 0, name + "_bias"));
    const ValueId fused =
        r_.add(OpKind::matmul, std::move(operands), {{"layout", layout}, {"epilogue", bias + "+swiglu"}});
    const TensorType columns = type(gate.results[0]);
    r_.note(gate.name, fmt::format("{} and {} become one matmul with +swiglu", up.name, g_.node(swiglu).name),
            fmt::format("{}, twice, and a load of {}", saved_traffic(columns, 2), to_string(type(gate.operands[0]))));
    const std::string name_of_gate = gate.name;
    const auto schedule = gate.schedule;
    r_.replace(swiglu, fused);
    if (!g_.node(g_.value(fused).node).schedule) g_.node(g_.value(fused).node).schedule = schedule;
    g_.erase_dead();
  }

  void gate_as_operand(NodeId swiglu, const Node& gate, const Node& up, const std::string& why) {
    if (contains(up.text("epilogue"), "*gate")) return;
    r_.before(swiglu);
    Attributes of_gate = gate.attributes, of_up = up.attributes;
    of_gate["epilogue"] = gate.text("epilogue") + "+silu";
    of_up["epilogue"] = up.text("epilogue") + "*gate";
    const ValueId g = r_.add(OpKind::matmul, gate.operands, of_gate, gate.name);
    std::vector<ValueId> operands = up.operands;
    operands.push_back(g);
    const ValueId fused = r_.add(OpKind::matmul, operands, of_up);
    r_.note(gate.name, fmt::format("+silu, and the gate of {}", up.name),
            fmt::format("two matmuls, since {}; {}", why, saved_traffic(type(fused))));
    r_.replace(swiglu, fused);
    g_.erase_dead();
  }

  // ---- projections of one input ----

  bool reaches_attention(ValueId v, int steps) const {
    if (steps == 0) return false;
    for (const graph::Use& use : g_.value(v).uses) {
      const Node& n = g_.node(use.node);
      if (n.op == OpKind::attention) return true;
      const bool passes = n.op == OpKind::reshape || n.op == OpKind::transpose || n.op == OpKind::rope ||
                          n.op == OpKind::rms_norm || n.op == OpKind::kv_append;
      if (passes && reaches_attention(n.results[0], steps - 1)) return true;
    }
    return false;
  }
  bool feeds_rope(ValueId v) const {
    const Node* n = sole_user(g_, v);
    return n != nullptr && (n->op == OpKind::rope || (n->op == OpKind::reshape && feeds_rope(n->results[0])));
  }

  void join_projections(NodeId first) {
    const Node& m = g_.node(first);
    const auto belongs = [&](const Node& n) {
      return n.op == OpKind::matmul && n.operands[0] == m.operands[0] && joinable(n) &&
             type(n.operands[1]).dtype == type(m.operands[1]).dtype && n.text("layout") == m.text("layout") &&
             n.text("epilogue") == m.text("epilogue") && reaches_attention(n.results[0], kFarthestAttention);
    };
    if (!belongs(m)) return;
    std::vector<NodeId> members;
    for (const NodeId id : g_.order())
      if (belongs(g_.node(id))) members.push_back(id);
    if (members.size() < 2) return;
    std::stable_partition(members.begin(), members.end(), [&](NodeId id) { return feeds_rope(g_.result(id)); });
    join(first, members);
  }

  // The same operand of all members, one after the other along `axis`.
  ValueId side_by_side(const std::vector<NodeId>& members, size_t operand, int64_t axis, const std::string& name) {
    std::vector<ValueId> parts;
    for (const NodeId id : members) {
      const ValueId v = g_.node(id).operands[operand];
      parts.push_back(r_.constant(*g_.constant(v), g_.value(v).name));
    }
    return r_.add(OpKind::concatenate, std::move(parts), {{"axis", axis}}, name);
  }

  void join(NodeId first, const std::vector<NodeId>& members) {
    r_.before(first);
    const Node& m = g_.node(first);
    const std::string layout = m.text("layout"), bias = m.text("epilogue");
    const TensorType input = type(m.operands[0]);
    std::vector<ValueId> operands = {m.operands[0], side_by_side(members, 1, layout == "nt" ? 0 : 1, "qkv_weights")};
    Attributes attributes = {{"layout", layout}};
    if (!bias.empty()) {
      operands.push_back(side_by_side(members, 2, 0, "qkv_bias"));
      attributes["epilogue"] = bias;
    }
    const ValueId joined = r_.add(OpKind::matmul, std::move(operands), std::move(attributes), "qkv");
    const size_t rank = type(joined).dims.size();
    std::string names;
    auto hint = m.schedule;
    int64_t column = 0;
    for (const NodeId id : members) {
      const int64_t columns = type(g_.result(id)).dims.back().value();
      std::vector<int64_t> start(rank, 0), limit(rank, -1);
      start.back() = column, limit.back() = column + columns;
      column += columns;
      names += (names.empty() ? "" : ", ") + g_.node(id).name;
      if (g_.node(id).schedule != hint) hint.reset();
      r_.drop(id, r_.add(OpKind::slice, {joined}, {{"start", start}, {"limit", limit}}));
    }
    g_.node(g_.value(joined).node).schedule = hint;
    const std::string bytes = input.is_static() ? fmt::format(" ({} bytes)", input.bytes()) : "";
    r_.note(g_.value(joined).name, fmt::format("{} become one matmul", names),
            fmt::format("saves {} launches and as many loads of {}{}", members.size() - 1, to_string(input), bytes));
    g_.erase_dead();
  }

  // ---- RoPE of queries and keys ----

  // rope <- reshape [.., heads, d] <- slice of the last axis, each used once.
  struct Heads {
    NodeId rope, slice;
    ValueId from;
    int64_t start, limit, heads;
    Shape dims;
  };
  std::optional<Heads> heads_of(NodeId id) const {
    const Node& rope = g_.node(id);
    if (rope.op != OpKind::rope) return std::nullopt;
    const Node* shape = g_.definition(rope.operands[0]);
    if (shape == nullptr || shape->op != OpKind::reshape) return std::nullopt;
    const Node* slice = g_.definition(shape->operands[0]);
    if (slice == nullptr || slice->op != OpKind::slice || !slice->integers("stride").empty()) return std::nullopt;
    if (!used_once(g_, shape->results[0]) || !used_once(g_, slice->results[0])) return std::nullopt;
    const Shape dims = type(shape->results[0]).dims, rows = type(slice->results[0]).dims;
    const auto start = slice->integers("start"), limit = slice->integers("limit");
    const size_t rank = dims.size();
    const bool split = rows.size() + 1 == rank && std::equal(rows.begin(), rows.end() - 1, dims.begin()) &&
                       dims[rank - 2].is_static() && dims[rank - 1].is_static();
    for (size_t i = 0; i + 1 < start.size(); ++i)
      if (start[i] != 0 || limit[i] != -1) return std::nullopt;
    if (!split || limit.back() < 0) return std::nullopt;
    return Heads{id, slice->id, slice->operands[0], start.back(), limit.back(), dims[rank - 2].value(), dims};
  }

  void join_ropes(NodeId id) {
    const auto a = heads_of(id);
    if (!a) return;
    for (const NodeId other : g_.order()) {
      if (other == id) continue;
      const auto b = heads_of(other);
      if (!b || b->from != a->from || b->start != a->limit || b->dims.back() != a->dims.back()) continue;
      const Node &x = g_.node(id), &y = g_.node(other);
      if (x.attributes != y.attributes ||
          !std::equal(x.operands.begin() + 1, x.operands.end(), y.operands.begin() + 1, y.operands.end()))
        continue;
      join_ropes(*a, *b);
      return;
    }
  }

  void join_ropes(const Heads& a, const Heads& b) {
    const auto& order = g_.order();
    const auto at = [&](NodeId id) { return std::find(order.begin(), order.end(), id); };
    r_.before(at(a.rope) < at(b.rope) ? a.rope : b.rope);
    const Node rope = g_.node(a.rope);
    const size_t rank = a.dims.size();
    std::vector<int64_t> start(rank - 1, 0), limit(rank - 1, -1);
    start.back() = a.start, limit.back() = b.limit;
    Shape dims = a.dims;
    dims[rank - 2] = a.heads + b.heads;
    const ValueId columns = r_.add(OpKind::slice, {a.from}, {{"start", start}, {"limit", limit}});
    std::vector<ValueId> operands = rope.operands;
    operands[0] = r_.reshape(columns, dims);
    const ValueId turned = r_.add(OpKind::rope, std::move(operands), rope.attributes, "rope_qk");
    r_.note(g_.value(turned).name, fmt::format("{} and {} become one", rope.name, g_.node(b.rope).name),
            "saves a launch: their heads lie side by side");
    int64_t head = 0;
    for (const Heads* h : {&a, &b}) {
      std::vector<int64_t> from(rank, 0), to(rank, -1);
      from[rank - 2] = head, to[rank - 2] = head + h->heads;
      head += h->heads;
      r_.drop(h->rope, r_.add(OpKind::slice, {turned}, {{"start", from}, {"limit", to}}));
    }
    g_.erase_dead();
  }

  const PlanPolicy& policy_;
  Rewriter r_;
  graph::Graph& g_;
};

}  // namespace

Status decoder_fusion(Compilation& compilation) { return Fusion(compilation).run(); }

}  // namespace hone::passes
