// Runs after projections are joined, so that their weights are what a chain of moves makes of constants, and their
// epilogues are whole: the factor of a row goes in front. specialize_constants multiplies the weights, once.
#include "engine/passes/folded_norms_internal.h"

#include <fmt/format.h>

#include <algorithm>

namespace hone::passes {
namespace {

using graph::Attributes;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::OpKind;
using graph::ValueId;

constexpr std::string_view kRowScale = "*row_scale";

// Computed from constants by moving elements only.
bool made_of_constants(const Graph& g, ValueId v) {
  const Node* n = g.definition(v);
  if (n == nullptr) return false;
  if (n->op == OpKind::constant) return true;
  const bool moves =
      n->op == OpKind::reshape || n->op == OpKind::transpose || n->op == OpKind::slice || n->op == OpKind::concatenate;
  return moves &&
         std::all_of(n->operands.begin(), n->operands.end(), [&](ValueId x) { return made_of_constants(g, x); });
}

// Why the norm stays as it is; "" where it can be folded.
std::string why_apart(const Graph& g, const Node& norm) {
  const ValueId y = norm.results[0];
  if (g.is_output(y)) return "it is an output";
  if (g.value(y).type.rank() < 2 || !g.value(y).type.dims.back().is_static()) return "its rows have no fixed length";
  if (g.constant(norm.operands[1]) == nullptr) return "its weights are not constant";
  if (g.value(y).uses.empty()) return "nothing reads it";
  for (const graph::Use& use : g.value(y).uses) {
    const Node& user = g.node(use.node);
    if (user.op != OpKind::matmul || use.operand != 0)
      return fmt::format("{} {} reads it as well", graph::op_info(user.op).name, user.name);
    if (!made_of_constants(g, user.operands[1])) return fmt::format("the weights of {} are not constant", user.name);
    const DType stored = g.value(user.operands[1]).type.dtype;
    if (stored != DType::kF32) return fmt::format("the weights of {} are {}", user.name, dtype_name(stored));
    if (user.text("epilogue").starts_with(kRowScale)) return fmt::format("{} scales its rows already", user.name);
  }
  return "";
}

void fold_into(Rewriter& r, NodeId matmul, const Node& norm, ValueId scale) {
  const Node m = r.g.node(matmul);
  r.before(matmul);
  const ValueId weights = m.operands[1];
  const int64_t k_axis = m.text("layout") == "nt" ? 1 : 0;
  const ValueId along_k =
      r.add_typed(OpKind::broadcast, {norm.operands[1]}, {{"dims", std::vector<int64_t>{k_axis}}}, r.type(weights));
  std::vector<ValueId> operands = m.operands;
  operands[0] = norm.operands[0];
  operands[1] = r.add(OpKind::mul, {weights, along_k}, {}, m.name + "_scaled");
  operands.insert(operands.begin() + 2, scale);
  Attributes attributes = m.attributes;
  attributes["epilogue"] = std::string(kRowScale) + m.text("epilogue");
  r.replace(matmul, r.add(OpKind::matmul, std::move(operands), std::move(attributes)));
}

void fold_norm(Rewriter& r, NodeId id) {
  const Node norm = r.g.node(id);
  if (const std::string why = why_apart(r.g, norm); !why.empty()) {
    r.note(norm.name, "norm stays apart", why);
    return;
  }
  std::vector<NodeId> matmuls;
  std::string names;
  for (const graph::Use& use : r.g.value(norm.results[0]).uses) {
    matmuls.push_back(use.node);
    names += (names.empty() ? "" : ", ") + r.g.node(use.node).name;
  }
  r.before(id);
  const ValueId scale =
      r.add(OpKind::rms_scale, {norm.operands[0]}, {{"eps", norm.number("eps")}}, norm.name + "_scale");
  for (const NodeId m : matmuls) fold_into(r, m, norm, scale);
  const int64_t row = 4 * r.type(norm.results[0]).dims.back().value();
  r.note(norm.name, fmt::format("its weights go into those of {}, its factor becomes *row_scale", names),
         fmt::format("stores 4 bytes a row instead of {}, and saves no launch; class ordered, norm folded", row));
}

}  // namespace

void fold_norms(Rewriter& r) {
  const std::vector<NodeId> order = r.g.order();
  for (const NodeId id : order)
    if (r.g.is_live(id) && r.g.node(id).op == OpKind::rms_norm) fold_norm(r, id);
  r.g.erase_dead();
}

}  // namespace hone::passes
