// Whole tunes on a fake clock: who is planted as fastest must win, who is as fast as the incumbent must be called a
// tie.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "autotune/search/stats.h"
#include "tests/autotune/search/simulated_tune.h"

namespace hone::autotune {
namespace {

TEST(Search, ReportedSpeedupIsUnbiased) {
  // The winner's curse would show as a mean above the planted gain.
  double sum = 0;
  int wins = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const Outcome out = simulate({.truth = field_with_winner(7, 0.08), .weather = {.jitter = 0.03}}, seed);
    if (out.confirmed.winner != 7) continue;
    sum += out.confirmed.speedup.mid;
    ++wins;
    EXPECT_LE(out.confirmed.speedup.lo, out.confirmed.speedup.mid);
    EXPECT_LE(out.confirmed.speedup.mid, out.confirmed.speedup.hi);
  }
  ASSERT_GT(wins, 50);
  EXPECT_NEAR(sum / wins, 1.08, 0.01);
}

TEST(Search, BudgetIsHonoured) {
  for (std::string_view strategy : {"halving", "exhaustive"}) {
    for (double seconds : {0.5, 2.0, 8.0}) {
      const Outcome out = simulate(
          {.truth = field_with_winner(3, 0.05, 400), .weather = {}, .seconds = seconds, .strategy = strategy}, 77);
      EXPECT_LE(static_cast<double>(out.spent_ns) * 1e-9, 1.1 * seconds) << strategy;
    }
  }
}

TEST(Search, SlowKernelsStillGetAConfirmation) {
  std::vector<double> truth(300, 0.7e9);
  truth[5] = 0.5e9;
  const Outcome out = simulate({.truth = truth, .weather = {.outliers = 0}, .seconds = 60}, 3);
  EXPECT_GE(out.confirmed.rounds, kFewestConfirmRounds);
  EXPECT_EQ(out.confirmed.winner, 5);
}

TEST(Search, WrongAndRefusedCandidatesAreRecordedAndNeverWin) {
  std::vector<double> truth = field_with_winner(3, 0.05);
  truth[8] = truth[9] = 1e5;  // would win by far
  const Outcome out = simulate({.truth = truth, .weather = {}, .wrong = {8}, .zero = {9}}, 11);
  EXPECT_EQ(out.confirmed.winner, 3);
  ASSERT_EQ(out.outcomes.size(), 2u);
  for (const auto& [candidate, prepared] : out.outcomes)
    EXPECT_EQ(prepared.outcome, candidate == 8 ? db::Outcome::kWrong : db::Outcome::kRefused);
}

TEST(Search, StopEndsAtOnce) {
  const std::atomic<bool> stop = true;
  const Outcome out = simulate({.truth = field_with_winner(3, 0.05), .weather = {}, .stop = &stop}, 1);
  EXPECT_EQ(out.confirmed.winner, 0);
  EXPECT_LE(out.rounds, 1);
}

TEST(Search, ExhaustiveFindsThePlantedWinner) {
  const Outcome out = simulate({.truth = field_with_winner(30, 0.05), .weather = {}, .strategy = "exhaustive"}, 21);
  EXPECT_EQ(out.confirmed.winner, 30);
  EXPECT_TRUE(out.found.complete);
}

TEST(Search, UnknownStrategyNamesTheKnown) {
  const Result<Strategy> none = find_strategy("luck");
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.status().message(), testing::HasSubstr("halving, exhaustive"));
}

TEST(Race, OrderWithinRoundsIsRandomAndSeeded) {
  auto orders = [](uint64_t seed) {
    FakeClock clock;
    SimulatedRacer racer(clock, std::vector<double>(6, 1e6), 1);
    std::vector<std::vector<int>> seen;
    Race race(racer, clock, seed,
              {.on_round =
                   [&](std::span<const RoundSample> samples) {
                     std::vector<int> order;
                     for (const RoundSample& s : samples) order.push_back(s.candidate);
                     seen.push_back(order);
                     return Status();
                   },
               .on_outcome = [](int, const Prepared&) { return Status(); },
               .on_step = {}});
    const std::vector<int> arms = {0, 1, 2, 3, 4, 5};
    for (int c : arms) race.prepare(c);
    for (int i = 0; i < 6; ++i) race.round(db::Phase::kSearch, arms);
    return seen;
  };
  EXPECT_EQ(orders(4), orders(4));
  EXPECT_NE(orders(4), orders(5));
  const auto seen = orders(4);
  EXPECT_GT(std::set<std::vector<int>>(seen.begin(), seen.end()).size(), 1u);
}

TEST(Stats, MedianAndInterval) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  const std::vector<double> values = {1, 2, 3, 4, 5, 6, 7, 8, 100};
  const Interval i = median_interval(values, 0.95);
  EXPECT_EQ(i.mid, 5);
  EXPECT_LE(i.lo, 4);
  EXPECT_GE(i.hi, 6);
  EXPECT_LT(i.hi, 100) << "one outlier must not carry the interval";
}

TEST(Stats, RatiosAreTakenBackFromTheirLogarithms) {
  const Interval r = ratio_of({.lo = std::log(0.5), .mid = 0, .hi = std::log(3)});
  EXPECT_DOUBLE_EQ(r.lo, 0.5);
  EXPECT_EQ(r.mid, 1);
  EXPECT_DOUBLE_EQ(r.hi, 3);
  const Interval unbounded = ratio_of(order_interval(std::vector<double>{0.1}, 0.025));
  EXPECT_EQ(unbounded.lo, 0);
  EXPECT_EQ(unbounded.hi, std::numeric_limits<double>::infinity());
}

TEST(Stats, NoiseBoundHasAFloorAndGrowsWithNoise) {
  EXPECT_EQ(noise_bound({}, 41), kNoiseFloor);
  const std::vector<double> quiet(25, 0.0001);
  EXPECT_EQ(noise_bound(quiet, 41), kNoiseFloor);
  std::vector<double> loud;
  for (int i = 0; i < 25; ++i) loud.push_back(i % 2 == 0 ? 0.1 : -0.1);
  EXPECT_GT(noise_bound(loud, 41), 0.05);
}

TEST(Decide, NeedsBothTheBoundAndTheInterval) {
  const std::vector<double> clear(21, 0.05), tiny(21, 0.003), slower(21, -0.05);
  EXPECT_EQ(decide(clear, 0.01, 0.005), db::Verdict::kNew);
  EXPECT_EQ(decide(tiny, 0.01, 0.005), db::Verdict::kTie) << "within noise";
  EXPECT_EQ(decide(slower, 0.01, 0.005), db::Verdict::kKept);
  std::vector<double> torn;
  for (int i = 0; i < 21; ++i) torn.push_back(i % 2 == 0 ? 0.06 : -0.04);
  EXPECT_EQ(decide(torn, 0.01, 0.005), db::Verdict::kTie) << "the interval includes 1";
  EXPECT_EQ(decide({}, 0.01, 0.005), db::Verdict::kTie);
}

}  // namespace
}  // namespace hone::autotune
