// Routed experts in the forms that models print, and what only looks like them.
//
// The sum over k is one of products instead of a product with one-hot rows: the same terms, in f32: 1e-5 of the
// largest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/passes/canonicalize.h"
#include "tests/engine/passes/exported.h"

namespace hone::passes {
namespace {

using testing::HasSubstr;

constexpr int64_t kE = 4, kK = 2, kD = 8, kF = 16;

struct Options {
  Shape rows = {6};
  bool gather = false;
  bool other_indices = false;  // gate and up of other experts than down
  bool relu = false;           // in the place of silu
  bool any_indices = false;    // from the caller
};

Compilation canonical(const Options& o) {
  Exported e;
  Shape shape = o.rows;
  shape.push_back(kD);
  const ValueId x = e.f32("x", shape);
  const int64_t r = static_cast<int64_t>(o.rows.size());  // rank of the rows
  const ValueId scores = e.project(x, e.weights("router", {kD, kE}));
  const auto best = e.top_k(scores, kK);
  const ValueId weights = e.softmax_rows(best.first);
  Shape picks = o.rows;
  picks.push_back(kK);
  const ValueId indices = o.any_indices ? e.s32("indices", picks) : best.second;
  const ValueId others = o.other_indices ? e.top_k(e.un(OpKind::neg, scores), kK).second : indices;
  const ValueId w1 = e.weights("w1", {kE, kD, kF}), w3 = e.weights("w3", {kE, kD, kF}),
                w2 = e.weights("w2", {kE, kF, kD});
  const auto active = [&](ValueId g, ValueId u) {
    const ValueId a = o.relu ? e.bin(OpKind::max, g, e.fill(0, e.dims(g))) : e.mul(g, e.un(OpKind::logistic, g));
    return e.mul(a, u);
  };
  const Axes batch = e.first_axes(static_cast<size_t>(r));
  if (o.gather) {
    Axes both = e.first_axes(static_cast<size_t>(r) + 1);
    const ValueId g1 = e.gather(w1, others), g3 = e.gather(w3, others), g2 = e.gather(w2, indices);
    const ValueId h = active(e.dot(g1, x, batch, batch, {r + 1}, {r}), e.dot(g3, x, batch, batch, {r + 1}, {r}));
    const ValueId y = e.dot(h, g2, both, both, {r + 1}, {r + 1});  // [rows, k, d]
    e.output(e.dot(weights, y, batch, batch, {r}, {r}));
  } else {
    Shape hot = picks;
    hot.push_back(kE);
    Axes first = e.first_axes(static_cast<size_t>(r) + 1);
    const ValueId equal = e.compare("EQ", e.broadcast(indices, first, hot), e.iota(r + 1, hot));
    const ValueId combine = e.dot(weights, e.convert(equal, DType::kF32), batch, batch, {r}, {r});  // [rows, E]
    const ValueId h = active(e.dot(x, w1, {}, {}, {r}, {1}), e.dot(x, w3, {}, {}, {r}, {1}));       // [rows, E, ff]
    const ValueId y = e.dot(h, w2, {r}, {0}, {r + 1}, {1});                                         // [E, rows, d]
    Axes shifted;
    for (const int64_t a : batch) shifted.push_back(a + 1);
    e.output(e.dot(combine, y, batch, shifted, {r}, {0}));
  }
  Compilation c = e.compilation();
  const graph::Graph before = c.graph;
  EXPECT_TRUE(canonicalize(c).ok());
  EXPECT_TRUE(verify(c.graph).ok()) << verify(c.graph).message();
  expect_same(before, c.graph, 1e-5);
  return c;
}

TEST(PassesCanonicalizeExperts, OneHotAndGatheredWithAndWithoutABatchOfOne) {
  for (const bool gather : {false, true})
    for (const Shape& rows : {Shape{6}, Shape{1, 6}, Shape{1}, Shape{1, 1}}) {
      SCOPED_TRACE(gather);
      SCOPED_TRACE(rows.size());
      const Compilation c = canonical({.rows = rows, .gather = gather});
      ASSERT_EQ(count(c, OpKind::experts), 1) << print(c);
      EXPECT_EQ(count(c, OpKind::dot_general) + count(c, OpKind::gather) + count(c, OpKind::compare), 0) << print(c);
      const graph::Node* n = first(c, OpKind::experts);
      EXPECT_EQ(to_string(c.graph.value(n->operands[3]).type), "f32[4, 16, 8]");
      EXPECT_EQ(to_string(c.graph.value(n->operands[5]).type), "f32[4, 8, 16]");
    }
}

TEST(PassesCanonicalizeExperts, WhatIsNoExperts) {
  for (const Options& o :
       {Options{.gather = true, .other_indices = true}, Options{.relu = true}, Options{.gather = true, .relu = true}}) {
    const Compilation c = canonical(o);
    EXPECT_EQ(count(c, OpKind::experts), 0);
    EXPECT_THAT(note(c, "not experts"), HasSubstr("no down(swiglu"));
  }
  EXPECT_EQ(count(canonical({.any_indices = true}), OpKind::experts), 0) << "an index may be out of range";
}

}  // namespace
}  // namespace hone::passes
