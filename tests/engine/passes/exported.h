// Writes graphs as frameworks export them: primitive ops, everything broadcast by hand. And judges what passes make of
// them: the reference evaluator says whether the meaning is kept.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "engine/graph/builder.h"
#include "engine/graph/reference.h"
#include "engine/graph/verify.h"
#include "engine/passes/pass.h"

namespace hone::passes {

using graph::Dim;
using graph::OpKind;
using graph::Shape;
using graph::TensorType;
using graph::ValueId;
using Axes = std::vector<int64_t>;

class Exported : public graph::Builder {
 public:
  Exported() : Builder("main") {}

  const Shape& dims(ValueId v) const { return type(v).dims; }
  ValueId f32(std::string name, Shape shape) { return input(std::move(name), {DType::kF32, std::move(shape)}); }
  ValueId s32(std::string name, Shape shape) { return input(std::move(name), {DType::kS32, std::move(shape)}); }
  // Weights that depend on the name only.
  ValueId weights(std::string name, Shape shape, float scale = 0.5f) {
    const TensorType t{DType::kF32, std::move(shape)};
    std::mt19937 random(static_cast<unsigned>(std::hash<std::string>{}(name)));
    std::uniform_real_distribution<float> number(-scale, scale);
    std::vector<float> elements(static_cast<size_t>(t.elements()));
    for (float& e : elements) e = number(random);
    return constant(graph::Constant::f32(t, elements), std::move(name));
  }

  ValueId broadcast(ValueId x, Axes axes, Shape shape) {
    return add_typed(OpKind::broadcast, {x}, {{"dims", std::move(axes)}}, {type(x).dtype, std::move(shape)});
  }
  ValueId fill(double number, Shape shape) {
    return broadcast(constant(graph::Constant::splat_f32({DType::kF32, {}}, static_cast<float>(number))), {}, shape);
  }
  ValueId fill_s32(int32_t number, Shape shape) {
    return broadcast(constant(graph::Constant::s32({DType::kS32, {}}, {&number, 1})), {}, shape);
  }
  ValueId iota(int64_t axis, Shape shape, DType dtype = DType::kS32) {
    return add_typed(OpKind::iota, {}, {{"axis", axis}}, {dtype, std::move(shape)});
  }
  ValueId convert(ValueId x, DType to) { return add_typed(OpKind::convert, {x}, {}, {to, dims(x)}); }
  ValueId un(OpKind op, ValueId x) { return add(op, {x}); }
  ValueId bin(OpKind op, ValueId a, ValueId b) { return add(op, {a, b}); }
  ValueId mul(ValueId a, ValueId b) { return bin(OpKind::mul, a, b); }
  ValueId times(ValueId a, double number) { return mul(a, fill(number, dims(a))); }
  ValueId plus(ValueId a, double number) { return bin(OpKind::add, a, fill(number, dims(a))); }
  ValueId compare(const char* direction, ValueId a, ValueId b) {
    return add(OpKind::compare, {a, b}, {{"direction", std::string(direction)}});
  }
  ValueId select(ValueId c, ValueId a, ValueId b) { return add(OpKind::select, {c, a, b}); }
  ValueId transpose(ValueId x, Axes perm) { return add(OpKind::transpose, {x}, {{"perm", std::move(perm)}}); }
  ValueId slice_last(ValueId x, int64_t from, int64_t to, int64_t step = 1) {
    Axes start(dims(x).size(), 0), limit(dims(x).size(), -1), stride(dims(x).size(), 1);
    start.back() = from, limit.back() = to, stride.back() = step;
    graph::Attributes attributes = {{"start", start}, {"limit", limit}};
    if (step != 1) attributes["stride"] = stride;
    return add(OpKind::slice, {x}, std::move(attributes));
  }
  ValueId concat_last(ValueId a, ValueId b) {
    return add(OpKind::concatenate, {a, b}, {{"axis", static_cast<int64_t>(dims(a).size()) - 1}});
  }
  ValueId dot(ValueId a, ValueId b, Axes lb, Axes rb, Axes lc, Axes rc) {
    return add(OpKind::dot_general, {a, b},
               {{"lhs_batch", lb}, {"rhs_batch", rb}, {"lhs_contract", lc}, {"rhs_contract", rc}});
  }
  // x [.., k] times w [k, n], as jnp.dot prints it.
  ValueId project(ValueId x, ValueId w) { return dot(x, w, {}, {}, {static_cast<int64_t>(dims(x).size()) - 1}, {0}); }

  // reduce over the last axis, then one number for each row again: [.., 1] -> x's shape.
  ValueId row(ValueId x, const char* kind) {
    return add(OpKind::reduce, {x}, {{"kind", std::string(kind)}, {"axes", Axes{last(x)}}});
  }
  ValueId keep(ValueId row, ValueId like) {
    Shape shape = dims(like);
    shape.back() = Dim(1);
    return broadcast(row, first_axes(dims(row).size()), shape);
  }
  ValueId spread(ValueId kept, ValueId like) { return broadcast(kept, first_axes(dims(kept).size()), dims(like)); }
  ValueId mean(ValueId x) {
    const ValueId sum = keep(row(x, "sum"), x);
    return bin(OpKind::div, sum, fill(static_cast<double>(dims(x).back().value()), dims(sum)));
  }
  ValueId columns(ValueId w, ValueId like) { return broadcast(w, {last(like)}, dims(like)); }
  int64_t last(ValueId x) const { return static_cast<int64_t>(dims(x).size()) - 1; }
  static Axes first_axes(size_t n) {
    Axes axes;
    for (size_t i = 0; i < n; ++i) axes.push_back(static_cast<int64_t>(i));
    return axes;
  }

  // As jax.nn writes them.
  ValueId softmax_rows(ValueId x) {
    const ValueId top = row(x, "max");
    const ValueId guarded = bin(OpKind::max, fill(-INFINITY, dims(top)), top);
    const ValueId e = un(OpKind::exp, bin(OpKind::sub, x, spread(keep(guarded, x), x)));
    return bin(OpKind::div, e, spread(keep(row(e, "sum"), e), e));
  }
  ValueId rms(ValueId x, ValueId w, double eps) {
    const ValueId r = un(OpKind::rsqrt, plus(mean(mul(x, x)), eps));
    return mul(mul(x, spread(r, x)), columns(w, x));
  }

  Compilation compilation() {
    Result<graph::Graph> g = finish();
    EXPECT_TRUE(g.ok()) << g.status().message();
    Compilation c;
    if (g.ok()) c.graph = *std::move(g);
    return c;
  }
};

inline int count(const Compilation& c, OpKind op) {
  int n = 0;
  for (const graph::NodeId id : c.graph.order()) n += c.graph.node(id).op == op;
  return n;
}
inline const graph::Node* first(const Compilation& c, OpKind op) {
  for (const graph::NodeId id : c.graph.order())
    if (c.graph.node(id).op == op) return &c.graph.node(id);
  return nullptr;
}
// The reason of the first note that says `what`, "" without one.
inline std::string note(const Compilation& c, std::string_view what) {
  for (const Note& n : c.notes)
    if (n.what == what) return n.why;
  return "";
}

// Random inputs; symbols are `size`, whole numbers 0.
inline std::vector<graph::Tensor> random_inputs(const graph::Graph& g, int64_t size = 5, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> number(-1, 1);
  std::vector<graph::Tensor> inputs;
  for (const ValueId v : g.inputs()) {
    const TensorType& t = g.value(v).type;
    std::vector<int64_t> shape;
    for (const Dim& d : t.dims) shape.push_back(d.is_static() ? d.value() : size);
    graph::Tensor x = graph::Tensor::make(t.dtype, shape);
    if (t.dtype == DType::kF32)
      for (float& e : x.as<float>()) e = number(random);
    inputs.push_back(std::move(x));
  }
  return inputs;
}

// Outputs of `a` and `b` differ by at most `bound`, relative to the largest element; 0: not in a bit.
inline void expect_same(const graph::Graph& a, const graph::Graph& b, double bound,
                        const std::vector<graph::Tensor>& inputs) {
  const auto x = graph::evaluate(a, inputs, nullptr), y = graph::evaluate(b, inputs, nullptr);
  ASSERT_TRUE(x.ok()) << x.status().message();
  ASSERT_TRUE(y.ok()) << y.status().message();
  ASSERT_EQ(x->size(), y->size());
  for (size_t o = 0; o < x->size(); ++o) {
    ASSERT_EQ((*x)[o].shape, (*y)[o].shape);
    if (bound == 0) {
      EXPECT_TRUE((*x)[o].data == (*y)[o].data) << "output " << o;
      continue;
    }
    const auto p = (*x)[o].as<float>(), q = (*y)[o].as<float>();
    double largest = 0;
    for (const float e : p) largest = std::max<double>(largest, std::abs(e));
    for (size_t i = 0; i < p.size(); ++i) {
      // Also false for a NaN on either side.
      ASSERT_TRUE(std::abs(static_cast<double>(p[i]) - q[i]) <= bound * largest)
          << "output " << o << ", element " << i << ": " << p[i] << " and " << q[i];
    }
  }
}
inline void expect_same(const graph::Graph& a, const graph::Graph& b, double bound) {
  expect_same(a, b, bound, random_inputs(a));
}

}  // namespace hone::passes
