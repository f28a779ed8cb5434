// Fewer launches, the same bits: each graph gives what it gave before, bit for bit, also after specialize_constants.
#include "engine/passes/decoder_fusion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "engine/passes/specialize_constants.h"
#include "tests/engine/passes/exported.h"

namespace hone::passes {
namespace {

using testing::HasSubstr;

constexpr int64_t kWidth = 32, kH = 4, kG = 2, kD = 8;

struct Sizes {
  int64_t hidden = 48;
  bool bias = false;
  bool constants = true;  // or weights that are inputs
};

// A decoder layer with a cache: symbol s, states, RoPE.
Compilation layer(const Sizes& o) {
  Exported e;
  e.symbol({.name = "s", .min = 1, .max = 16});
  const Dim s = Dim::symbol("s");
  e.position("p", 32, s);
  const ValueId x = e.f32("x", {s, kWidth});
  const auto weight = [&](const char* name, int64_t n, int64_t k) {
    return o.constants ? e.weights(name, {n, k}) : e.f32(name, {n, k});
  };
  const auto project = [&](ValueId a, const char* name, int64_t n, int64_t k) {
    ValueId y = e.matmul(a, weight(name, n, k), std::string(name) + "_proj");
    if (o.bias) y = e.bin(OpKind::add, y, e.columns(e.weights(std::string(name) + "_bias", {n}), y));
    return y;
  };
  const ValueId h = e.rms_norm(x, e.weights("norm1", {kWidth}), 1e-5, "norm1");
  const ValueId v = e.reshape(project(h, "v", kG * kD, kWidth), {s, kG, kD});
  const ValueId q = e.reshape(project(h, "q", kH * kD, kWidth), {s, kH, kD});
  const ValueId k = e.reshape(project(h, "k", kG * kD, kWidth), {s, kG, kD});
  const ValueId f = e.weights("inv_freq", {kD / 2});
  const ValueId qr = e.rope(q, f, Dim::symbol("p"), "half", "rope_q");
  const ValueId kr = e.rope(k, f, Dim::symbol("p"), "half", "rope_k");
  const ValueId ks = e.kv_append(e.state("k0", {DType::kF32, {32, kG, kD}}), kr);
  const ValueId vs = e.kv_append(e.state("v0", {DType::kF32, {32, kG, kD}}), v);
  const ValueId att = e.reshape(e.attention(qr, ks, vs, {}, "att"), {s, kH * kD});
  const ValueId r = e.bin(OpKind::add, x, e.matmul(att, weight("o", kWidth, kH * kD), "o_proj"));
  const ValueId n = e.rms_norm(r, e.weights("norm2", {kWidth}), 1e-5, "norm2");
  const ValueId up = project(n, "up", o.hidden, kWidth), gate = project(n, "gate", o.hidden, kWidth);
  const ValueId down = e.matmul(e.swiglu(gate, up, "swiglu"), weight("down", kWidth, o.hidden), "down_proj");
  e.output(e.bin(OpKind::add, r, down));
  return e.compilation();
}

// Bits of several calls.
void expect_same_calls(const graph::Graph& a, const graph::Graph& b) {
  graph::ReferenceState x, y;
  for (const int64_t s : {5, 1, 1, 3}) {
    const auto inputs = random_inputs(a, s, static_cast<unsigned>(s));
    const auto p = graph::evaluate(a, inputs, &x), q = graph::evaluate(b, inputs, &y);
    ASSERT_TRUE(p.ok()) << p.status().message();
    ASSERT_TRUE(q.ok()) << q.status().message();
    EXPECT_TRUE((*p)[0] == (*q)[0]) << "tokens " << s;
  }
}

// Fuses, and computes constants; the bits stay.
Compilation fused(Compilation c) {
  const graph::Graph before = c.graph;
  EXPECT_TRUE(decoder_fusion(c).ok());
  EXPECT_TRUE(verify(c.graph).ok()) << verify(c.graph).message();
  expect_same_calls(before, c.graph);
  EXPECT_TRUE(specialize_constants(c).ok());
  EXPECT_TRUE(verify(c.graph).ok()) << verify(c.graph).message();
  expect_same_calls(before, c.graph);
  return c;
}

std::vector<std::string> epilogues(const Compilation& c) {
  std::vector<std::string> all;
  for (const graph::NodeId id : c.graph.order())
    if (c.graph.node(id).op == OpKind::matmul) all.push_back(c.graph.node(id).text("epilogue"));
  return all;
}

TEST(PassesDecoderFusion, ADecoderLayerHasFourMatmuls) {
  const Compilation c = fused(layer({}));
  EXPECT_EQ(epilogues(c), (std::vector<std::string>{"", "+residual", "+swiglu", "+residual"})) << print(c);
  EXPECT_EQ(count(c, OpKind::rope), 1);
  EXPECT_EQ(count(c, OpKind::add) + count(c, OpKind::swiglu) + count(c, OpKind::concatenate), 0) << print(c);
  EXPECT_EQ(to_string(c.graph.value(first(c, OpKind::rope)->results[0]).type), "f32[s, 6, 8]");
  EXPECT_THAT(note(c, "q_proj, k_proj, v_proj become one matmul"), HasSubstr("saves 2 launches"));
  EXPECT_THAT(note(c, "up_proj and swiglu become one matmul with +swiglu"), HasSubstr("saves 2 launches"));
  EXPECT_NE(note(c, "rope_q and rope_k become one"), "");
}

TEST(PassesDecoderFusion, BiasesGoAlong) {
  const Compilation c = fused(layer({.bias = true}));
  EXPECT_EQ(epilogues(c), (std::vector<std::string>{"+bias", "+residual", "+bias+swiglu", "+residual"})) << print(c);
}

TEST(PassesDecoderFusion, ColumnsThatAreNoMultipleOf16AreTwoMatmuls) {
  const Compilation c = fused(layer({.hidden = 40}));
  EXPECT_EQ(epilogues(c), (std::vector<std::string>{"", "+residual", "+silu", "*gate", "+residual"})) << print(c);
  EXPECT_THAT(note(c, "+silu, and the gate of up_proj"), HasSubstr("40 columns are no multiple of 16"));
}

TEST(PassesDecoderFusion, WeightsThatAreInputsAreNotJoined) {
  const Compilation c = fused(layer({.constants = false}));
  EXPECT_EQ(epilogues(c), (std::vector<std::string>{"", "", "", "+residual", "+silu", "*gate", "+residual"}));
  EXPECT_EQ(count(c, OpKind::concatenate), 0);
}

TEST(PassesDecoderFusion, ThePolicyDecides) {
  for (int choice = 0; choice < 3; ++choice) {
    Compilation before = layer({});
    if (choice == 0) before.policy.qkv = BoundaryPolicy::kSeparate;
    if (choice == 1) before.policy.gate_up = BoundaryPolicy::kSeparate;
    if (choice == 2) before.policy.residual = BoundaryPolicy::kSeparate;
    const Compilation c = fused(before);
    EXPECT_EQ(count(c, OpKind::matmul), choice == 0 ? 6 : choice == 1 ? 5 : 4);
    EXPECT_EQ(count(c, OpKind::rope), choice == 0 ? 2 : 1);
    EXPECT_EQ(count(c, OpKind::swiglu), choice == 1 ? 1 : 0);
    EXPECT_EQ(count(c, OpKind::add), choice == 2 ? 2 : 0);
  }
}

Compilation chain(const std::function<ValueId(Exported&, ValueId, ValueId)>& then) {
  Exported e;
  const ValueId x = e.f32("x", {6, 16});
  e.output(then(e, x, e.matmul(x, e.weights("w", {16, 16}), "m")));
  Compilation c = e.compilation();
  const graph::Graph before = c.graph;
  EXPECT_TRUE(decoder_fusion(c).ok());
  EXPECT_TRUE(verify(c.graph).ok()) << verify(c.graph).message();
  expect_same(before, c.graph, 0);
  return c;
}

TEST(PassesDecoderFusion, WhatFollowsAMatmulBecomesItsEpilogue) {
  const Compilation c = chain([](Exported& e, ValueId x, ValueId m) {
    const ValueId biased = e.bin(OpKind::add, e.columns(e.weights("b", {16}), m), m);
    const ValueId active = e.add(OpKind::gelu, {biased}, {{"approximate", std::string("tanh")}});
    return e.bin(OpKind::add, x, e.mul(e.f32("gate", {6, 16}), active));
  });
  EXPECT_EQ(epilogues(c), (std::vector<std::string>{"+bias+gelu_tanh*gate+residual"})) << print(c);
  EXPECT_EQ(first(c, OpKind::matmul)->name, "m");
  const Compilation relu =
      chain([](Exported& e, ValueId, ValueId m) { return e.bin(OpKind::max, m, e.fill(0, e.dims(m))); });
  EXPECT_EQ(epilogues(relu), (std::vector<std::string>{"+relu"}));
}

TEST(PassesDecoderFusion, WhatIsReadTwiceStays) {
  const Compilation twice = chain([](Exported& e, ValueId, ValueId m) { return e.mul(e.un(OpKind::silu, m), m); });
  EXPECT_EQ(epilogues(twice), (std::vector<std::string>{""}));
  // Two residuals: the second stays apart.
  const Compilation two = chain([](Exported& e, ValueId x, ValueId m) {
    return e.bin(OpKind::add, e.bin(OpKind::add, m, x), e.f32("y", {6, 16}));
  });
  EXPECT_EQ(epilogues(two), (std::vector<std::string>{"+residual"}));
  EXPECT_EQ(count(two, OpKind::add), 1);
  // m + m is no residual of itself.
  const Compilation self = chain([](Exported& e, ValueId, ValueId m) { return e.bin(OpKind::add, m, m); });
  EXPECT_EQ(epilogues(self), (std::vector<std::string>{""}));
}

TEST(PassesDecoderFusion, ProjectionsOfOtherThingsThanAttentionStayApart) {
  Exported e;
  const ValueId x = e.f32("x", {6, 16});
  e.output(e.matmul(x, e.weights("a", {16, 16})));
  e.output(e.matmul(x, e.weights("b", {16, 16})));
  Compilation c = e.compilation();
  ASSERT_TRUE(decoder_fusion(c).ok());
  EXPECT_EQ(count(c, OpKind::matmul), 2);
}

TEST(PassesDecoderFusion, HintsOfProjectionsAreKeptWhereTheyAgree) {
  for (const bool agree : {true, false}) {
    Compilation c = layer({});
    for (const char* name : {"q_proj", "k_proj", "v_proj"})
      c.graph.node(c.graph.value(*c.graph.find_value(name)).node).schedule = graph::ScheduleHint{{"rows"}, {}};
    if (!agree) c.graph.node(c.graph.value(*c.graph.find_value("v_proj")).node).schedule.reset();
    ASSERT_TRUE(decoder_fusion(c).ok());
    EXPECT_EQ(first(c, OpKind::matmul)->schedule.has_value(), agree);
  }
}

}  // namespace
}  // namespace hone::passes
