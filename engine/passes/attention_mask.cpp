#include <cmath>

#include "engine/passes/attention_mask_internal.h"

namespace hone::passes {

using graph::Constant;
using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::OpKind;

namespace {

// What frameworks write for "hidden", from -1e9 to the least f32 and -inf: exp of it is 0 next to any score.
constexpr double kHidden = -1e9;
constexpr int kMaxDepth = 32;

bool collect(const Graph& g, View view, bool inverted, std::vector<HalfPlane>& planes, int depth) {
  view = peel(g, std::move(view));
  const Node* n = g.definition(view.value);
  if (n == nullptr || depth == 0) return false;
  switch (n->op) {
    case OpKind::logical_not:
      return collect(g, operand_of(g, view, 0), !inverted, planes, depth - 1);
    case OpKind::logical_and:
    case OpKind::logical_or:
      // Only what leaves both sides standing is a list of conditions.
      if ((n->op == OpKind::logical_and) == inverted) return false;
      return collect(g, operand_of(g, view, 0), inverted, planes, depth - 1) &&
             collect(g, operand_of(g, view, 1), inverted, planes, depth - 1);
    case OpKind::select: {
      const auto yes = uniform(g, n->operands[1]), no = uniform(g, n->operands[2]);
      if (g.value(n->results[0]).type.dtype != DType::kU8) return false;
      // c ? x : false
      if (!yes && no && *no == 0 && !inverted)
        return collect(g, operand_of(g, view, 0), false, planes, depth - 1) &&
               collect(g, operand_of(g, view, 1), false, planes, depth - 1);
      if (!yes || !no || (*yes != 0) == (*no != 0)) return false;
      return collect(g, operand_of(g, view, 0), (*yes == 0) != inverted, planes, depth - 1);
    }
    case OpKind::compare:
      break;
    default:
      return false;
  }
  const auto a = affine(g, operand_of(g, view, 0)), b = affine(g, operand_of(g, view, 1));
  std::string direction = n->text("direction");
  if (!a || !b) return false;
  if (inverted) {
    const char* const kInverse[][2] = {{"LT", "GE"}, {"GE", "LT"}, {"GT", "LE"}, {"LE", "GT"}};
    const char* to = "";
    for (const auto& pair : kInverse)
      if (direction == pair[0]) to = pair[1];
    direction = to;
  }
  // a >= b is a - b >= 0, and a > b is a - b - 1 >= 0.
  if (direction != "GE" && direction != "GT" && direction != "LE" && direction != "LT") return false;
  const bool greater = direction[0] == 'G';
  HalfPlane plane{greater ? difference(*a, *b) : difference(*b, *a)};
  if (direction[1] == 'T') --plane.rule.constant;
  planes.push_back(std::move(plane));
  return true;
}

// times_row * i + times_key * j, and nothing along other axes.
bool has_slope(const HalfPlane& p, const Scores& s, int64_t times_row, int64_t times_key) {
  for (const auto& [axis, f] : p.rule.axes) {
    if (axis == s.key_axis && f == times_key) continue;
    if (axis == s.row_axis && f == times_row) continue;
    return false;
  }
  const bool one_row = s.rows == Dim(1), one_key = s.keys == Dim(1);
  return (one_row || p.rule.axes.contains(s.row_axis)) && (one_key || p.rule.axes.contains(s.key_axis));
}

bool adds_only(const HalfPlane& p, graph::ValueId scalar, int64_t times) {
  return p.rule.scalars.size() == 1 && p.rule.scalars.begin()->first == scalar &&
         p.rule.scalars.begin()->second == times;
}

}  // namespace

std::optional<std::vector<HalfPlane>> half_planes(const Graph& g, const View& condition, bool inverted) {
  std::vector<HalfPlane> planes;
  if (!collect(g, condition, inverted, planes, kMaxDepth)) return std::nullopt;
  return planes;
}

bool is_causal(const HalfPlane& p, const Scores& s) {
  const Dim ahead = s.keys - s.rows;
  return has_slope(p, s, 1, -1) && p.rule.scalars.empty() && ahead.is_static() && ahead.value() >= 0 &&
         p.rule.constant == ahead.value();
}

std::optional<graph::ValueId> is_causal_from(const HalfPlane& p, const Scores& s) {
  if (!has_slope(p, s, 1, -1) || p.rule.constant != 0 || p.rule.scalars.size() != 1) return std::nullopt;
  const auto& [v, times] = *p.rule.scalars.begin();
  return times == 1 ? std::optional(v) : std::nullopt;
}

// j - i - ahead + W - 1 >= 0
std::optional<int64_t> window_of(const HalfPlane& p, const Scores& s) {
  const Dim ahead = s.keys - s.rows;
  if (!has_slope(p, s, -1, 1) || !p.rule.scalars.empty() || !ahead.is_static()) return std::nullopt;
  const int64_t window = p.rule.constant + ahead.value() + 1;
  return window >= 1 ? std::optional(window) : std::nullopt;
}

std::optional<int64_t> window_from(const HalfPlane& p, const Scores& s, graph::ValueId position) {
  if (!has_slope(p, s, -1, 1) || !adds_only(p, position, -1)) return std::nullopt;
  const int64_t window = p.rule.constant + 1;
  return window >= 1 ? std::optional(window) : std::nullopt;
}

bool hides(std::optional<double> number) { return number && *number <= kHidden; }

Mask added_mask(const Graph& g, const View& at) {
  const View view = peel(g, at);
  const Node* n = defined_by(g, view.value, OpKind::select);
  if (n == nullptr) return {view, false, false, 0};
  const auto yes = uniform(g, n->operands[1]), no = uniform(g, n->operands[2]);
  if (yes && *yes == 0 && hides(no)) return {operand_of(g, view, 0), true, false, *no};
  if (no && *no == 0 && hides(yes)) return {operand_of(g, view, 0), true, true, *yes};
  return {view, false, false, 0};
}

bool is_causal_constant(const Graph& g, const Mask& mask, const Scores& s) {
  const View view = peel(g, mask.view);
  const Constant* c = g.constant(view.value);
  if (c == nullptr || c->splat || c->type.dtype == DType::kS32 || !s.rows.is_static() || !s.keys.is_static())
    return false;
  const int64_t rows = s.rows.value(), keys = s.keys.value();
  int last = -1;  // rows before keys
  for (size_t i = 0; i < view.axes.size(); ++i) {
    if (c->type.dims[i] == Dim(1)) continue;
    const int axis = view.axes[i];
    if ((axis != s.row_axis && axis != s.key_axis) || (axis == s.row_axis && last >= 0)) return false;
    last = static_cast<int>(i);
  }
  if (c->type.elements() != rows * keys || keys < rows) return false;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < keys; ++j) {
      const bool seen = j <= i + keys - rows;
      const double e = c->number_at(i * keys + j);
      const bool says = mask.condition ? (e != 0) != mask.inverted : e == 0;
      if (says != seen || (!mask.condition && !seen && !hides(e))) return false;
    }
  return true;
}

}  // namespace hone::passes
