// Which policy a database has for a graph, and why.
#include "engine/plan/stored_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hone::plan {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const GraphCall kCall{.graph = "layer/0123456789abcdef", .tokens = 1, .position = 512};

Target here() {
  Target target;
  target.key = "x86-64 avx2";
  target.kind = kind_of(read_machine_label("{}"));
  target.threads = 2;
  target.engine = "hone test";
  return target;
}

db::StoredDecision tuned(const GraphCall& call, const std::string& policy, int64_t at) {
  db::StoredDecision d;
  d.id = at;
  d.machine = {.key = here().key, .label = "{}"};
  d.build = {.engine = "hone test", .codegens = "asmjit=1"};
  d.decision.problem = graph_problem(call);
  d.decision.winner = {.program = policy,
                       .codegen = std::string(kPlanCodegen),
                       .codegen_version = std::string(kPlanVersion),
                       .threads = 2,
                       .numerics = std::string(kPlanNumerics)};
  d.decision.ns = 1000;
  d.decision.speedup = 1.25;
  d.decision.decided_at = at;
  return d;
}

StoredPolicy stored(const std::vector<db::StoredDecision>& decisions, const Target& target = here(),
                    const GraphCall& call = kCall) {
  return stored_policy(call, target, Decisions(decisions), [](const db::Candidate& winner) {
    return winner.program == "bad" ? invalid_argument("'bad' is no plan policy") : Status();
  });
}

TEST(StoredPolicy, TheNewestOfThisVeryCallIsExact) {
  const StoredPolicy p = stored(
      {tuned(kCall, "qkv=separate", 1), tuned(kCall, "keys=rows", 2), tuned({kCall.graph, 128, 0}, "reuse=apart", 3)});
  EXPECT_EQ(p.reason, PolicyReason::kExact);
  EXPECT_EQ(p.policy, "keys=rows");
  EXPECT_EQ(p.decision, 2);
  EXPECT_EQ(p.difference, "");
  EXPECT_EQ(p.speedup, 1.25);
}

TEST(StoredPolicy, OtherTokensAndPositionsAreNear) {
  const StoredPolicy p =
      stored({tuned({kCall.graph, 2, 600}, "qkv=separate", 1), tuned({kCall.graph, 8, 512}, "keys=rows", 2)});
  EXPECT_EQ(p.reason, PolicyReason::kNear);
  EXPECT_EQ(p.policy, "qkv=separate");
  EXPECT_EQ(p.difference, "tokens=2, asked for 1; position=600, asked for 512");
}

TEST(StoredPolicy, APromptIsNoNeighbourOfOneToken) {
  const StoredPolicy p = stored({tuned({kCall.graph, 128, 0}, "qkv=separate", 1)});
  EXPECT_EQ(p.reason, PolicyReason::kDefault);
  EXPECT_EQ(p.policy, "default");
  ASSERT_EQ(p.rejected.size(), 1u);
  EXPECT_THAT(p.rejected[0].why, HasSubstr("too far away"));
}

TEST(StoredPolicy, AnotherGraphSaysNothing) {
  const StoredPolicy p = stored({tuned({"layer/ffffffffffffffff", 1, 512}, "qkv=separate", 1)});
  EXPECT_EQ(p.reason, PolicyReason::kDefault);
  EXPECT_TRUE(p.rejected.empty());
}

TEST(StoredPolicy, OursComeBeforeThoseOfOtherMachinesAndBuilds) {
  db::StoredDecision key = tuned(kCall, "qkv=separate", 9), build = tuned(kCall, "gate_up=separate", 8);
  key.machine.key = "another";
  build.build.engine = "hone old";
  const db::StoredDecision near = tuned({kCall.graph, 2, 512}, "keys=rows", 1);
  EXPECT_EQ(stored({key, build, near}).policy, "keys=rows");
  const StoredPolicy p = stored({key});
  EXPECT_EQ(p.reason, PolicyReason::kNear);
  EXPECT_THAT(p.difference, HasSubstr("other features"));
  EXPECT_THAT(stored({build}).difference, HasSubstr("measured by hone old"));
}

TEST(StoredPolicy, MoreThreadsThanThereAreIsNear) {
  db::StoredDecision d = tuned(kCall, "qkv=separate", 1);
  d.decision.winner.threads = 4;
  const StoredPolicy p = stored({d});
  EXPECT_EQ(p.reason, PolicyReason::kNear);
  EXPECT_EQ(p.difference, "measured with 4 threads");
}

TEST(StoredPolicy, WhatCannotBeUsedIsPassedOverWithTheReason) {
  db::StoredDecision version = tuned(kCall, "qkv=separate", 3);
  version.decision.winner.codegen_version = "99";
  const StoredPolicy p = stored({tuned(kCall, "bad", 4), version, tuned(kCall, "keys=rows", 1)});
  EXPECT_EQ(p.policy, "keys=rows");
  ASSERT_EQ(p.rejected.size(), 2u);
  EXPECT_THAT(p.rejected[0].why, HasSubstr("no plan policy"));
  EXPECT_THAT(p.rejected[1].why, HasSubstr("plan 99, this is plan 1"));
}

TEST(GraphCall, OneSpellingForOneCall) {
  const db::ProblemKey key = graph_problem(kCall);
  EXPECT_EQ(key.text, "graph:layer/0123456789abcdef:tokens=1,position=512");
  EXPECT_EQ(key.family, "graph:layer/0123456789abcdef");
  EXPECT_EQ(key.m, 1);
  const Result<GraphCall> read = parse_graph_call(key.text);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(graph_problem(*read).text, key.text);
  for (const char* bad : {"", "graph:", "matmul:f32:m=1,n=2,k=3", "graph:x:tokens=0,position=1",
                          "graph:x:tokens=01,position=1", "graph:x:tokens=1,position=-1", "graph:x:tokens=1",
                          "graph:x:tokens=1,position=2 ", "graph:x:tokens=99999999999999999999,position=1"})
    EXPECT_FALSE(parse_graph_call(bad).ok()) << bad;
}

TEST(GraphCall, KeysTellGraphsApartAndStayReadable) {
  EXPECT_THAT(graph_key("my layer:\n", "text"), StartsWith("my_layer__/"));
  EXPECT_NE(graph_key("a", "text"), graph_key("a", "text "));
  EXPECT_EQ(graph_key("a", "text").size(), 2 + 16u);
}

}  // namespace
}  // namespace hone::plan
