#include "autotune/learn/evaluate.h"

#include <gmock/gmock.h>

#include "tests/autotune/learn/learn_testing.h"

namespace hone::autotune {
namespace {

using testing::HasSubstr;

TEST(LearnEvaluate, SpearmanIsThatOfRanks) {
  EXPECT_DOUBLE_EQ(spearman({1, 2, 3, 4}, {10, 20, 30, 1000}), 1);
  EXPECT_DOUBLE_EQ(spearman({1, 2, 3, 4}, {4, 3, 2, 1}), -1);
  EXPECT_NEAR(spearman({1, 2, 3, 4}, {1, 2, 2, 4}), 0.9487, 1e-4) << "ties share a rank";
  EXPECT_EQ(spearman({1, 1, 1}, {1, 2, 3}), 0) << "a constant orders nothing";
  EXPECT_EQ(spearman({1}, {1}), 0);
}

TEST(LearnEvaluate, QualityOfTheTruthIsPerfectAndItsReverseIsNot) {
  const MeasuredGroup group = law_group("matmul:f32:m=64,n=512,k=512", 3);
  std::vector<double> truth, reverse;
  for (const MeasuredCandidate& m : group.candidates) {
    truth.push_back(std::exp(m.log_ratio));
    reverse.push_back(std::exp(-m.log_ratio));
  }
  EXPECT_DOUBLE_EQ(quality(group, truth).correlation, 1);
  EXPECT_DOUBLE_EQ(quality(group, truth).regret, 0);
  EXPECT_DOUBLE_EQ(quality(group, reverse).correlation, -1);
  EXPECT_GT(quality(group, reverse).regret, 0.5);
}

TEST(LearnEvaluate, TooFewProblemsSayHowManyAreNeeded) {
  std::vector<MeasuredGroup> groups = law_groups(40);
  groups.resize(2);
  groups.push_back(groups.front());  // another group of the same problem
  groups.push_back(law_group("matmul:f32:m=1,n=64,k=64", 1));
  groups.back().candidates.resize(15);
  const Status s = keep_usable(groups);
  EXPECT_EQ(s.code(), Code::kFailedPrecondition);
  EXPECT_THAT(s.message(), HasSubstr("2 problem(s) with at least 16 measured candidates, 3 are needed"));
  std::vector<MeasuredGroup> enough = law_groups(40);
  EXPECT_TRUE(keep_usable(enough).ok());
}

class LearnEvaluateWithLibrary : public testing::Test {
  void SetUp() override {
    if (!ranker_available().ok()) GTEST_SKIP() << ranker_available().message();
  }
};

TEST_F(LearnEvaluateWithLibrary, LearnsOnProblemsThatItHasNotSeen) {
  const std::vector<MeasuredGroup> groups = law_groups(4);
  const Result<Evaluation> e = evaluate(groups, 1, nullptr);
  ASSERT_TRUE(e.ok()) << e.status().message();
  EXPECT_EQ(e->problems.size(), 5u);
  EXPECT_GT(e->learned.correlation, e->analytical.correlation + 0.05);
  EXPECT_LE(e->learned.regret, e->analytical.regret + 0.002);
  EXPECT_TRUE(e->better());
  const Result<Evaluation> again = evaluate(groups, 1, nullptr);
  EXPECT_EQ(again->learned.correlation, e->learned.correlation) << "the seed decides";
}

TEST_F(LearnEvaluateWithLibrary, WhereTheModelIsRightThereIsNothingBetter) {
  std::vector<MeasuredGroup> groups = law_groups(10);
  for (MeasuredGroup& g : groups)
    for (MeasuredCandidate& m : g.candidates)
      m.log_ratio = std::log(estimate(g.problem, matmul_of(m.candidate), m.candidate.threads, g.machine).total);
  const Result<Evaluation> e = evaluate(groups, 1, nullptr);
  ASSERT_TRUE(e.ok()) << e.status().message();
  EXPECT_NEAR(e->analytical.correlation, 1, 1e-6);
  EXPECT_FALSE(e->better());
}

TEST_F(LearnEvaluateWithLibrary, StopsWhenAsked) {
  const std::atomic<bool> stop{true};
  EXPECT_FALSE(evaluate(law_groups(20), 1, &stop).ok());
}

}  // namespace
}  // namespace hone::autotune
