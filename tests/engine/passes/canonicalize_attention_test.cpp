// Attention in the forms that frameworks print, and what only looks like it.
//
// softmax and both products become one pass over the keys (class online), whose sums are of another order: 1e-5 of the
// largest element bounds that for up to 16 keys of 8 elements.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "engine/passes/canonicalize.h"
#include "tests/engine/passes/exported.h"

namespace hone::passes {
namespace {

using testing::HasSubstr;

constexpr double kBound = 1e-5;
constexpr int64_t kB = 2, kS = 5, kT = 7, kH = 4, kG = 2, kD = 8;

Compilation canonical(Exported& e, ValueId output) {
  e.output(output);
  Compilation c = e.compilation();
  const graph::Graph before = c.graph;
  const Status s = canonicalize(c);
  EXPECT_TRUE(s.ok()) << s.message();
  EXPECT_TRUE(verify(c.graph).ok()) << verify(c.graph).message();
  expect_same(before, c.graph, kBound);
  return c;
}

// Condition of [1, 1, rows, keys] that key j is seen by row i: j <= i + ahead.
ValueId seen(Exported& e, int64_t rows, int64_t keys, int64_t ahead) {
  const Shape shape = {rows, keys};
  const ValueId i = e.bin(OpKind::add, e.iota(0, shape), e.fill_s32(static_cast<int32_t>(ahead), shape));
  return e.compare("GE", i, e.iota(1, shape));
}
ValueId hide(Exported& e, ValueId scores, ValueId condition, double hidden) {
  const Shape& shape = e.dims(scores);
  const int64_t rank = static_cast<int64_t>(shape.size());
  const ValueId all = e.broadcast(condition, {rank - 2, rank - 1}, shape);
  return e.select(all, scores, e.fill(hidden, shape));
}

TEST(PassesCanonicalizeAttention, AsJaxDotProductAttentionWritesIt) {
  for (const double hidden : {-1e30, -HUGE_VAL}) {
    Exported e;
    const ValueId q = e.f32("q", {kB, kS, kH, kD}), k = e.f32("k", {kB, kT, kH, kD}), v = e.f32("v", {kB, kT, kH, kD});
    const ValueId scores = e.times(e.dot(q, k, {0, 2}, {0, 2}, {3}, {3}), 1 / std::sqrt(8.0));  // [b, h, s, t]
    const ValueId p = e.softmax_rows(hide(e, scores, seen(e, kS, kT, kT - kS), hidden));
    const Compilation c = canonical(e, e.transpose(e.dot(p, v, {0, 1}, {0, 2}, {3}, {1}), {0, 2, 1, 3}));
    EXPECT_EQ(c.graph.order().size(), 1u) << print(c);
    const graph::Node* n = first(c, OpKind::attention);
    ASSERT_NE(n, nullptr);
    EXPECT_TRUE(n->flag("causal"));
    EXPECT_FALSE(n->attributes.contains("scale")) << "1 / sqrt(d) is the default";
    EXPECT_EQ(n->operands.size(), 3u);
  }
}

TEST(PassesCanonicalizeAttention, AsTorchWritesItWithHeadsFirst) {
  Exported e;
  const ValueId q = e.f32("q", {1, kS, kH, kD}), k = e.f32("k", {1, kS, kH, kD}), v = e.f32("v", {1, kS, kH, kD});
  const ValueId qt = e.times(e.transpose(q, {0, 2, 1, 3}), 0.25);
  const ValueId kt = e.transpose(e.transpose(k, {0, 2, 1, 3}), {0, 1, 3, 2});  // [b, h, d, s]
  const ValueId scores = e.dot(qt, kt, {0, 1}, {0, 1}, {3}, {2});
  const ValueId zero = e.fill(0, {kS, kS}), low = e.fill(-1e38, {kS, kS});
  const ValueId mask = e.select(seen(e, kS, kS, 0), zero, low);
  const ValueId masked = e.bin(OpKind::add, scores, e.broadcast(mask, {2, 3}, e.dims(scores)));
  const ValueId o = e.dot(e.softmax_rows(masked), e.transpose(v, {0, 2, 1, 3}), {0, 1}, {0, 1}, {3}, {2});
  const Compilation c = canonical(e, e.reshape(e.transpose(o, {0, 2, 1, 3}), {1, kS, kH * kD}));
  const graph::Node* n = first(c, OpKind::attention);
  ASSERT_NE(n, nullptr) << print(c);
  EXPECT_TRUE(n->flag("causal"));
  EXPECT_DOUBLE_EQ(n->number("scale"), 0.25);
  EXPECT_EQ(count(c, OpKind::transpose), 0) << print(c);
  EXPECT_EQ(to_string(c.graph.value(n->results[0]).type), "f32[5, 4, 8]");
}

TEST(PassesCanonicalizeAttention, GroupedHeads) {
  Exported e;
  const ValueId q = e.f32("q", {kB, kS, kH, kD}), k = e.f32("k", {kB, kT, kG, kD}), v = e.f32("v", {kB, kT, kG, kD});
  const ValueId grouped = e.reshape(q, {kB, kS, kG, kH / kG, kD});
  const ValueId scores = e.dot(grouped, k, {0, 2}, {0, 2}, {4}, {3});  // [b, g, s, r, t]
  const ValueId turned = e.transpose(scores, {0, 1, 3, 2, 4});         // [b, g, r, s, t]
  const ValueId p = e.softmax_rows(hide(e, turned, seen(e, kS, kT, kT - kS), -1e30));
  const ValueId o = e.dot(p, v, {0, 1}, {0, 2}, {4}, {1});  // [b, g, r, s, d]
  const Compilation c = canonical(e, e.reshape(e.transpose(o, {0, 3, 1, 2, 4}), {kB, kS, kH, kD}));
  ASSERT_EQ(count(c, OpKind::attention), 1) << print(c);
  EXPECT_EQ(c.graph.order().size(), 1u) << print(c);
  EXPECT_TRUE(first(c, OpKind::attention)->flag("causal"));
}

TEST(PassesCanonicalizeAttention, RepeatedKeysAndValuesAreNotRepeated) {
  for (const bool joined : {false, true}) {
    Exported e;
    const ValueId q = e.f32("q", {kS, kH, kD}), k = e.f32("k", {kT, kG, kD}), v = e.f32("v", {kT, kG, kD});
    const auto repeat = [&](ValueId x) {
      const ValueId one = e.reshape(x, {kT, kG, 1, kD});
      if (joined) return e.reshape(e.add(OpKind::concatenate, {one, one}, {{"axis", int64_t{2}}}), {kT, kH, kD});
      return e.reshape(e.broadcast(one, {0, 1, 2, 3}, {kT, kG, 2, kD}), {kT, kH, kD});
    };
    const ValueId scores = e.times(e.dot(q, repeat(k), {1}, {1}, {2}, {2}), 0.3);
    const Compilation c =
        canonical(e, e.transpose(e.dot(e.softmax_rows(scores), repeat(v), {0}, {1}, {2}, {0}), {1, 0, 2}));
    ASSERT_EQ(count(c, OpKind::attention), 1) << print(c);
    EXPECT_EQ(c.graph.order().size(), 1u) << print(c);
    EXPECT_EQ(to_string(c.graph.value(first(c, OpKind::attention)->operands[1]).type), "f32[7, 2, 8]");
    EXPECT_FALSE(first(c, OpKind::attention)->flag("causal"));
  }
}

TEST(PassesCanonicalizeAttention, HeadsInAnotherOrderAreNotGrouped) {
  // k0 k1 k0 k1: head h reads h mod G, where attention reads h / (H / G).
  Exported e;
  const ValueId q = e.f32("q", {kS, kH, kD}), k = e.f32("k", {kT, kG, kD}), v = e.f32("v", {kT, kG, kD});
  const auto tile = [&](ValueId x) { return e.add(OpKind::concatenate, {x, x}, {{"axis", int64_t{1}}}); };
  const ValueId p = e.softmax_rows(e.dot(q, tile(k), {1}, {1}, {2}, {2}));
  const Compilation c = canonical(e, e.dot(p, tile(v), {0}, {1}, {2}, {0}));
  ASSERT_EQ(count(c, OpKind::attention), 1);
  EXPECT_EQ(count(c, OpKind::concatenate), 2);
  EXPECT_EQ(to_string(c.graph.value(first(c, OpKind::attention)->operands[1]).type), "f32[7, 4, 8]");
}

TEST(PassesCanonicalizeAttention, OneHeadAndAProductTheOtherWayRound) {
  Exported e;
  const ValueId q = e.f32("q", {kS, kD}), k = e.f32("k", {kT, kD}), v = e.f32("v", {kT, kD});
  const ValueId scores = e.transpose(e.dot(k, q, {}, {}, {1}, {1}), {1, 0});
  const Compilation c = canonical(e, e.dot(v, e.softmax_rows(scores), {}, {}, {0}, {1}));  // [d, s]
  EXPECT_EQ(count(c, OpKind::attention), 1) << print(c);
  EXPECT_EQ(count(c, OpKind::softmax), 0);
}

TEST(PassesCanonicalizeAttention, SoftcapAndWindow) {
  Exported e;
  const ValueId q = e.f32("q", {kS, kH, kD}), k = e.f32("k", {kS, kH, kD}), v = e.f32("v", {kS, kH, kD});
  const ValueId scores = e.times(e.dot(q, k, {1}, {1}, {2}, {2}), 0.3);
  const ValueId capped = e.times(e.un(OpKind::tanh, e.bin(OpKind::div, scores, e.fill(2, e.dims(scores)))), 2);
  const Shape shape = {kS, kS};
  const ValueId near = e.compare("GT", e.iota(1, shape), e.bin(OpKind::sub, e.iota(0, shape), e.fill_s32(3, shape)));
  const ValueId p = e.softmax_rows(hide(e, capped, e.bin(OpKind::logical_and, seen(e, kS, kS, 0), near), -1e30));
  const Compilation c = canonical(e, e.dot(p, v, {0}, {1}, {2}, {0}));
  const graph::Node* n = first(c, OpKind::attention);
  ASSERT_NE(n, nullptr) << print(c);
  EXPECT_EQ(n->integer("window"), 3);
  EXPECT_TRUE(n->flag("causal"));
  EXPECT_DOUBLE_EQ(n->number("softcap"), 2);
  EXPECT_NEAR(n->number("scale"), 0.3, 1e-7);
}

TEST(PassesCanonicalizeAttention, MasksThatAreGivenBecomeAnOperand) {
  for (int form = 0; form < 3; ++form) {
    SCOPED_TRACE(form);
    Exported e;
    const ValueId q = e.f32("q", {kB, kS, kH, kD}), k = e.f32("k", {kB, kT, kH, kD}), v = e.f32("v", {kB, kT, kH, kD});
    ValueId scores = e.dot(q, k, {0, 2}, {0, 2}, {3}, {3});
    const Shape shape = e.dims(scores);
    if (form == 0) {
      scores = e.bin(OpKind::add, scores, e.broadcast(e.f32("mask", {kS, kT}), {2, 3}, shape));
    } else if (form == 1) {
      scores = e.bin(OpKind::add, scores, e.broadcast(e.f32("mask", {kB, 1, kS, kT}), {0, 1, 2, 3}, shape));
    } else {  // keys of each sequence, as padding is told
      const ValueId given = e.compare("GT", e.f32("mask", {kB, kT}), e.fill(-0.5, {kB, kT}));
      scores = e.select(e.broadcast(given, {0, 3}, shape), scores, e.fill(-1e30, shape));
    }
    const Compilation c = canonical(e, e.dot(e.softmax_rows(scores), v, {0, 1}, {0, 2}, {3}, {1}));
    const graph::Node* n = first(c, OpKind::attention);
    ASSERT_NE(n, nullptr) << print(c);
    ASSERT_EQ(n->operands.size(), 4u);
    EXPECT_FALSE(n->flag("causal"));
    EXPECT_EQ(to_string(c.graph.value(n->operands[3]).type), form == 0 ? "f32[5, 7]" : "f32[2, 5, 7]");
  }
}

TEST(PassesCanonicalizeAttention, ACausalMaskThatWasComputedBefore) {
  Exported e;
  const ValueId q = e.f32("q", {kS, kH, kD}), k = e.f32("k", {kT, kH, kD}), v = e.f32("v", {kT, kH, kD});
  std::vector<float> mask;
  for (int64_t i = 0; i < kS; ++i)
    for (int64_t j = 0; j < kT; ++j) mask.push_back(j <= i + kT - kS ? 0 : -INFINITY);
  const ValueId m = e.constant(graph::Constant::f32({DType::kF32, {kS, kT}}, mask), "mask");
  const ValueId scores = e.dot(q, k, {1}, {1}, {2}, {2});
  const ValueId p = e.softmax_rows(e.bin(OpKind::add, scores, e.broadcast(m, {1, 2}, e.dims(scores))));
  const Compilation c = canonical(e, e.dot(p, v, {0}, {1}, {2}, {0}));
  ASSERT_EQ(count(c, OpKind::attention), 1) << print(c);
  EXPECT_TRUE(first(c, OpKind::attention)->flag("causal"));
  EXPECT_EQ(first(c, OpKind::attention)->operands.size(), 3u);
}

TEST(PassesCanonicalizeAttention, AMaskThatHidesThePastIsNotCausal) {
  for (const int64_t ahead : {int64_t{0}, int64_t{1}}) {
    Exported e;
    const ValueId q = e.f32("q", {kS, kH, kD}), k = e.f32("k", {kS, kH, kD}), v = e.f32("v", {kS, kH, kD});
    const Shape shape = {kS, kS};
    // Reversed, or one key too many.
    const ValueId condition = ahead == 0 ? e.compare("LE", e.iota(0, shape), e.iota(1, shape)) : seen(e, kS, kS, ahead);
    const ValueId p = e.softmax_rows(hide(e, e.dot(q, k, {1}, {1}, {2}, {2}), condition, -INFINITY));
    const Compilation c = canonical(e, e.dot(p, v, {0}, {1}, {2}, {0}));
    const graph::Node* n = first(c, OpKind::attention);
    ASSERT_NE(n, nullptr);
    EXPECT_FALSE(n->flag("causal"));
    EXPECT_EQ(n->operands.size(), 4u) << "the mask as it is";
  }
}

TEST(PassesCanonicalizeAttention, KeysThatAreScaledTwiceAreScaledTwice) {
  Exported e;
  const ValueId q = e.f32("q", {kS, kH, kD}), k = e.f32("k", {kT, kH, kD}), v = e.f32("v", {kT, kH, kD});
  const ValueId scores = e.times(e.dot(e.times(q, 0.5), e.times(k, 0.25), {1}, {1}, {2}, {2}), 0.75);
  const Compilation c = canonical(e, e.dot(e.softmax_rows(scores), v, {0}, {1}, {2}, {0}));
  ASSERT_EQ(count(c, OpKind::attention), 1);
  EXPECT_DOUBLE_EQ(first(c, OpKind::attention)->number("scale"), 0.5 * 0.25 * 0.75);
}

TEST(PassesCanonicalizeAttention, WhatIsNoAttentionSaysWhy) {
  const auto reason = [](const std::function<ValueId(Exported&, ValueId, ValueId, ValueId)>& build) {
    Exported e;
    const ValueId q = e.f32("q", {kS, kH, kD}), k = e.f32("k", {kS, kH, kD}), v = e.f32("v", {kS, kH, kD});
    const Compilation c = canonical(e, build(e, q, k, v));
    EXPECT_EQ(count(c, OpKind::attention), 0);
    return note(c, "not attention");
  };
  // The values are summed over the rows of the queries.
  EXPECT_THAT(reason([](Exported& e, ValueId q, ValueId k, ValueId v) {
                return e.dot(e.softmax_rows(e.dot(q, k, {1}, {1}, {2}, {2})), v, {0}, {1}, {1}, {0});
              }),
              HasSubstr("softmax is not over the dimension that is summed"));
  // The mask is scaled with the scores.
  EXPECT_THAT(reason([](Exported& e, ValueId q, ValueId k, ValueId v) {
                const ValueId scores = e.dot(q, k, {1}, {1}, {2}, {2});
                const ValueId m = e.broadcast(e.f32("mask", {kS, kS}), {1, 2}, e.dims(scores));
                return e.dot(e.softmax_rows(e.times(e.bin(OpKind::add, scores, m), 0.5)), v, {0}, {1}, {2}, {0});
              }),
              HasSubstr("scaled or capped along with the scores"));
  // A mask for each head.
  EXPECT_THAT(reason([](Exported& e, ValueId q, ValueId k, ValueId v) {
                const ValueId scores = e.dot(q, k, {1}, {1}, {2}, {2});
                const ValueId p = e.softmax_rows(e.bin(OpKind::add, scores, e.f32("mask", {kH, kS, kS})));
                return e.dot(p, v, {0}, {1}, {2}, {0});
              }),
              HasSubstr("differs between heads"));
  // Another function on the way.
  EXPECT_THAT(reason([](Exported& e, ValueId q, ValueId k, ValueId v) {
                const ValueId scores = e.un(OpKind::abs, e.dot(q, k, {1}, {1}, {2}, {2}));
                return e.dot(e.softmax_rows(e.times(scores, 2)), v, {0}, {1}, {2}, {0});
              }),
              HasSubstr(""));
}

TEST(PassesCanonicalizeAttention, OneHeadOfKeysForAllOfQueries) {
  for (const int64_t b : {int64_t{1}, int64_t{2}}) {
    SCOPED_TRACE(b);
    Exported e;
    const ValueId q = e.f32("q", {b, kS, kH, kD}), k = e.f32("k", {b, kT, kD}), v = e.f32("v", {b, kT, kD});
    const ValueId scores = e.transpose(e.dot(q, k, {0}, {0}, {3}, {2}), {0, 2, 1, 3});  // [b, h, s, t]
    const ValueId p = e.softmax_rows(hide(e, scores, seen(e, kS, kT, kT - kS), -1e30));
    const Compilation c = canonical(e, e.transpose(e.dot(p, v, {0}, {0}, {3}, {1}), {0, 2, 1, 3}));
    ASSERT_EQ(count(c, OpKind::attention), 1) << print(c);
    EXPECT_TRUE(first(c, OpKind::attention)->flag("causal"));
    EXPECT_EQ(count(c, OpKind::softmax), 0);
  }
}

TEST(PassesCanonicalizeAttention, GroupedHeadsOfOneRow) {
  Exported e;
  const ValueId q = e.f32("q", {1, 1, kH, kD}), k = e.f32("k", {1, kT, kG, kD}), v = e.f32("v", {1, kT, kG, kD});
  const ValueId grouped = e.transpose(e.reshape(q, {1, 1, kG, kH / kG, kD}), {0, 2, 3, 1, 4});  // [b, g, r, s, d]
  const ValueId scores = e.dot(grouped, k, {0, 1}, {0, 2}, {4}, {3});
  const ValueId p = e.softmax_rows(hide(e, scores, seen(e, 1, kT, kT - 1), -1e30));
  const ValueId o = e.dot(p, v, {0, 1}, {0, 2}, {4}, {1});  // [b, g, r, s, d]
  const Compilation c = canonical(e, e.reshape(e.transpose(o, {0, 3, 1, 2, 4}), {1, 1, kH * kD}));
  ASSERT_EQ(count(c, OpKind::attention), 1) << print(c);
  EXPECT_EQ(to_string(c.graph.value(first(c, OpKind::attention)->results[0]).type), "f32[1, 4, 8]");
}

TEST(PassesCanonicalizeAttention, RepeatedHeadsBeforeATranspose) {
  Exported e;
  const ValueId q = e.f32("q", {kB, kH, kS, kD}), k = e.f32("k", {kB, kG, kT, kD}), v = e.f32("v", {kB, kG, kT, kD});
  const auto repeat = [&](ValueId x) {
    return e.reshape(e.broadcast(x, {0, 1, 3, 4}, {kB, kG, 2, kT, kD}), {kB, kH, kT, kD});
  };
  const ValueId scores = e.dot(q, e.transpose(repeat(k), {0, 1, 3, 2}), {0, 1}, {0, 1}, {3}, {2});
  const Compilation c = canonical(e, e.dot(e.softmax_rows(scores), repeat(v), {0, 1}, {0, 1}, {3}, {2}));
  ASSERT_EQ(count(c, OpKind::attention), 1) << print(c);
  EXPECT_EQ(count(c, OpKind::broadcast), 0) << print(c);
}

TEST(PassesCanonicalizeAttention, ASecondRunChangesNothing) {
  Exported e;
  const ValueId q = e.f32("q", {kS, kH, kD}), k = e.f32("k", {kT, kH, kD}), v = e.f32("v", {kT, kH, kD});
  Compilation c = canonical(e, e.dot(e.softmax_rows(e.dot(q, k, {1}, {1}, {2}, {2})), v, {0}, {1}, {2}, {0}));
  const size_t nodes = c.graph.order().size(), notes = c.notes.size();
  ASSERT_TRUE(canonicalize(c).ok());
  EXPECT_EQ(c.graph.order().size(), nodes);
  EXPECT_EQ(c.notes.size(), notes);
}

TEST(PassesCanonicalizeAttention, SymbolicSizes) {
  Exported e;
  e.symbol({.name = "s", .min = 1, .max = 64});
  const Dim s = Dim::symbol("s");
  const ValueId q = e.f32("q", {s, kH, kD}), k = e.f32("k", {s, kH, kD}), v = e.f32("v", {s, kH, kD});
  const ValueId scores = e.dot(q, k, {1}, {1}, {2}, {2});
  const ValueId causal = e.compare("LE", e.iota(1, {s, s}), e.iota(0, {s, s}));
  const ValueId p = e.softmax_rows(hide(e, scores, causal, -1e30));
  const Compilation c = canonical(e, e.dot(p, v, {0}, {1}, {2}, {0}));
  ASSERT_EQ(count(c, OpKind::attention), 1) << print(c);
  EXPECT_TRUE(first(c, OpKind::attention)->flag("causal"));
}

}  // namespace
}  // namespace hone::passes
