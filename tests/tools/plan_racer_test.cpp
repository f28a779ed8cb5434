// What a plan has to compute before it is timed, and what engines find in the database afterwards.
#include "tools/hone/plan_racer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "db/store.h"
#include "engine/base/version.h"
#include "engine/executable/stored_policy.h"
#include "engine/graph/text.h"
#include "engine/passes/policy_space.h"
#include "tests/tools/scratch.h"

namespace hone::cli {
namespace {

using graph::Tensor;
using testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<Tensor> one(std::vector<float> elements) {
  return {Tensor::f32({static_cast<int64_t>(elements.size())}, elements)};
}

TEST(PlanDifference, BitsOfOneClassAndABoundAcrossClasses) {
  EXPECT_EQ(difference(one({1, 2}), one({1, 2}), true), "");
  EXPECT_THAT(difference(one({1, 2.000001F}), one({1, 2}), true), HasSubstr("output 0, element 1"));
  EXPECT_EQ(difference(one({1, 2.000001F}), one({1, 2}), false), "");
  EXPECT_NE(difference(one({1, 2.1F}), one({1, 2}), false), "");
  EXPECT_NE(difference(one({0.0F}), one({-0.0F}), true), "");
}

TEST(PlanDifference, NanIsNoNumber) {
  for (const bool same_bits : {true, false}) {
    EXPECT_NE(difference(one({1, kNan}), one({1, 2}), same_bits), "");
    EXPECT_NE(difference(one({1, 2}), one({1, kNan}), same_bits), "");
    EXPECT_EQ(difference(one({1, kNan}), one({1, kNan}), same_bits), "");
    EXPECT_NE(difference(one({std::numeric_limits<float>::infinity()}), one({2}), same_bits), "");
  }
}

TEST(PlanDifference, ShapesCount) {
  EXPECT_THAT(difference(one({1}), one({1, 2}), false), HasSubstr("another shape"));
  EXPECT_THAT(difference(one({1}), {}, false), HasSubstr("1 outputs instead of 0"));
}

graph::Graph small_graph() {
  Result<graph::Graph> g = graph::parse(R"(graph @mlp {
  symbol s in 1..16
  input %x : f32[s, 64]
  %w = constant "w" : f32[32, 64]
  %wu = constant "wu" : f32[32, 64]
  %a = matmul(%x, %w) {layout = "nt"} : f32[s, 32]
  %b = matmul(%x, %wu) {layout = "nt"} : f32[s, 32]
  %c = swiglu(%a, %b) : f32[s, 32]
  output %c
})",
                                        [](const std::string& name, const graph::TensorType& type) {
                                          return Result<graph::Constant>(invented_constant(name, type, 3));
                                        });
  EXPECT_TRUE(g.ok()) << g.status().message();
  return g.ok() ? *g : graph::Graph();
}

TEST(PlanRacer, EachPolicyRunsAndIsHeldToTheReference) {
  const Result<Engine> engine = Engine::create({.use_database = false, .threads = 2});
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  if (engine->info().codegens.empty()) GTEST_SKIP() << "no code for this CPU";
  const graph::Graph graph = small_graph();
  autotune::SteadyClock clock;
  const passes::PlanPolicy separate{.gate_up = passes::BoundaryPolicy::kSeparate}, alone{.threads = 1};
  PlanRacer racer(graph, *engine, {{}, separate, alone}, clock, {.tokens = 5});
  EXPECT_NE(racer.prepare(1).detail, "") << "nothing to hold it to before the default has run";
  for (const int candidate : {0, 1, 2}) {
    const autotune::Prepared prepared = racer.prepare(candidate);
    EXPECT_EQ(prepared.outcome, db::Outcome::kMeasured) << prepared.detail;
  }
  const int arms[] = {2, 0, 1, 1};
  for (const autotune::Timing& t : racer.round(arms)) {
    EXPECT_EQ(t.outcome, db::Outcome::kMeasured) << t.detail;
    EXPECT_GT(t.ns, 0);
    EXPECT_GE(t.wall_ns, t.ns);
  }
}

TEST(InventedOperands, AreTheSameForOneSeed) {
  const graph::Graph graph = small_graph();
  const auto a = invented_inputs(graph, 5, 0, 1), b = invented_inputs(graph, 5, 0, 1),
             c = invented_inputs(graph, 5, 0, 2);
  ASSERT_TRUE(a.ok() && b.ok() && c.ok());
  EXPECT_EQ(a->front(), b->front());
  EXPECT_NE(a->front(), c->front());
  EXPECT_EQ(a->front().shape, (std::vector<int64_t>{5, 64}));
}

class StoredPolicies : public cli_test::Scratch {};

TEST_F(StoredPolicies, AnEngineFindsWhatWasDecided) {
  const graph::Graph graph = small_graph();
  const std::string path = file("plans.db");
  const Result<Machine> machine = detect_machine();
  ASSERT_TRUE(machine.ok());
  const plan::GraphCall call = executable::graph_call(graph, 4, 0);
  {
    Result<std::unique_ptr<db::Store>> store = db::open({.path = path});
    ASSERT_TRUE(store.ok()) << store.status().message();
    const Result<int64_t> run =
        (*store)->begin_run({.key = machine->key(), .label = machine_to_json(*machine)},
                            {.engine = std::string(engine_label()), .codegens = "none"},
                            {.seed = 1, .cache_mode = "warm", .settings = "{}", .problem = plan::graph_problem(call)});
    ASSERT_TRUE(run.ok()) << run.status().message();
    const db::Candidate winner{.program = "gate_up=separate",
                               .codegen = std::string(plan::kPlanCodegen),
                               .codegen_version = std::string(plan::kPlanVersion),
                               .numerics = std::string(plan::kPlanNumerics)};
    ASSERT_TRUE((*store)
                    ->add_decision(*run, {.problem = plan::graph_problem(call),
                                          .winner = winner,
                                          .fallback = winner,
                                          .ns = 100,
                                          .default_ns = 100})
                    .ok());
  }
  const Result<Engine> engine = Engine::create({.database = path});
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  const executable::StoredPolicy exact = executable::stored_policy(*engine, graph, {.tokens = 4});
  EXPECT_EQ(exact.from.reason, plan::PolicyReason::kExact) << exact.from.difference;
  EXPECT_EQ(exact.policy.gate_up, passes::BoundaryPolicy::kSeparate);
  const executable::StoredPolicy near = executable::stored_policy(*engine, graph, {.tokens = 8});
  EXPECT_EQ(near.from.reason, plan::PolicyReason::kNear);
  // What another class of numerics was allowed for is nobody else's.
  const executable::StoredPolicy other =
      executable::stored_policy(*engine, graph, {.tokens = 4, .attention = "ordered"});
  EXPECT_EQ(other.from.reason, plan::PolicyReason::kDefault);
  EXPECT_EQ(other.policy.attention, "ordered");
  EXPECT_EQ(executable::stored_policy(*engine, passes::without_weights(graph), {.tokens = 4}).from.reason,
            plan::PolicyReason::kDefault)
      << "another text is another graph";
}

}  // namespace
}  // namespace hone::cli
