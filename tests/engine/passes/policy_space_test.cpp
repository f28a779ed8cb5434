// The cost model counts what a call does, and orders policies by it; the space has those that make another plan.
#include "engine/passes/policy_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/graph/text.h"
#include "engine/passes/pass.h"

namespace hone::passes {
namespace {

using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

graph::Graph parsed(std::string_view text) {
  float value = 0;  // no two are alike, as two would count as one
  Result<graph::Graph> g = graph::parse(text, [&](const std::string&, const graph::TensorType& type) {
    std::vector<float> elements(static_cast<size_t>(type.elements()), value += 1);
    elements[0] = 0;
    return Result<graph::Constant>(graph::Constant::f32(type, elements));
  });
  EXPECT_TRUE(g.ok()) << g.status().message();
  return g.ok() ? *g : graph::Graph();
}

constexpr std::string_view kMlp = R"(graph @mlp {
  symbol s in 1..64
  input %x : f32[s, 128]
  %w_gate = constant "w_gate" : f32[96, 128]
  %w_up = constant "w_up" : f32[96, 128]
  %w_down = constant "w_down" : f32[128, 96]
  %gate = matmul(%x, %w_gate) {layout = "nt"} : f32[s, 96]
  %up = matmul(%x, %w_up) {layout = "nt"} : f32[s, 96]
  %act = swiglu(%gate, %up) : f32[s, 96]
  %down = matmul(%act, %w_down) {layout = "nt"} : f32[s, 128]
  %out = add(%x, %down) : f32[s, 128]
  output %out
})";

PlanCost cost(const PlanPolicy& policy, int64_t tokens, const CostMachine& machine = {}) {
  Compilation c;
  c.graph = parsed(kMlp);
  c.policy = policy;
  EXPECT_TRUE(run_passes(c).ok());
  Result<PlanCost> cost = plan_cost(c, tokens, 0, machine);
  EXPECT_TRUE(cost.ok()) << cost.status().message();
  return cost.ok() ? *cost : PlanCost();
}

TEST(PlanCost, CountsLaunchesFlopsAndBytes) {
  const PlanCost fused = cost({}, 4);
  EXPECT_EQ(fused.launches, 2) << "gate and up with swiglu; down with the residual";
  EXPECT_DOUBLE_EQ(fused.flops, 2.0 * 4 * 128 * 96 * 3);
  const double weights = 3.0 * 96 * 128 * 4, rows = 4.0 * 4;
  EXPECT_DOUBLE_EQ(fused.bytes, weights + rows * (128 + 96) + rows * (96 + 128 + 128));
  const PlanCost apart = cost({.gate_up = BoundaryPolicy::kSeparate}, 4);
  EXPECT_GT(apart.launches, fused.launches);
  EXPECT_GT(apart.bytes, fused.bytes);
}

TEST(PlanCost, LaunchesAndTrafficDecideTheOrder) {
  for (const int64_t tokens : {1, 64}) {
    EXPECT_GT(cost({.gate_up = BoundaryPolicy::kSeparate}, tokens).ns, cost({}, tokens).ns) << tokens;
    EXPECT_GT(cost({.residual = BoundaryPolicy::kSeparate}, tokens).ns, cost({}, tokens).ns) << tokens;
    EXPECT_GT(cost({}, tokens, {.launch_ns = 5000}).ns, cost({}, tokens).ns) << tokens;
  }
  // Where intermediates do not stay in the L2, memory that is not reused costs.
  const CostMachine small{.l2_bytes = 64 << 10};
  EXPECT_GE(cost({.reuse = ReusePolicy::kApart}, 64, small).ns, cost({}, 64, small).ns);
}

TEST(PlanCost, ThreadsHelpWhereThereIsWork) {
  CostMachine two{.threads = 2};
  EXPECT_LE(cost({}, 64, two).ns, cost({}, 64).ns);
  two.region_ns = 1e9;
  EXPECT_DOUBLE_EQ(cost({}, 64, two).ns, cost({}, 64).ns) << "no region is opened that does not pay";
}

std::vector<std::string> texts(const PolicySpace& space) {
  std::vector<std::string> all;
  for (const PolicyCandidate& c : space.candidates) all.push_back(to_string(c.policy));
  return all;
}

TEST(PolicySpace, HasWhatMakesAnotherPlanAndNothingElse) {
  SpaceOptions options{.threads = {1, 2}, .attention = {"any"}, .tokens = 4};
  options.machine.threads = 2;
  const Result<PolicySpace> space = policy_space(parsed(kMlp), options);
  ASSERT_TRUE(space.ok()) << space.status().message();
  const std::vector<std::string> all = texts(*space);
  EXPECT_EQ(all.front(), "default");
  EXPECT_THAT(all, Contains("gate_up=separate"));
  EXPECT_THAT(all, Contains("gate_up=separate residual=separate threads=1"));
  EXPECT_THAT(all, Not(Contains("threads=2"))) << "that is the default";
  for (const char* absent : {"qkv", "keys", "experts", "attention"}) {
    EXPECT_THAT(all, Each(Not(HasSubstr(absent)))) << "this graph has none of it";
    EXPECT_THAT(space->inert, Contains(HasSubstr(absent)));
  }
  EXPECT_TRUE(std::is_sorted(space->candidates.begin() + 1, space->candidates.end(),
                             [](const auto& a, const auto& b) { return a.ns < b.ns; }));
}

// Folded norms are a numerics class of their own.
TEST(PolicySpace, NormsAreFoldedOnlyWhereAnyClassIsAllowed) {
  const graph::Graph g = parsed(R"(graph @normed {
  symbol s in 1..64
  input %x : f32[s, 128]
  %w_norm = constant "w_norm" : f32[128]
  %w = constant "w" : f32[96, 128]
  %h = rms_norm(%x, %w_norm) {eps = 1e-05} : f32[s, 128]
  %y = matmul(%h, %w) {layout = "nt"} : f32[s, 96]
  output %y
})");
  const Result<PolicySpace> any = policy_space(g, {.attention = {"any"}, .tokens = 4});
  const Result<PolicySpace> one = policy_space(g, {.attention = {"online(64)"}, .tokens = 4});
  ASSERT_TRUE(any.ok() && one.ok());
  EXPECT_THAT(texts(*any), Contains("norm=folded"));
  EXPECT_THAT(texts(*one), Each(Not(HasSubstr("norm"))));
}

TEST(PolicySpace, TheModelSaysWhoIsLeftOut) {
  const SpaceOptions all{.tokens = 4}, few{.tokens = 4, .most = 2};
  const Result<PolicySpace> space = policy_space(parsed(kMlp), all), cut = policy_space(parsed(kMlp), few);
  ASSERT_TRUE(space.ok() && cut.ok());
  ASSERT_EQ(cut->candidates.size(), 2u);
  EXPECT_EQ(cut->left_out, space->candidates.size() - 2);
  EXPECT_EQ(texts(*cut)[1], texts(*space)[1]);
}

TEST(PolicySpace, WeightsAreNotCopied) {
  const graph::Graph g = parsed(kMlp);
  const graph::ValueId w = *g.find_value("w_gate"), up = *g.find_value("w_up");
  const graph::Graph light = without_weights(g);
  ASSERT_TRUE(light.constant(w)->splat && light.constant(up)->splat);
  EXPECT_NE(light.constant(w)->f32_at(0), light.constant(up)->f32_at(0));
  EXPECT_FALSE(g.constant(w)->splat) << "the graph itself keeps them";
  Compilation c;
  c.graph = light;
  c.stand_ins = true;
  ASSERT_TRUE(run_passes(c).ok());
  for (const graph::NodeId id : c.graph.order()) {
    const graph::Node& n = c.graph.node(id);
    if (n.constant) EXPECT_LE(n.constant->data.size(), 4096u) << n.name << " was written out";
  }
}

}  // namespace
}  // namespace hone::passes
