#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/passes/match_internal.h"

namespace hone::passes {

using graph::Constant;
using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::OpKind;
using graph::Shape;
using graph::ValueId;

namespace {

// Patterns are a few dozen nodes deep; what goes deeper is none of them.
constexpr int kMaxDepth = 64;
// Elements that are looked at to see whether all are equal.
constexpr int64_t kFewElements = 64;

bool is_one(const Dim& d) { return d == Dim(1); }

std::optional<double> uniform_at(const Graph& g, ValueId v, int depth) {
  const Node* n = g.definition(v);
  if (n == nullptr || depth == 0) return std::nullopt;
  switch (n->op) {
    case OpKind::constant: {
      const Constant& c = *n->constant;
      const int64_t elements = c.splat ? 1 : c.type.elements();
      if (elements < 1 || elements > kFewElements) return std::nullopt;
      const double first = c.number_at(0);
      for (int64_t i = 1; i < elements; ++i)
        if (c.number_at(i) != first) return std::nullopt;
      return first;
    }
    case OpKind::broadcast:
    case OpKind::reshape:
    case OpKind::transpose:
    case OpKind::slice:
      return uniform_at(g, n->operands[0], depth - 1);
    case OpKind::neg: {
      const auto x = uniform_at(g, n->operands[0], depth - 1);
      return x ? std::optional(-*x) : std::nullopt;
    }
    case OpKind::convert: {
      const auto x = uniform_at(g, n->operands[0], depth - 1);
      if (!x || g.value(v).type.dtype == DType::kU8) return std::nullopt;
      return g.value(v).type.dtype == DType::kS32 ? std::trunc(*x) : *x;
    }
    default:
      return std::nullopt;
  }
}

// Axes of a reshape that only adds or drops dimensions of 1: for each dimension of `from` that of `to`, or -1.
std::optional<std::vector<int>> unit_reshape(const Shape& from, const Shape& to) {
  std::vector<int> axes(from.size(), -1);
  size_t j = 0;
  for (size_t i = 0; i < from.size(); ++i) {
    if (!is_one(from[i]))
      while (j < to.size() && is_one(to[j])) ++j;
    if (j < to.size() && surely_equal(from[i], to[j])) {
      axes[i] = static_cast<int>(j++);
    } else if (!is_one(from[i])) {
      return std::nullopt;
    }
  }
  for (; j < to.size(); ++j)
    if (!is_one(to[j])) return std::nullopt;
  return axes;
}

void multiply(const Graph& g, ValueId v, bool root, bool divisor, Product& p, int depth) {
  if (const auto u = uniform(g, v)) {
    p.factor = divisor ? p.factor / *u : p.factor * *u;
    return;
  }
  const Node* n = g.definition(v);
  const bool inside = n != nullptr && depth > 0 && (root || (g.value(v).uses.size() == 1 && !g.is_output(v)));
  if (inside && n->op == OpKind::mul) {
    // Twice the same operand is one use more than a single read.
    for (const ValueId x : n->operands) multiply(g, x, false, divisor, p, depth - 1);
  } else if (inside && n->op == OpKind::div) {
    multiply(g, n->operands[0], false, divisor, p, depth - 1);
    multiply(g, n->operands[1], false, !divisor, p, depth - 1);
  } else if (inside && n->op == OpKind::neg) {
    p.factor = -p.factor;
    multiply(g, n->operands[0], false, divisor, p, depth - 1);
  } else {
    (divisor ? p.divisors : p.values).push_back(v);
  }
}

void add(Affine& a, const Affine& b, int64_t times) {
  for (const auto& [axis, f] : b.axes)
    if ((a.axes[axis] += times * f) == 0) a.axes.erase(axis);
  for (const auto& [v, f] : b.scalars)
    if ((a.scalars[v] += times * f) == 0) a.scalars.erase(v);
  a.constant += times * b.constant;
}

// A vector of whole numbers, each one more than that before it.
std::optional<Affine> steps(const Constant& c, const View& view) {
  if (c.splat || c.type.dtype != DType::kS32) return std::nullopt;
  int axis = -1;
  for (size_t i = 0; i < c.type.dims.size(); ++i) {
    if (is_one(c.type.dims[i])) continue;
    if (axis >= 0 || view.axes[i] < 0) return std::nullopt;
    axis = view.axes[i];
  }
  const int64_t n = c.type.elements();
  for (int64_t i = 0; i < n; ++i)
    if (c.s32_at(i) != static_cast<int64_t>(c.s32_at(0)) + i) return std::nullopt;
  Affine a;
  a.axes[axis] = 1;
  a.constant = c.s32_at(0);
  return a;
}

std::optional<Affine> affine_at(const Graph& g, View view, int depth) {
  view = peel(g, std::move(view));
  Affine a;
  if (const auto u = uniform(g, view.value)) {
    if (*u != std::trunc(*u) || std::abs(*u) > 1e9) return std::nullopt;
    a.constant = static_cast<int64_t>(*u);
    return a;
  }
  const Node* n = g.definition(view.value);
  const graph::TensorType& type = g.value(view.value).type;
  if (n != nullptr && depth > 0) {
    switch (n->op) {
      case OpKind::constant:
        return steps(*n->constant, view);
      case OpKind::iota:
        if (const size_t axis = static_cast<size_t>(n->integer("axis")); !is_one(type.dims[axis]))
          a.axes[view.axes[axis]] = 1;
        return a;
      case OpKind::convert:
        if (type.dtype == DType::kU8) return std::nullopt;
        if (g.value(n->operands[0]).type.dtype != DType::kS32) return std::nullopt;
        return affine_at(g, operand_of(g, view, 0), depth - 1);
      case OpKind::neg:
      case OpKind::add:
      case OpKind::sub: {
        const auto x = affine_at(g, operand_of(g, view, 0), depth - 1);
        if (!x) return std::nullopt;
        add(a, *x, n->op == OpKind::neg ? -1 : 1);
        if (n->op == OpKind::neg) return a;
        const auto y = affine_at(g, operand_of(g, view, 1), depth - 1);
        if (!y) return std::nullopt;
        add(a, *y, n->op == OpKind::add ? 1 : -1);
        return a;
      }
      default:
        break;
    }
  }
  if (type.dtype != DType::kS32 || !std::all_of(type.dims.begin(), type.dims.end(), is_one)) return std::nullopt;
  a.scalars[view.value] = 1;
  return a;
}

}  // namespace

const Node* defined_by(const Graph& g, ValueId v, OpKind op) {
  const Node* n = g.definition(v);
  return n != nullptr && n->op == op ? n : nullptr;
}

std::optional<double> uniform(const Graph& g, ValueId v) { return uniform_at(g, v, kMaxDepth); }

bool is_about(double a, double b) { return std::abs(a - b) <= 1e-6 * std::abs(b); }

bool is_uniform(const Graph& g, ValueId v, double number) {
  const auto u = uniform(g, v);
  return u && (*u == number || is_about(*u, number));
}

View whole(const Graph& g, ValueId v) {
  View view{v, {}};
  for (int i = 0; i < g.value(v).type.rank(); ++i) view.axes.push_back(i);
  return view;
}

View peel(const Graph& g, View view) {
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    const Node* n = g.definition(view.value);
    if (n == nullptr) return view;
    const Shape& to = g.value(view.value).type.dims;
    std::vector<int> axes;
    if (n->op == OpKind::broadcast) {
      const auto dims = n->integers("dims");
      const Shape& from = g.value(n->operands[0]).type.dims;
      for (size_t i = 0; i < dims.size(); ++i) {
        const size_t at = static_cast<size_t>(dims[i]);
        axes.push_back(is_one(from[i]) && !is_one(to[at]) ? -1 : view.axes[at]);
      }
    } else if (n->op == OpKind::transpose) {
      const auto perm = n->integers("perm");
      axes.resize(perm.size());
      for (size_t i = 0; i < perm.size(); ++i) axes[static_cast<size_t>(perm[i])] = view.axes[i];
    } else if (n->op == OpKind::reshape) {
      const auto kept = unit_reshape(g.value(n->operands[0]).type.dims, to);
      if (!kept) return view;
      for (const int at : *kept) axes.push_back(at < 0 ? -1 : view.axes[static_cast<size_t>(at)]);
    } else {
      return view;
    }
    view = {n->operands[0], std::move(axes)};
  }
  return view;
}

View operand_of(const Graph& g, const View& view, int operand) {
  const ValueId v = g.definition(view.value)->operands[static_cast<size_t>(operand)];
  if (g.value(v).type.rank() == static_cast<int>(view.axes.size())) return {v, view.axes};
  return {v, {}};  // the condition of a select for all
}

bool runs_along(const Graph& g, const View& view, const std::vector<int>& axes) {
  const Shape& dims = g.value(view.value).type.dims;
  if (dims.size() != axes.size()) return false;
  for (size_t i = 0; i < dims.size(); ++i)
    if (!is_one(dims[i]) && view.axes[i] != axes[i]) return false;
  return true;
}

bool varies_only_along(const Graph& g, const View& view, int axis) {
  const Shape& dims = g.value(view.value).type.dims;
  for (size_t i = 0; i < dims.size(); ++i)
    if (!is_one(dims[i]) && view.axes[i] != axis) return false;
  return true;
}

Product product(const Graph& g, ValueId v) {
  Product p;
  const Node* n = g.definition(v);
  if (n != nullptr && (n->op == OpKind::mul || n->op == OpKind::div)) {
    multiply(g, v, true, false, p, kMaxDepth);
  } else {
    p.values.push_back(v);
  }
  // Powers are products of a few.
  std::vector<ValueId> values;
  for (const ValueId x : p.values) {
    const Node* pow = defined_by(g, x, OpKind::pow);
    const auto exponent = pow == nullptr ? std::nullopt : uniform(g, pow->operands[1]);
    const Node* square = defined_by(g, x, OpKind::mul);
    if (exponent && (*exponent == 2 || *exponent == 3)) {
      values.insert(values.end(), static_cast<size_t>(*exponent), pow->operands[0]);
    } else if (square != nullptr && square->operands[0] == square->operands[1]) {
      values.insert(values.end(), 2, square->operands[0]);
    } else {
      values.push_back(x);
    }
  }
  p.values = std::move(values);
  return p;
}

std::optional<Affine> affine(const Graph& g, const View& view) { return affine_at(g, view, kMaxDepth); }

Affine difference(const Affine& a, const Affine& b) {
  Affine d = a;
  add(d, b, -1);
  return d;
}

std::optional<ValueId> row_reduction(const Graph& g, const View& outer, std::string_view kind) {
  const View view = peel(g, outer);
  const Node* n = defined_by(g, view.value, OpKind::reduce);
  if (n == nullptr || n->text("kind") != kind) return std::nullopt;
  const int rank = g.value(n->operands[0]).type.rank();
  const auto axes = n->integers("axes");
  if (axes.size() != 1 || axes[0] != rank - 1) return std::nullopt;
  std::vector<int> rows;
  for (int i = 0; i + 1 < rank; ++i) rows.push_back(i);
  return runs_along(g, view, rows) ? std::optional(n->operands[0]) : std::nullopt;
}

std::optional<ValueId> mean_of_rows(const Graph& g, const View& outer) {
  const View view = peel(g, outer);
  const Node* n = g.definition(view.value);
  if (n == nullptr || (n->op != OpKind::div && n->op != OpKind::mul)) return std::nullopt;
  for (const int side : {0, 1}) {
    if (n->op == OpKind::div && side == 1) break;
    const auto u = uniform(g, n->operands[static_cast<size_t>(1 - side)]);
    if (!u) continue;
    const auto x = row_reduction(g, operand_of(g, view, side), "sum");
    if (!x) continue;
    const Dim& columns = g.value(*x).type.dims.back();
    if (!columns.is_static() || columns.value() < 1) continue;
    const double count = static_cast<double>(columns.value());
    if (is_about(n->op == OpKind::div ? *u : 1 / *u, count)) return x;
  }
  return std::nullopt;
}

}  // namespace hone::passes
