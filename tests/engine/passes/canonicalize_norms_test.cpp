// Norms, softmax and activations in the forms that frameworks print, and what only looks like them.
//
// Sums change from one chain per op to 16 chains, and x / sqrt(m) from x * rsqrt(m): a few units in the last place of
// each term. 1e-5 of the largest element is 80 of them, for rows of 24 elements.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/passes/canonicalize.h"
#include "tests/engine/passes/exported.h"

namespace hone::passes {
namespace {

using testing::HasSubstr;

constexpr double kBound = 1e-5;

// Runs the pass over the graph with this output; the meaning is kept.
Compilation canonical(Exported& e, ValueId output, double bound = kBound) {
  e.output(output);
  Compilation c = e.compilation();
  const graph::Graph before = c.graph;
  const Status s = canonicalize(c);
  EXPECT_TRUE(s.ok()) << s.message();
  EXPECT_TRUE(verify(c.graph).ok()) << verify(c.graph).message();
  expect_same(before, c.graph, bound);
  return c;
}

TEST(PassesCanonicalizeNorms, RmsNormAsJaxWritesIt) {
  Exported e;
  const Compilation c = canonical(e, e.rms(e.f32("x", {6, 24}), e.weights("w", {24}), 1e-5));
  EXPECT_EQ(c.graph.order().size(), 2u) << print(c);
  ASSERT_EQ(count(c, OpKind::rms_norm), 1);
  EXPECT_FLOAT_EQ(static_cast<float>(first(c, OpKind::rms_norm)->number("eps")), 1e-5f);
}

TEST(PassesCanonicalizeNorms, RmsNormInOtherBrackets) {
  for (int form = 0; form < 6; ++form) {
    SCOPED_TRACE(form);
    Exported e;
    const ValueId x = e.f32("x", {2, 3, 24}), w = e.weights("w", {24});
    const ValueId two = e.fill(2, e.dims(x));
    const ValueId square = form == 1 ? e.bin(OpKind::pow, x, two) : e.mul(x, x);
    const ValueId sum = e.row(square, "sum");  // [2, 3]
    ValueId m = e.plus(form == 2 ? e.times(sum, 1.0 / 24) : e.bin(OpKind::div, sum, e.fill(24, e.dims(sum))), 1e-6);
    const ValueId root = e.un(OpKind::sqrt, m);
    ValueId y;
    if (form == 3) {
      y = e.bin(OpKind::div, x, e.spread(e.keep(root, x), x));
    } else if (form == 4) {
      y = e.mul(x, e.spread(e.keep(e.bin(OpKind::div, e.fill(1, e.dims(root)), root), x), x));
    } else {
      y = e.mul(e.spread(e.keep(e.un(OpKind::rsqrt, m), x), x), x);
    }
    const ValueId weight = form == 5 ? e.plus(w, 1) : w;  // Gemma's
    const Compilation c = canonical(e, e.mul(e.columns(weight, x), y));
    EXPECT_EQ(count(c, OpKind::rms_norm), 1) << print(c);
    EXPECT_EQ(count(c, OpKind::mul), 0) << print(c);
  }
}

TEST(PassesCanonicalizeNorms, RmsNormWithoutAWeight) {
  Exported e;
  const ValueId x = e.f32("x", {6, 24});
  const ValueId r = e.un(OpKind::rsqrt, e.plus(e.mean(e.mul(x, x)), 1e-5));
  const Compilation c = canonical(e, e.mul(x, e.spread(r, x)));
  EXPECT_EQ(count(c, OpKind::rms_norm), 1);
}

TEST(PassesCanonicalizeNorms, WhatIsNoRmsNorm) {
  {
    Exported e;  // nothing is added
    const ValueId x = e.f32("x", {6, 24});
    const Compilation c = canonical(e, e.mul(x, e.spread(e.un(OpKind::rsqrt, e.mean(e.mul(x, x))), x)));
    EXPECT_EQ(count(c, OpKind::rms_norm), 0);
    EXPECT_THAT(note(c, "not rms_norm"), HasSubstr("nothing is added"));
  }
  {
    Exported e;  // the mean of other values
    const ValueId x = e.f32("x", {6, 24}), y = e.f32("y", {6, 24});
    const Compilation c = canonical(e, e.mul(x, e.spread(e.un(OpKind::rsqrt, e.plus(e.mean(e.mul(y, y)), 1e-5)), x)));
    EXPECT_EQ(count(c, OpKind::rms_norm), 0);
  }
  {
    Exported e;  // of a square array, scaled along the wrong axis
    const ValueId x = e.f32("x", {24, 24});
    const ValueId sum = e.row(e.mul(x, x), "sum");
    const ValueId m = e.plus(e.bin(OpKind::div, sum, e.fill(24, {24})), 1e-5);
    const Compilation c = canonical(e, e.mul(x, e.broadcast(e.un(OpKind::rsqrt, m), {1}, {24, 24})));
    EXPECT_EQ(count(c, OpKind::rms_norm), 0);
  }
  {
    Exported e;  // divided by another number than there are columns
    const ValueId x = e.f32("x", {6, 24});
    const ValueId sum = e.row(e.mul(x, x), "sum");
    const ValueId m = e.plus(e.bin(OpKind::div, sum, e.fill(23, {6})), 1e-5);
    const Compilation c = canonical(e, e.mul(x, e.spread(e.keep(e.un(OpKind::rsqrt, m), x), x)));
    EXPECT_EQ(count(c, OpKind::rms_norm), 0);
  }
}

ValueId layer_norm(Exported& e, ValueId x, bool moments) {
  const ValueId m = e.mean(x), centred = e.bin(OpKind::sub, x, e.spread(m, x));
  const ValueId variance =
      moments ? e.bin(OpKind::sub, e.mean(e.mul(x, x)), e.mul(m, m)) : e.mean(e.mul(centred, centred));
  const ValueId r = e.un(OpKind::rsqrt, e.plus(variance, 1e-5));
  return e.mul(centred, e.spread(r, x));
}

TEST(PassesCanonicalizeNorms, LayerNorm) {
  for (const bool bias : {false, true}) {
    Exported e;
    const ValueId x = e.f32("x", {6, 24});
    ValueId y = e.mul(layer_norm(e, x, false), e.columns(e.weights("w", {24}), x));
    if (bias) y = e.bin(OpKind::add, y, e.columns(e.weights("b", {24}), x));
    const Compilation c = canonical(e, y);
    ASSERT_EQ(count(c, OpKind::layer_norm), 1) << print(c);
    EXPECT_EQ(first(c, OpKind::layer_norm)->operands.size(), bias ? 3u : 2u);
    EXPECT_EQ(count(c, OpKind::rms_norm), 0);
  }
}

TEST(PassesCanonicalizeNorms, TheOtherVarianceIsAnotherComputation) {
  Exported e;
  const Compilation c = canonical(e, layer_norm(e, e.f32("x", {6, 24}), true));
  EXPECT_EQ(count(c, OpKind::layer_norm), 0);
  EXPECT_THAT(note(c, "not layer_norm"), HasSubstr("mean(x^2) - mean(x)^2"));
}

TEST(PassesCanonicalizeNorms, Softmax) {
  Exported e;
  const Compilation c = canonical(e, e.softmax_rows(e.f32("x", {2, 6, 24})));
  EXPECT_EQ(c.graph.order().size(), 1u) << print(c);
  EXPECT_EQ(count(c, OpKind::softmax), 1);
}

TEST(PassesCanonicalizeNorms, SoftmaxWithAFiniteMaximumAndAReciprocal) {
  Exported e;
  const ValueId x = e.f32("x", {6, 24});
  const ValueId top = e.row(x, "max"), zero = e.fill(0, {6});
  const ValueId finite = e.compare("NE", e.un(OpKind::abs, top), e.fill(INFINITY, {6}));
  const ValueId exp = e.un(OpKind::exp, e.bin(OpKind::sub, x, e.spread(e.keep(e.select(finite, top, zero), x), x)));
  const ValueId sum = e.row(exp, "sum");
  const Compilation c = canonical(e, e.mul(exp, e.spread(e.keep(e.bin(OpKind::div, e.fill(1, {6}), sum), x), x)));
  EXPECT_EQ(count(c, OpKind::softmax), 1) << print(c);
}

TEST(PassesCanonicalizeNorms, WhatIsNoSoftmax) {
  {
    Exported e;  // down the columns of a square
    const ValueId x = e.f32("x", {8, 8});
    const ValueId top = e.add(OpKind::reduce, {x}, {{"kind", std::string("max")}, {"axes", Axes{0}}});
    const ValueId exp = e.un(OpKind::exp, e.bin(OpKind::sub, x, e.broadcast(top, {1}, {8, 8})));
    const ValueId sum = e.add(OpKind::reduce, {exp}, {{"kind", std::string("sum")}, {"axes", Axes{0}}});
    const Compilation c = canonical(e, e.bin(OpKind::div, exp, e.broadcast(sum, {1}, {8, 8})));
    EXPECT_EQ(count(c, OpKind::softmax), 0);
    EXPECT_THAT(note(c, "not softmax"), HasSubstr("last axis"));
  }
  {
    Exported e;  // no maximum
    const ValueId exp = e.un(OpKind::exp, e.f32("x", {8, 8}));
    const Compilation c = canonical(e, e.bin(OpKind::div, exp, e.spread(e.keep(e.row(exp, "sum"), exp), exp)));
    EXPECT_EQ(count(c, OpKind::softmax), 0);
    EXPECT_THAT(note(c, "not softmax"), HasSubstr("maximum"));
  }
}

TEST(PassesCanonicalizeNorms, SiluAndItsGate) {
  for (int form = 0; form < 3; ++form) {
    SCOPED_TRACE(form);
    Exported e;
    const ValueId g = e.f32("g", {6, 24}), u = e.f32("u", {6, 24});
    const ValueId d = e.plus(e.un(OpKind::exp, e.un(OpKind::neg, g)), 1);
    ValueId silu = e.mul(g, e.un(OpKind::logistic, g));
    if (form == 1) silu = e.mul(g, e.bin(OpKind::div, e.fill(1, e.dims(d)), d));
    if (form == 2) silu = e.bin(OpKind::div, g, d);
    const Compilation c = canonical(e, e.mul(silu, u));
    EXPECT_EQ(count(c, OpKind::swiglu), 1) << print(c);
    EXPECT_EQ(c.graph.order().size(), 1u);
    EXPECT_EQ(c.graph.value(first(c, OpKind::swiglu)->operands[0]).name, "g") << "silu is of the gate";
  }
}

TEST(PassesCanonicalizeNorms, QuickGeluIsNoSilu) {
  Exported e;
  const ValueId x = e.f32("x", {6, 24});
  const Compilation c = canonical(e, e.mul(x, e.un(OpKind::logistic, e.times(x, 1.702))));
  EXPECT_EQ(count(c, OpKind::silu), 0);
  EXPECT_THAT(note(c, "not silu"), HasSubstr("multiple"));
}

TEST(PassesCanonicalizeNorms, GeluOfTanhAndOfErf) {
  for (int form = 0; form < 4; ++form) {
    SCOPED_TRACE(form);
    Exported e;
    const ValueId x = e.f32("x", {6, 24});
    ValueId f;
    if (form < 2) {
      const ValueId cube = form == 0 ? e.mul(e.mul(x, x), x) : e.bin(OpKind::pow, x, e.fill(3, e.dims(x)));
      f = e.un(OpKind::tanh, e.times(e.bin(OpKind::add, x, e.times(cube, 0.044715)), std::sqrt(2 / M_PI)));
    } else if (form == 2) {
      f = e.un(OpKind::erf, e.times(x, std::sqrt(0.5)));
    } else {
      f = e.un(OpKind::erf, e.bin(OpKind::div, x, e.fill(std::sqrt(2), e.dims(x))));
    }
    const ValueId y = form % 2 == 0 ? e.mul(x, e.times(e.plus(f, 1), 0.5)) : e.mul(e.times(x, 0.5), e.plus(f, 1));
    const Compilation c = canonical(e, y);
    ASSERT_EQ(count(c, OpKind::gelu), 1) << print(c);
    EXPECT_EQ(first(c, OpKind::gelu)->text("approximate"), form < 2 ? "tanh" : "erf");
    EXPECT_EQ(c.graph.order().size(), 1u);
  }
}

TEST(PassesCanonicalizeNorms, AnotherConstantIsNoGelu) {
  Exported e;
  const ValueId x = e.f32("x", {6, 24});
  const ValueId f = e.un(OpKind::erf, e.times(x, 0.8));
  const Compilation c = canonical(e, e.mul(x, e.times(e.plus(f, 1), 0.5)));
  EXPECT_EQ(count(c, OpKind::gelu), 0);
}

}  // namespace
}  // namespace hone::passes
