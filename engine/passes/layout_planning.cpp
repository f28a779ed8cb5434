#include "engine/passes/layout_planning.h"

#include <fmt/format.h>

#include "engine/passes/form_dispatches.h"
#include "engine/passes/rewrite_internal.h"

namespace hone::passes {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::OpKind;
using graph::Shape;
using graph::ValueId;

// Lines of so many bytes map to one set: 64 sets of 64 bytes.
constexpr int64_t kPeriod = 4096;

class Planner {
 public:
  explicit Planner(Compilation& c) : c_(c), r_(c, "layout_planning"), g_(c.graph) {}

  Status run() {
    c_.layouts.clear();
    for (const auto& [node, layout] : g_.layouts)
      r_.note(node, fmt::format("layout '{}' is not taken over", layout), "this machine's plan has its own");
    g_.layouts.clear();
    if (c_.policy.layout == LayoutPolicy::kDense) return {};
    for (const NodeId id : g_.order())
      if (g_.node(id).op == OpKind::matmul) plan(g_.node(id));
    return {};
  }

 private:
  const Shape& dims(ValueId v) const { return g_.value(v).type.dims; }

  void plan(const Node& matmul) {
    const ValueId a = matmul.operands[0];
    const Dim columns = dims(a).back();
    if (!columns.is_static() || columns.value() * 4 % kPeriod != 0 || one_row(a)) return;
    const ValueId owner = owner_of(a);
    if (c_.layouts.contains(owner)) return;
    const std::string name = g_.value(owner).name;
    std::string why =
        dims(owner).back() == columns ? why_not_written(owner) : "its rows are made of several of its own";
    if (why.empty()) why = why_not_read(owner);
    if (!why.empty()) {
      r_.note(name, "rows stay dense", why);
      return;
    }
    const int64_t row = columns.value() + kPaddingFloats;
    why = fmt::format("rows of {} bytes collide in the L1 where {} reads several", columns.value() * 4, matmul.name);
    c_.layouts[owner] = {row, why};
    g_.layouts[name] = fmt::format("rows={}", row);
    r_.note(name, fmt::format("rows {} floats apart", row), why);
  }

  bool one_row(ValueId v) const {
    for (size_t i = 0; i + 1 < dims(v).size(); ++i)
      if (dims(v)[i] != Dim(1)) return false;
    return true;
  }

  // What it is a view of, in rows of the same kind or not.
  ValueId owner_of(ValueId v) const {
    const Node* n = g_.definition(v);
    return n != nullptr && n->op == OpKind::reshape ? owner_of(n->operands[0]) : v;
  }

  std::string why_not_written(ValueId owner) const {
    const Node* n = g_.definition(owner);
    if (n == nullptr || n->op == OpKind::constant) return "callers and constants have dense rows";
    if (g_.is_output(owner)) return "callers read it";
    switch (n->op) {
      case OpKind::matmul:
      case OpKind::rms_norm:
      case OpKind::layer_norm:
      case OpKind::softmax:
        return "";
      default:
        return is_elementwise(n->op) ? "" : fmt::format("{} writes dense rows", op_info(n->op).name);
    }
  }
  // Every reader takes rows at a distance.
  std::string why_not_read(ValueId v) const {
    for (const graph::Use& use : g_.value(v).uses) {
      const Node& n = g_.node(use.node);
      if (n.op == OpKind::matmul) {
        // The result would have to lie as its gate or residual does.
        if (use.operand > 1) return fmt::format("{} adds it to its result, which lies as it does", n.name);
        if (use.operand == 1) return fmt::format("{} reads it as weights", n.name);
        continue;
      }
      if (n.op == OpKind::reshape) {
        if (g_.is_output(n.results[0])) return "callers read it";
        if (const std::string why = why_not_read(n.results[0]); !why.empty()) return why;
        continue;
      }
      const bool rows = is_elementwise(n.op) || n.op == OpKind::rms_norm || n.op == OpKind::rms_scale ||
                        n.op == OpKind::layer_norm || n.op == OpKind::softmax || n.op == OpKind::slice ||
                        (n.op == OpKind::reduce && n.integers("axes").size() == 1 &&
                         n.integers("axes")[0] == g_.value(n.operands[0]).type.rank() - 1);
      if (!rows) return fmt::format("{} reads dense rows", n.name);
    }
    return "";
  }

  Compilation& c_;
  Rewriter r_;
  Graph& g_;
};

}  // namespace

Status layout_planning(Compilation& compilation) { return Planner(compilation).run(); }

}  // namespace hone::passes
