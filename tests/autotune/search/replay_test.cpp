// Replaying a stored run: from a synthetic store whose truth is known.
#include "autotune/search/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace hone::autotune {
namespace {

db::Candidate candidate(int i) { return {.program = "p" + std::to_string(i), .codegen = "asmjit"}; }

// 30 candidates, 0 is the baseline at 1 ms, 17 is 20% faster; noise of 2% and drift between rounds, through a store.
StoredSamples stored(int rounds) {
  const Result<std::unique_ptr<db::Store>> store = db::open({.path = ":memory:", .mode = db::OpenMode::kInMemory});
  EXPECT_TRUE(store.ok());
  const db::ProblemKey problem{.text = "matmul:f32:m=4,n=8,k=8", .family = "matmul:f32:n=8,k=8", .m = 4};
  const Result<int64_t> run = (*store)->begin_run({.key = "k", .label = "{}"}, {.engine = "e", .codegens = "c"},
                                                  {.cache_mode = "cold", .settings = "{}", .problem = problem});
  EXPECT_TRUE(run.ok());
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise(0, 0.02), drift(0, 0.1);
  for (int r = 0; r < rounds; ++r) {
    const double pace = std::exp(drift(random));
    std::vector<db::SampleGroup> groups;
    for (int c = 0; c < 30; ++c) {
      const double truth = c == 0 ? 1e6 : c == 17 ? 0.8e6 : 1e6 * (1 + 0.02 * c);
      const auto ns = static_cast<int64_t>(truth * pace * std::exp(noise(random)));
      groups.push_back({candidate(c), {{.round = r, .order = c, .ns = ns}}});
    }
    EXPECT_TRUE((*store)->add_round(*run, problem, groups, 1).ok());
  }
  Result<StoredSamples> samples = (*store)->samples(*run, problem.text);
  EXPECT_TRUE(samples.ok());
  return *samples;
}

// All rounds are of the search, so nobody is in the noise rounds and the first of those in most is the baseline.
std::vector<int> as_stored(const Recording& recording) {
  std::vector<int> order(recording.arms.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

TEST(Replay, TheRecordingKnowsTheTruth) {
  const Result<Recording> recording = make_recording(stored(40), 0);
  ASSERT_TRUE(recording.ok()) << recording.status().message();
  EXPECT_EQ(recording->arms.size(), 30u);
  EXPECT_EQ(recording->baseline_ns.size(), 40u);
  EXPECT_EQ(recording->arms[0].candidate, candidate(0));
  EXPECT_EQ(recording->arms[static_cast<size_t>(recording->best)].candidate, candidate(17));
  EXPECT_NEAR(recording->arms[17].truth, std::log(0.8), 0.01);
}

TEST(Replay, EveryStrategyFindsTheBestWhenThereIsTime) {
  const Result<Recording> recording = make_recording(stored(40), 0);
  ASSERT_TRUE(recording.ok());
  for (std::string_view name : strategy_names()) {
    const ReplayResult result =
        replay(*recording, *find_strategy(name), {.order = as_stored(*recording), .budget_seconds = 3, .seeds = 20});
    EXPECT_EQ(result.chosen, recording->best) << name;
    EXPECT_LT(result.regret, 0.001) << name;
    EXPECT_GE(result.best_share, 0.95) << name;
    EXPECT_LE(result.seconds, 3.3) << name;
  }
}

TEST(Replay, LessTimeMeasuresLess) {
  const Result<Recording> recording = make_recording(stored(40), 0);
  ASSERT_TRUE(recording.ok());
  const ReplayTask task{.order = as_stored(*recording), .budget_seconds = 0.3, .seeds = 20};
  const ReplayResult result = replay(*recording, *find_strategy("halving"), task);
  EXPECT_LT(result.measured, 20);
  EXPECT_GT(result.regret, 0.1) << "17 is not reached";
  EXPECT_GE(result.regret_p95, result.regret);
}

TEST(Replay, IsTheSameEveryTime) {
  const Result<Recording> recording = make_recording(stored(10), 0);
  ASSERT_TRUE(recording.ok());
  const ReplayTask task{.order = as_stored(*recording), .budget_seconds = 1, .seeds = 5};
  const ReplayResult a = replay(*recording, *find_strategy("random"), task);
  const ReplayResult b = replay(*recording, *find_strategy("random"), task);
  EXPECT_EQ(a.chosen, b.chosen);
  EXPECT_EQ(a.seconds, b.seconds);
}

TEST(Replay, TooFewSamplesAreRefusedWithTheirNumber) {
  EXPECT_THAT(make_recording({}, 0).status().message(), testing::HasSubstr("no samples"));
  const Result<Recording> few = make_recording(stored(2), 0);
  ASSERT_FALSE(few.ok());
  EXPECT_EQ(few.status().code(), Code::kFailedPrecondition);
  EXPECT_THAT(few.status().message(), testing::HasSubstr("2 round(s) of 30 candidate(s)"));
}

}  // namespace
}  // namespace hone::autotune
