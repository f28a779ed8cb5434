// What depends on constants only is computed once, with the reference's bits, and large constants are not copied for
// nothing.
#include "engine/passes/specialize_constants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/engine/passes/exported.h"

namespace hone::passes {
namespace {

// One output; its bits stay.
Compilation specialized(const std::function<ValueId(Exported&)>& build) {
  Exported e;
  e.output(build(e));
  Compilation c = e.compilation();
  const graph::Graph before = c.graph;
  EXPECT_TRUE(specialize_constants(c).ok());
  EXPECT_TRUE(verify(c.graph).ok()) << verify(c.graph).message();
  expect_same(before, c.graph, 0);
  return c;
}

TEST(PassesSpecializeConstants, JoinedAndInterleavedWeightsAreComputed) {
  for (const int64_t axis : {int64_t{0}, int64_t{1}}) {
    const Compilation c = specialized([&](Exported& e) {
      const ValueId a = e.reshape(e.weights("a", {32, 8}), {2, 16, 8}),
                    b = e.reshape(e.weights("b", {32, 8}), {2, 16, 8});
      const ValueId w = e.reshape(e.add(OpKind::concatenate, {a, b}, {{"axis", axis}}), {64, 8});
      return e.matmul(e.f32("x", {3, 8}), w);
    });
    EXPECT_EQ(c.graph.order().size(), 2u) << print(c);
    EXPECT_EQ(count(c, OpKind::constant), 1) << "sources are released";
  }
}

TEST(PassesSpecializeConstants, EveryWayToMoveElements) {
  const Compilation c = specialized([](Exported& e) {
    const ValueId w = e.weights("w", {6, 4, 10});
    const ValueId t = e.transpose(w, {2, 0, 1});  // [10, 6, 4]
    const ValueId s =
        e.add(OpKind::slice, {t},
              {{"start", Axes{1, 0, 1}}, {"limit", Axes{9, -1, 4}}, {"stride", Axes{3, 2, 1}}});  // [3, 3, 3]
    const ValueId filled = e.constant(graph::Constant::splat_f32({DType::kF32, {3, 2, 3}}, 0.25f));
    const ValueId j = e.add(OpKind::concatenate, {s, filled}, {{"axis", int64_t{1}}});  // [3, 5, 3]
    return e.bin(OpKind::add, e.f32("x", {3, 5, 3}), j);
  });
  EXPECT_EQ(c.graph.order().size(), 2u) << print(c);
}

TEST(PassesSpecializeConstants, ReshapesAndWholeRowsShareTheirElements) {
  Exported e;
  const ValueId w = e.weights("w", {8, 6});
  const std::byte* elements = e.graph().constant(w)->data.data();
  const ValueId rows = e.add(OpKind::slice, {w}, {{"start", Axes{2, 0}}, {"limit", Axes{6, -1}}});
  e.output(e.bin(OpKind::add, e.f32("x", {2, 2, 6}), e.reshape(rows, {2, 2, 6})));
  Compilation c = e.compilation();
  ASSERT_TRUE(specialize_constants(c).ok());
  const graph::Node* n = first(c, OpKind::constant);
  ASSERT_NE(n, nullptr);
  EXPECT_EQ(n->constant->data.data(), elements + 2 * 6 * 4);
}

// Of `rows` rows of 16-bit elements, in memory of its own, as a mapped file has them.
graph::Constant stored(int64_t rows, int64_t columns, int seed, std::string key) {
  std::vector<uint16_t> bits(static_cast<size_t>(rows * columns));
  for (size_t i = 0; i < bits.size(); ++i)
    bits[i] = static_cast<uint16_t>(0x3f00 + (i * 7 + static_cast<size_t>(seed)) % 199);
  graph::Constant c = graph::Constant::copy_of({DType::kBf16, {rows, columns}}, std::as_bytes(std::span(bits)));
  c.content_key = std::move(key);
  return c;
}

struct Layer {
  Compilation compilation;
  std::vector<const std::byte*> weights;
};

// All of a layer's projections that are joined: q, k and v, gate and up.
Layer layer(const std::string& model) {
  Exported e;
  Layer l;
  const auto weights = [&](int64_t rows, const char* name, int seed) {
    const ValueId v = e.constant(stored(rows, 256, seed, model.empty() ? "" : model + ":" + name), name);
    l.weights.push_back(e.graph().constant(v)->data.data());
    return v;
  };
  const ValueId x = e.f32("x", {3, 256});
  const auto heads = [&](int64_t count, const char* name, int seed) {
    return e.reshape(e.matmul(x, weights(count * 64, name, seed), name), {3, count, 64});
  };
  const ValueId q = heads(4, "q", 1), k = heads(2, "k", 2), v = heads(2, "v", 3);
  const ValueId a = e.reshape(e.attention(q, k, v, {}), {3, 256});
  const ValueId gate = e.matmul(a, weights(64, "gate", 4), "gate"), up = e.matmul(a, weights(64, "up", 5), "up");
  e.output(e.swiglu(gate, up));
  l.compilation = e.compilation();
  return l;
}

TEST(PassesSpecializeConstants, JoinedWeightsAreRunsWhereTheyLie) {
  Layer l = layer("model");
  const graph::Graph before = l.compilation.graph;
  ASSERT_TRUE(run_passes(l.compilation, {.last = "specialize_constants"}).ok());
  EXPECT_TRUE(verify(l.compilation.graph).ok()) << verify(l.compilation.graph).message();
  expect_same(before, l.compilation.graph, 0);
  ASSERT_EQ(count(l.compilation, OpKind::matmul), 2) << print(l.compilation);
  std::vector<const graph::Constant*> joined;
  for (const graph::NodeId id : l.compilation.graph.order())
    if (const graph::Node& n = l.compilation.graph.node(id); n.op == OpKind::matmul)
      joined.push_back(l.compilation.graph.constant(n.operands[1]));
  ASSERT_TRUE(joined[0]->runs && joined[1]->runs);
  EXPECT_EQ(joined[0]->type.dims[0], Dim(512));
  EXPECT_EQ(joined[0]->runs->size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ((*joined[0]->runs)[i].data(), l.weights[i]);
  ASSERT_EQ(joined[1]->runs->size(), 8u) << "16 rows of each in turn";
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ((*joined[1]->runs)[i].data(), l.weights[3 + i % 2] + i / 2 * 16 * 256 * 2);
    EXPECT_EQ((*joined[1]->runs)[i].size(), 16u * 256 * 2);
  }
}

// Equal keys only for equal elements; without keys none.
TEST(PassesSpecializeConstants, JoinedWeightsHaveTheKeysOfTheirParts) {
  const auto keys = [](const std::string& model) {
    Layer l = layer(model);
    EXPECT_TRUE(run_passes(l.compilation, {.last = "specialize_constants"}).ok());
    std::vector<std::string> found;
    for (const graph::NodeId id : l.compilation.graph.order())
      if (const graph::Node& n = l.compilation.graph.node(id); n.op == OpKind::matmul)
        found.push_back(l.compilation.graph.constant(n.operands[1])->content_key);
    return found;
  };
  const std::vector<std::string> one = keys("model"), other = keys("another");
  EXPECT_EQ(one, keys("model"));
  ASSERT_EQ(one.size(), 2u);
  EXPECT_FALSE(one[0].empty() || one[1].empty());
  EXPECT_NE(one[0], one[1]);
  EXPECT_NE(one[0], other[0]);
  EXPECT_NE(one[1], other[1]);
  EXPECT_LE(std::max(one[0].size(), one[1].size()), 200u);
  EXPECT_EQ(keys(""), (std::vector<std::string>{"", ""}));
}

TEST(PassesSpecializeConstants, FrequenciesAndMasksAreComputedRowsAreNotRepeated) {
  const Compilation c = specialized([](Exported& e) {
    const ValueId f = e.bin(OpKind::pow, e.fill(10000, {4}), e.times(e.iota(0, {4}, DType::kF32), -0.25));
    const ValueId x = e.f32("x", {1 << 11, 4});
    return e.mul(x, e.columns(f, x));
  });
  EXPECT_EQ(count(c, OpKind::pow) + count(c, OpKind::iota), 0) << print(c);
  EXPECT_EQ(count(c, OpKind::broadcast), 1) << "the row stays a row";
  const Compilation mask = specialized([](Exported& e) {
    const ValueId seen = e.compare("GE", e.iota(0, {5, 5}), e.iota(1, {5, 5}));
    return e.select(seen, e.f32("x", {5, 5}), e.fill(-1, {5, 5}));
  });
  EXPECT_EQ(count(mask, OpKind::compare), 0);
}

TEST(PassesSpecializeConstants, AFactorGoesIntoTheWeightsWhereEveryBitStays) {
  const auto scaled = [](double factor) {
    return specialized([factor](Exported& e) {
      const ValueId m = e.matmul(e.f32("x", {3, 8}), e.weights("w", {4, 8}));
      return e.mul(m, e.constant(graph::Constant::splat_f32({DType::kF32, {3, 4}}, static_cast<float>(factor))));
    });
  };
  EXPECT_EQ(count(scaled(0.125), OpKind::mul), 0);
  EXPECT_EQ(count(scaled(0.3), OpKind::mul), 1) << "rounds";
  EXPECT_EQ(count(scaled(std::ldexp(1, -126)), OpKind::mul), 1) << "weights would be subnormal";
}

TEST(PassesSpecializeConstants, SplatsAreNotWrittenOut) {
  Exported e;
  const ValueId half = e.constant(graph::Constant::splat_f32({DType::kF32, {int64_t{1} << 37}}, 1));
  e.output(e.add(OpKind::concatenate, {half, half}, {{"axis", int64_t{0}}}));
  Compilation c = e.compilation();
  ASSERT_TRUE(specialize_constants(c).ok());
  EXPECT_EQ(count(c, OpKind::concatenate), 1);
}

TEST(PassesSpecializeConstants, WhatCallersGiveIsNotTouched) {
  const Compilation c = specialized([](Exported& e) {
    const ValueId w = e.f32("w", {4, 8});
    return e.matmul(e.f32("x", {3, 8}), e.add(OpKind::concatenate, {w, w}, {{"axis", int64_t{0}}}));
  });
  EXPECT_EQ(count(c, OpKind::concatenate), 1);
}

}  // namespace
}  // namespace hone::passes
