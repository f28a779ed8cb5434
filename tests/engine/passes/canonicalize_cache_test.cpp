// Caches that are passed from call to call become states. Both are run for several calls, the exported graph with its
// caches and position handed on by hand, and must give the same at every position.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "engine/passes/canonicalize.h"
#include "engine/passes/shape_inference.h"
#include "tests/engine/passes/exported.h"

namespace hone::passes {
namespace {

using testing::HasSubstr;

constexpr double kBound = 1e-5;
constexpr int64_t kCapacity = 12, kH = 4, kG = 2, kD = 8;

struct Options {
  int64_t tokens = 1;
  bool wraps = false;  // negative positions count from the end
  bool aliases = true;
  bool reads_position = false;  // a second reader of the position
  int64_t shift = 0;            // of the mask
  bool masked = true;
};

// Inputs x, k cache, v cache [1, capacity, G, d], position; outputs y, k cache, v cache, position + tokens.
graph::Graph layer(const Options& o) {
  Exported e;
  const int64_t s = o.tokens;
  const ValueId x = e.f32("x", {1, s, kH * kD});
  const Shape cache = {1, kCapacity, kG, kD};
  const ValueId kc = e.f32("k_cache", cache), vc = e.f32("v_cache", cache), p = e.s32("pos", {});
  const auto heads = [&](const char* w, int64_t n) {
    return e.reshape(e.project(x, e.weights(w, {kH * kD, n * kD})), {1, s, n, kD});
  };
  // RoPE at p + row.
  const ValueId rows = e.bin(OpKind::add, e.iota(0, {s}), e.broadcast(p, {}, {s}));
  const ValueId f = e.weights("inv_freq", {kD / 2});
  const Shape angles = {s, kD / 2};
  const ValueId a = e.mul(e.broadcast(e.convert(rows, DType::kF32), {0}, angles), e.broadcast(f, {1}, angles));
  const auto turn = [&](ValueId v) {
    const Shape half = {1, s, e.dims(v)[2], kD / 2};
    const ValueId c = e.broadcast(e.un(OpKind::cos, a), {1, 3}, half),
                  n = e.broadcast(e.un(OpKind::sin, a), {1, 3}, half);
    const ValueId x1 = e.slice_last(v, 0, kD / 2), x2 = e.slice_last(v, kD / 2, kD);
    return e.concat_last(e.bin(OpKind::sub, e.mul(x1, c), e.mul(x2, n)),
                         e.bin(OpKind::add, e.mul(x2, c), e.mul(x1, n)));
  };
  const ValueId zero = e.constant(graph::Constant::s32({DType::kS32, {}}, std::vector<int32_t>{0}));
  ValueId at = p;
  if (o.wraps) at = e.select(e.compare("LT", p, zero), e.bin(OpKind::add, p, e.fill_s32(kCapacity, {})), p);
  const ValueId k = e.add(OpKind::dynamic_update_slice, {kc, turn(heads("wk", kG)), zero, at, zero, zero});
  const ValueId v = e.add(OpKind::dynamic_update_slice, {vc, heads("wv", kG), zero, at, zero, zero});
  // Scores of grouped heads [1, g, s, r, t].
  const ValueId q = e.reshape(turn(heads("wq", kH)), {1, s, kG, kH / kG, kD});
  ValueId scores = e.times(e.dot(q, k, {0, 2}, {0, 2}, {4}, {3}), 1 / std::sqrt(8.0));
  if (o.masked) {
    const Shape shape = {s, kCapacity};
    const ValueId row =
        e.bin(OpKind::add, e.iota(0, shape),
              e.broadcast(e.bin(OpKind::add, p, e.fill_s32(static_cast<int32_t>(o.shift), {})), {}, shape));
    const ValueId seen = e.compare("LE", e.iota(1, shape), row);
    scores = e.select(e.broadcast(seen, {2, 4}, e.dims(scores)), scores, e.fill(-1e30, e.dims(scores)));
  }
  const ValueId out = e.dot(e.softmax_rows(scores), v, {0, 1}, {0, 2}, {4}, {1});  // [1, g, s, r, d]
  const ValueId y = e.reshape(e.transpose(out, {0, 2, 1, 3, 4}), {1, s, kH * kD});
  e.output(o.reads_position ? e.mul(y, e.broadcast(e.convert(p, DType::kF32), {}, e.dims(y))) : y);
  e.output(k);
  e.output(v);
  e.output(e.bin(OpKind::add, p, e.fill_s32(static_cast<int32_t>(s), {})));
  if (o.aliases) e.graph().set_alias(kc, 1), e.graph().set_alias(vc, 2);
  return e.compilation().graph;
}

Compilation canonical(const graph::Graph& g) {
  Compilation c;
  c.graph = g;
  EXPECT_TRUE(shape_inference(c).ok());
  const Status s = canonicalize(c);
  EXPECT_TRUE(s.ok()) << s.message();
  EXPECT_TRUE(verify(c.graph).ok()) << verify(c.graph).message();
  return c;
}

void expect_same_calls(const graph::Graph& exported, const graph::Graph& stateful, int calls) {
  std::vector<graph::Tensor> inputs = random_inputs(exported);
  for (size_t i = 1; i < 3; ++i) std::fill(inputs[i].data.begin(), inputs[i].data.end(), std::byte{0});
  graph::ReferenceState state;
  for (int call = 0; call < calls; ++call) {
    inputs[0] = random_inputs(exported, 1, 7u + static_cast<unsigned>(call))[0];
    auto a = graph::evaluate(exported, inputs, nullptr);
    const auto b = graph::evaluate(stateful, std::vector<graph::Tensor>{inputs[0]}, &state);
    ASSERT_TRUE(a.ok()) << a.status().message();
    ASSERT_TRUE(b.ok()) << b.status().message();
    ASSERT_EQ(b->size(), 1u);
    const std::span<const float> x = (*a)[0].as<float>(), y = (*b)[0].as<float>();
    for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], kBound) << "call " << call << ", element " << i;
    for (size_t i = 1; i < 4; ++i) inputs[i] = std::move((*a)[i]);
  }
}

TEST(PassesCanonicalizeCache, DecodeAndPrefillKeepTheirKeysInStates) {
  for (const int64_t tokens : {int64_t{1}, int64_t{4}})
    for (const bool wraps : {false, true}) {
      SCOPED_TRACE(tokens);
      const graph::Graph exported = layer({.tokens = tokens, .wraps = wraps});
      const Compilation c = canonical(exported);
      ASSERT_EQ(c.graph.states().size(), 2u) << print(c);
      EXPECT_EQ(c.graph.inputs().size(), 1u);
      EXPECT_EQ(c.graph.outputs().size(), 1u);
      EXPECT_EQ(c.graph.tokens, Dim(tokens));
      ASSERT_EQ(count(c, OpKind::kv_append), 2);
      ASSERT_EQ(count(c, OpKind::attention), 1);
      EXPECT_EQ(first(c, OpKind::attention)->operands.size(), 3u);
      EXPECT_TRUE(first(c, OpKind::attention)->flag("causal"));
      EXPECT_EQ(count(c, OpKind::rope), 2);
      EXPECT_EQ(first(c, OpKind::rope)->dim("offset"), Dim::symbol("p"));
      EXPECT_EQ(to_string(c.graph.value(first(c, OpKind::kv_append)->results[0]).type),
                tokens == 1 ? "f32[p + 1, 2, 8]" : "f32[p + 4, 2, 8]");
      bool guarded = false;
      for (const Guard& g : c.guards) guarded |= g.kind == Guard::Kind::kAtMost && to_string(g.right) == "12";
      EXPECT_TRUE(guarded) << print(c);
      expect_same_calls(exported, c.graph, static_cast<int>(kCapacity / tokens));
    }
}

TEST(PassesCanonicalizeCache, WhatIsNoCacheStaysAnInput) {
  const auto reason = [](const Options& o, const char* what) {
    const graph::Graph exported = layer(o);
    const Compilation c = canonical(exported);
    EXPECT_TRUE(c.graph.states().empty());
    EXPECT_EQ(c.graph.inputs().size(), 4u);
    EXPECT_EQ(c.graph.outputs().size(), 4u);
    std::vector<graph::Tensor> inputs = random_inputs(exported);
    inputs[3].as<int32_t>()[0] = 3;
    const auto a = graph::evaluate(exported, inputs, nullptr), b = graph::evaluate(c.graph, inputs, nullptr);
    EXPECT_TRUE(a.ok() && b.ok());
    for (size_t i = 0; i < (*a)[0].as<float>().size(); ++i)
      EXPECT_NEAR((*a)[0].as<float>()[i], (*b)[0].as<float>()[i], kBound);
    return note(c, what);
  };
  EXPECT_THAT(reason({.aliases = false}, "no cache of its own"), HasSubstr("take the place of the input"));
  EXPECT_THAT(reason({.reads_position = true}, "not the position of the graph"), HasSubstr("reads it as well"));
  EXPECT_THAT(reason({.shift = 1}, "no cache of its own"), HasSubstr("not causal"));
  EXPECT_THAT(reason({.masked = false}, "no cache of its own"), HasSubstr("nothing hides"));
}

}  // namespace
}  // namespace hone::passes
