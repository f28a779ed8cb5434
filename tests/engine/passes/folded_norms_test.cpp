// A norm folded into the matmuls that read it: what is rewritten, what is not and why, how far results may move, and
// that without the policy nothing happens.
#include "engine/passes/folded_norms_internal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/passes/decoder_fusion.h"
#include "engine/passes/specialize_constants.h"
#include "tests/engine/passes/exported.h"

namespace hone::passes {
namespace {

using testing::HasSubstr;

constexpr int64_t kWidth = 48, kOut = 64;
const Dim s = Dim::symbol("s");

class PassesFoldedNorms : public testing::Test {
 protected:
  PassesFoldedNorms() {
    e.symbol({.name = "s", .min = 1, .max = 16});
    x = e.f32("x", {s, kWidth});
    h = e.rms_norm(x, e.weights("norm_weights", {kWidth}), 1e-5, "norm");
  }
  ValueId project(ValueId a, const char* name, const char* layout = "nt") {
    const bool nt = std::string(layout) == "nt";
    return e.add(OpKind::matmul, {a, e.weights(name, nt ? Shape{kOut, kWidth} : Shape{kWidth, kOut})},
                 {{"layout", std::string(layout)}}, std::string(name) + "_proj");
  }
  Compilation compilation(NormPolicy norm = NormPolicy::kFolded) {
    Compilation c = e.compilation();
    c.policy.norm = norm;
    return c;
  }
  // Fused, and with its constants computed; `before` is what it was.
  Compilation fused(NormPolicy norm = NormPolicy::kFolded) {
    Compilation c = compilation(norm);
    before = c.graph;
    EXPECT_TRUE(decoder_fusion(c).ok());
    EXPECT_TRUE(verify(c.graph).ok()) << verify(c.graph).message();
    const graph::Graph with_products = c.graph;
    EXPECT_TRUE(specialize_constants(c).ok());
    EXPECT_TRUE(verify(c.graph).ok()) << verify(c.graph).message();
    expect_same(with_products, c.graph, 0);  // the weights' product is that of the graph, bit for bit
    return c;
  }

  Exported e;
  ValueId x, h;
  graph::Graph before;
};

// Both sides take the same f32 factor r of a row, so both are near the exact r sum |x w B|: one has 2 roundings of the
// norm before k fused multiply-adds, the other one of w B before them and one of r after them. So they are at most
// 2 gamma(k + 2) r sum |x w B| apart. And they are apart: equal bits would mean that nothing was folded.
TEST_F(PassesFoldedNorms, ResultsMoveByNoMoreThanTheirRoundings) {
  for (const char* layout : {"nt", "nn"}) {
    SCOPED_TRACE(layout);
    e = Exported();
    e.symbol({.name = "s", .min = 1, .max = 16});
    x = e.f32("x", {s, kWidth});
    h = e.rms_norm(x, e.weights("norm_weights", {kWidth}), 1e-5, "norm");
    e.output(project(h, "w", layout));
    const Compilation c = fused();
    EXPECT_EQ(count(c, OpKind::rms_norm), 0) << print(c);
    EXPECT_EQ(count(c, OpKind::mul) + count(c, OpKind::broadcast), 0) << print(c);
    const graph::Constant w = *before.constant(before.definition(before.outputs()[0])->operands[1]);
    const graph::Constant norm = *before.constant(*before.find_value("norm_weights"));
    const auto inputs = random_inputs(before, 7);
    const auto separate = graph::evaluate(before, inputs, nullptr), folded = graph::evaluate(c.graph, inputs, nullptr);
    ASSERT_TRUE(separate.ok() && folded.ok());
    const double roundings = (kWidth + 2) * 0x1p-24, gamma = roundings / (1 - roundings);
    const bool nt = std::string(layout) == "nt";
    int apart = 0;
    for (int64_t i = 0; i < 7; ++i) {
      const float* row = inputs[0].as<float>().data() + i * kWidth;
      double squares = 0;
      for (int64_t p = 0; p < kWidth; ++p) squares += double{row[p]} * row[p];
      const double r = 1 / std::sqrt(squares / kWidth + 1e-5) * (1 + 1e-5);  // and what rounds in it
      for (int64_t j = 0; j < kOut; ++j) {
        double sum = 0;
        for (int64_t p = 0; p < kWidth; ++p)
          sum += std::abs(double{row[p]} * norm.f32_at(p) * w.f32_at(nt ? j * kWidth + p : p * kOut + j));
        const auto at = static_cast<size_t>(i * kOut + j);
        const double difference = std::abs(double{(*separate)[0].as<float>()[at]} - (*folded)[0].as<float>()[at]);
        EXPECT_LE(difference, 2 * gamma * r * sum) << i << ", " << j;
        apart += difference != 0;
      }
    }
    EXPECT_GT(apart, 0);
  }
}

TEST_F(PassesFoldedNorms, WithoutThePolicyNothingIsFolded) {
  e.output(project(h, "w"));
  const Compilation c = fused(NormPolicy::kSeparate);
  EXPECT_EQ(count(c, OpKind::rms_norm), 1);
  EXPECT_EQ(count(c, OpKind::rms_scale), 0);
  expect_same(before, c.graph, 0);
}

// The factor comes first; one rms_scale serves all, and joined weights take w after they are joined.
TEST_F(PassesFoldedNorms, JoinedProjectionsAndEpiloguesAreFoldedTogether) {
  const ValueId swiglu = e.swiglu(project(h, "gate"), project(h, "up"));
  const ValueId other = project(h, "other");
  const ValueId biased = e.bin(OpKind::add, other, e.columns(e.weights("bias", {kOut}), other));
  e.output(e.bin(OpKind::add, swiglu, biased));
  const Compilation c = fused();
  EXPECT_EQ(count(c, OpKind::rms_norm), 0) << print(c);
  EXPECT_EQ(count(c, OpKind::rms_scale), 1) << print(c);
  std::vector<std::string> epilogues;
  for (const graph::NodeId id : c.graph.order())
    if (c.graph.node(id).op == OpKind::matmul) epilogues.push_back(c.graph.node(id).text("epilogue"));
  EXPECT_THAT(epilogues, testing::UnorderedElementsAre("*row_scale+swiglu", "*row_scale+bias+residual")) << print(c);
  EXPECT_EQ(count(c, OpKind::mul) + count(c, OpKind::concatenate), 0) << print(c);
  expect_same(before, c.graph, 1e-5);
  const Note* folded = nullptr;
  for (const Note& n : c.notes)
    if (n.node == "norm") folded = &n;
  ASSERT_NE(folded, nullptr);
  EXPECT_THAT(folded->what, HasSubstr("its factor becomes *row_scale"));
  EXPECT_EQ(folded->why, "stores 4 bytes a row instead of 192, and saves no launch; class ordered, norm folded");
}

TEST_F(PassesFoldedNorms, WhatElseReadsTheNormKeepsIt) {
  e.output(project(h, "w"));
  e.output(e.un(OpKind::neg, h));
  const Compilation c = fused();
  EXPECT_EQ(count(c, OpKind::rms_norm), 1);
  EXPECT_THAT(note(c, "norm stays apart"), HasSubstr("reads it as well"));
}

TEST_F(PassesFoldedNorms, VariableWeightsKeepTheNorm) {
  const ValueId variable = e.f32("variable", {kOut, kWidth});
  e.output(e.matmul(h, variable, "variable_proj"));
  EXPECT_EQ(note(fused(), "norm stays apart"), "the weights of variable_proj are not constant");
}

TEST_F(PassesFoldedNorms, AnOutputKeepsTheNorm) {
  e.output(project(h, "w"));
  e.output(h);
  EXPECT_EQ(note(fused(), "norm stays apart"), "it is an output");
}

TEST_F(PassesFoldedNorms, WeightsOfTheNormThatAreAnInputKeepIt) {
  const ValueId w = e.f32("scale", {kWidth});
  e.output(project(e.rms_norm(x, w, 1e-5, "open_norm"), "w"));
  const Compilation c = fused();
  EXPECT_EQ(count(c, OpKind::rms_norm), 1);
  EXPECT_EQ(c.notes.back().node, "open_norm") << print(c);
  EXPECT_EQ(c.notes.back().why, "its weights are not constant");
}

}  // namespace
}  // namespace hone::passes
