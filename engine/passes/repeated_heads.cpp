#include "engine/passes/repeated_heads_internal.h"

#include <algorithm>

#include "engine/passes/match_internal.h"

namespace hone::passes {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::OpKind;
using graph::Shape;
using graph::ValueId;

// A broadcast that repeats one axis of its result alone; -1 otherwise.
int repeated_axis(const Graph& g, const Node& broadcast) {
  const auto dims = broadcast.integers("dims");
  const Shape &from = g.value(broadcast.operands[0]).type.dims, &to = g.value(broadcast.results[0]).type.dims;
  int repeated = -1;
  int64_t last = -1;
  for (size_t axis = 0; axis < to.size(); ++axis) {
    const auto at = std::find(dims.begin(), dims.end(), static_cast<int64_t>(axis));
    if (at != dims.end()) {
      if (at - dims.begin() < last) return -1;  // it also changes the order
      last = at - dims.begin();
      if (surely_equal(from[static_cast<size_t>(last)], to[axis])) continue;
    } else if (to[axis] == Dim(1)) {
      continue;
    }
    if (repeated >= 0) return -1;
    repeated = static_cast<int>(axis);
  }
  return repeated;
}

// Where `axis` of `merged` is the product of two axes of `apart`, and all others are equal, sizes of 1 aside: the
// second of the two, and how many heads there are without it.
struct Merge {
  int axis;
  Dim heads;
};
std::optional<Merge> merge_of(const Shape& apart, const Shape& merged, int axis, int repeated) {
  const Dim heads = merged[static_cast<size_t>(axis)], times = apart[static_cast<size_t>(repeated)];
  if (!heads.is_static() || !times.is_static() || times.value() < 1 || heads.value() % times.value() != 0)
    return std::nullopt;
  const Dim groups = heads.value() / times.value();
  Shape left, right;
  for (size_t i = 0; i < merged.size(); ++i) {
    if (static_cast<int>(i) != axis) {
      right.push_back(merged[i]);
    } else {
      right.push_back(groups);
      right.push_back(times);
    }
  }
  // The repeated axis must stand at the place of `times`, counted without sizes of 1.
  int place_left = -1, place_right = -1;
  Shape a, b;
  for (size_t i = 0; i < apart.size(); ++i) {
    if (static_cast<int>(i) == repeated) place_left = static_cast<int>(a.size());
    if (apart[i] != Dim(1)) a.push_back(apart[i]);
  }
  for (size_t i = 0; i < right.size(); ++i) {
    if (static_cast<int>(i) == axis + 1) place_right = static_cast<int>(b.size());
    if (right[i] != Dim(1)) b.push_back(right[i]);
  }
  if (a != b || place_left != place_right) return std::nullopt;
  return Merge{repeated, groups};
}

struct Repeat {
  ValueId source;
  int64_t times;
  Dim groups;
};
std::optional<Repeat> repeat_at(const Graph& g, ValueId v, int axis) {
  const Node* n = g.definition(v);
  if (n == nullptr) return std::nullopt;
  const Node* broadcast = n->op == OpKind::reshape ? defined_by(g, n->operands[0], OpKind::broadcast) : n;
  if (broadcast == nullptr || broadcast->op != OpKind::broadcast) return std::nullopt;
  const int repeated = repeated_axis(g, *broadcast);
  if (repeated < 0) return std::nullopt;
  const Shape& apart = g.value(broadcast->results[0]).type.dims;
  const auto merge = merge_of(apart, g.value(v).type.dims, axis, repeated);
  if (!merge || apart[static_cast<size_t>(repeated)].value() < 2) return std::nullopt;
  return Repeat{broadcast->operands[0], apart[static_cast<size_t>(repeated)].value(), merge->heads};
}

// The axis of the operand of a transpose.
int before_transpose(const Node& transpose, int axis) {
  return static_cast<int>(transpose.integers("perm")[static_cast<size_t>(axis)]);
}

}  // namespace

double take_scale(Rewriter& r, ValueId& v) {
  const Node* n = r.g.definition(v);
  if (n == nullptr) return 1;
  if (n->op == OpKind::mul || n->op == OpKind::div) {
    for (const size_t side : {0u, 1u}) {
      const auto u = uniform(r.g, n->operands[1 - side]);
      if (!u || *u == 0 || (n->op == OpKind::div && side == 1)) continue;
      const bool divided = n->op == OpKind::div;
      v = n->operands[side];
      return (divided ? 1 / *u : *u) * take_scale(r, v);
    }
    return 1;
  }
  if (n->op != OpKind::transpose && n->op != OpKind::reshape) return 1;
  const Node shape = *n;
  ValueId inner = shape.operands[0];
  const double factor = take_scale(r, inner);
  if (factor == 1) return 1;
  v = r.add_typed(shape.op, {inner}, shape.attributes, r.type(shape.results[0]));
  return factor;
}

std::optional<int64_t> repeats_of(const Graph& g, ValueId v, int axis) {
  const Node* n = g.definition(v);
  if (n != nullptr && n->op == OpKind::transpose) return repeats_of(g, n->operands[0], before_transpose(*n, axis));
  const auto repeat = repeat_at(g, v, axis);
  return repeat ? std::optional(repeat->times) : std::nullopt;
}

ValueId without_repeats(Rewriter& r, ValueId v, int axis) {
  const Node* n = r.g.definition(v);
  if (n->op == OpKind::transpose) {
    const Node transpose = *n;
    const auto perm = transpose.integers("perm");
    const ValueId inner = without_repeats(r, transpose.operands[0], before_transpose(transpose, axis));
    return r.transpose(inner, {perm.begin(), perm.end()});
  }
  const auto repeat = repeat_at(r.g, v, axis);
  Shape dims = r.type(v).dims;
  dims[static_cast<size_t>(axis)] = repeat->groups;
  return r.reshape(repeat->source, std::move(dims));
}

}  // namespace hone::passes
