// What computes nothing goes, and products with a matrix become matmuls. Bits stay.
#include <gtest/gtest.h>

#include <functional>

#include "engine/passes/canonicalize.h"
#include "tests/engine/passes/exported.h"

namespace hone::passes {
namespace {

Compilation canonical(const std::function<ValueId(Exported&)>& build) {
  Exported e;
  e.output(build(e));
  Compilation c = e.compilation();
  const graph::Graph before = c.graph;
  const Status s = canonicalize(c);
  EXPECT_TRUE(s.ok()) << s.message();
  EXPECT_TRUE(verify(c.graph).ok()) << verify(c.graph).message();
  expect_same(before, c.graph, 0);
  return c;
}
size_t nodes(const std::function<ValueId(Exported&)>& build) { return canonical(build).graph.order().size(); }

TEST(PassesCanonicalizeAlgebra, WhatGivesItsOperandGoes) {
  const Shape shape = {3, 4};
  EXPECT_EQ(nodes([&](Exported& e) { return e.un(OpKind::exp, e.times(e.f32("x", shape), 1)); }), 1u);
  EXPECT_EQ(nodes([&](Exported& e) { return e.un(OpKind::exp, e.plus(e.f32("x", shape), 0)); }), 1u);
  EXPECT_EQ(
      nodes([&](Exported& e) { return e.un(OpKind::exp, e.un(OpKind::neg, e.un(OpKind::neg, e.f32("x", shape)))); }),
      1u);
  EXPECT_EQ(nodes([&](Exported& e) {
              return e.un(OpKind::exp, e.transpose(e.transpose(e.f32("x", {2, 3, 4}), {2, 0, 1}), {1, 2, 0}));
            }),
            1u);
  EXPECT_EQ(nodes([&](Exported& e) {
              return e.un(OpKind::exp, e.reshape(e.reshape(e.reshape(e.f32("x", shape), {12}), {2, 6}), {3, 4}));
            }),
            1u);
  EXPECT_EQ(nodes([&](Exported& e) {
              const ValueId x = e.f32("x", shape);
              return e.select(e.compare("EQ", e.fill(1, shape), e.fill(1, shape)), x, e.times(x, 2));
            }),
            0u)
      << "a condition that is known";
}

TEST(PassesCanonicalizeAlgebra, ATransposeThatMovesOnlyOnesIsAReshape) {
  const Compilation c = canonical([](Exported& e) {
    return e.un(OpKind::exp, e.transpose(e.f32("x", {1, 3, 4}), {1, 0, 2}));
  });
  EXPECT_EQ(count(c, OpKind::transpose), 0);
  EXPECT_EQ(count(c, OpKind::reshape), 1);
  const Compilation moves = canonical([](Exported& e) {
    return e.un(OpKind::exp, e.transpose(e.f32("x", {1, 3, 4}), {0, 2, 1}));
  });
  EXPECT_EQ(count(moves, OpKind::transpose), 1);
}

TEST(PassesCanonicalizeAlgebra, EqualNodesBecomeOne) {
  const Compilation c = canonical([](Exported& e) {
    const ValueId x = e.f32("x", {3, 4});
    return e.bin(OpKind::add, e.un(OpKind::sin, e.times(x, 3)), e.un(OpKind::sin, e.times(x, 3)));
  });
  EXPECT_EQ(count(c, OpKind::sin), 1) << print(c);
  EXPECT_EQ(count(c, OpKind::mul), 1);
  const Compilation other = canonical([](Exported& e) {
    const ValueId x = e.f32("x", {3, 4});
    return e.bin(OpKind::add, e.un(OpKind::sin, e.times(x, 3)), e.un(OpKind::sin, e.times(x, 2)));
  });
  EXPECT_EQ(count(other, OpKind::sin), 2);
}

TEST(PassesCanonicalizeAlgebra, SmallConstantsAreComputedAndLargeOnesAreNot) {
  EXPECT_EQ(
      nodes([](Exported& e) { return e.bin(OpKind::add, e.f32("x", {8}), e.un(OpKind::exp, e.weights("w", {8}))); }),
      2u);
  EXPECT_EQ(nodes([](Exported& e) {
              return e.bin(OpKind::add, e.f32("x", {5000}), e.un(OpKind::exp, e.weights("w", {5000})));
            }),
            3u);
}

TEST(PassesCanonicalizeAlgebra, ProductsWithAMatrixAreMatmuls) {
  const auto is_one = [](const std::function<ValueId(Exported&)>& build, const char* layout, const char* result) {
    const Compilation c = canonical(build);
    ASSERT_EQ(count(c, OpKind::matmul), 1) << print(c);
    EXPECT_EQ(count(c, OpKind::dot_general), 0);
    EXPECT_EQ(first(c, OpKind::matmul)->text("layout"), layout);
    EXPECT_EQ(to_string(c.graph.value(first(c, OpKind::matmul)->results[0]).type), result);
  };
  is_one([](Exported& e) { return e.project(e.f32("x", {2, 3, 8}), e.weights("w", {8, 5})); }, "nn", "f32[2, 3, 5]");
  is_one(
      [](Exported& e) {
        return e.dot(e.f32("x", {3, 8}), e.weights("w", {5, 8}), {}, {}, {1}, {1});
      },
      "nt", "f32[3, 5]");
  is_one(
      [](Exported& e) {
        return e.project(e.f32("x", {3, 8}), e.transpose(e.f32("w", {5, 8}), {1, 0}));
      },
      "nt", "f32[3, 5]");
  // Heads of a projection, and back: as einsum writes them.
  is_one(
      [](Exported& e) {
        return e.dot(e.f32("x", {3, 8}), e.weights("w", {8, 2, 4}), {}, {}, {1}, {0});
      },
      "nn", "f32[3, 8]");
  is_one(
      [](Exported& e) {
        return e.dot(e.f32("x", {3, 2, 4}), e.weights("w", {2, 4, 6}), {}, {}, {1, 2}, {0, 1});
      },
      "nn", "f32[3, 6]");
}

TEST(PassesCanonicalizeAlgebra, BatchesAndOtherOrdersStayProducts) {
  const auto stays = [](const std::function<ValueId(Exported&)>& build) {
    const Compilation c = canonical(build);
    EXPECT_EQ(count(c, OpKind::matmul), 0) << print(c);
    EXPECT_EQ(count(c, OpKind::dot_general), 1);
  };
  stays([](Exported& e) { return e.dot(e.f32("x", {2, 3, 8}), e.f32("w", {2, 8, 5}), {0}, {0}, {2}, {1}); });
  // Contracted in another order on either side.
  stays([](Exported& e) { return e.dot(e.f32("x", {3, 2, 4}), e.f32("w", {4, 2, 6}), {}, {}, {1, 2}, {1, 0}); });
}

TEST(PassesCanonicalizeAlgebra, RowsThatWereCollapsedForAMatmulAreNot) {
  Exported e;
  const ValueId x = e.f32("x", {2, 3, 8});
  const ValueId m = e.matmul(e.reshape(x, {6, 8}), e.weights("w", {5, 8}), "proj");
  e.output(e.reshape(m, {2, 3, 5}));
  Compilation c = e.compilation();
  c.graph.node(c.graph.value(*c.graph.find_value("proj")).node).schedule = graph::ScheduleHint{{"rows"}, {}};
  const graph::Graph before = c.graph;
  ASSERT_TRUE(canonicalize(c).ok());
  expect_same(before, c.graph, 0);
  EXPECT_EQ(c.graph.order().size(), 2u) << print(c);
  EXPECT_EQ(first(c, OpKind::matmul)->name, "proj");
  EXPECT_TRUE(first(c, OpKind::matmul)->schedule.has_value()) << "the hint goes along";
}

}  // namespace
}  // namespace hone::passes
