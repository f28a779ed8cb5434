// Who is taken back, from made-up rounds.
#include "autotune/whole.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/base/random.h"

namespace hone::autotune {
namespace {

constexpr int kRounds = 25;
const double kTail = tail_of_each(24, 6);

// Times around `by_default` and `by_default / speedup`; each round is slow or fast as a whole, and jitters by 1%.
class Weather {
 public:
  explicit Weather(uint64_t seed) : random_(seed) {}

  PairedTimes times(double by_default, double speedup, int rounds = kRounds) {
    PairedTimes t;
    for (int i = 0; i < rounds; ++i) {
      const double pace = 1 + 0.5 * unit();
      t.by_default.push_back(by_default * pace * jitter());
      t.tuned.push_back(by_default / speedup * pace * jitter());
    }
    return t;
  }

 private:
  double unit() { return static_cast<double>(random_.below(1 << 20)) / (1 << 20); }
  double jitter() { return 1 + 0.02 * (unit() - 0.5); }
  Random random_;
};

WholePart part(const std::string& name, std::vector<PairedTimes> works) {
  return {.problem = name, .layout = name, .tuned = true, .relaid = false, .works = std::move(works)};
}

std::vector<std::string> names(const std::vector<TakenBack>& list, const std::vector<WholePart>& parts) {
  std::vector<std::string> names;
  for (const TakenBack& t : list) names.push_back(parts[t.part].problem);
  return names;
}

TEST(WholeSpeedup, IsTheMedianRatioOfTheSameRounds) {
  const Interval i = speedup_of({.by_default = {10, 200, 36}, .tuned = {10, 100, 12}});
  EXPECT_DOUBLE_EQ(i.lo, 1);
  EXPECT_DOUBLE_EQ(i.mid, 2);
  EXPECT_DOUBLE_EQ(i.hi, 3);
}

TEST(WholeSpeedup, OfNoRoundsSaysNothing) {
  const Interval i = speedup_of({});
  EXPECT_EQ(i.lo, 0);
  EXPECT_EQ(i.mid, 1);
  EXPECT_EQ(i.hi, std::numeric_limits<double>::infinity());
  EXPECT_FALSE(surely_slower(PairedTimes{}, kTail));
  // A round that was cut short has one time only.
  EXPECT_EQ(speedup_of({.by_default = {5}, .tuned = {}}).mid, 1);
}

TEST(WholeSpeedup, SurelySlowerIsBelowTheIntervalAndTheSpread) {
  const auto rounds = [](std::vector<double> tuned) {
    return PairedTimes{.by_default = std::vector<double>(tuned.size(), 100), .tuned = std::move(tuned)};
  };
  EXPECT_TRUE(surely_slower(rounds({104, 105, 106, 104, 105, 106, 105}), 0.01));
  EXPECT_FALSE(surely_slower(rounds({104, 105, 106, 104, 105, 106, 99}), 0.01));  // 8 of 2^7 cases are as far apart
  EXPECT_FALSE(surely_slower(rounds({104, 105, 106, 104, 105, 106, 105}), 0.001));
  EXPECT_FALSE(surely_slower(rounds({104, 105, 106, 104, 105, 106}), 0.05));  // fewer than kFewestRounds
  EXPECT_FALSE(surely_slower(rounds({100.2, 100.3, 100.2, 100.3, 100.2, 100.3, 100.2, 100.3}), 0.01));  // kNoiseFloor
  // All slower, by less than they differ among themselves.
  EXPECT_FALSE(surely_slower(rounds({100.1, 101, 101, 102, 130, 150, 170, 200}), 0.01));
  EXPECT_FALSE(surely_slower(rounds({80, 81, 82, 80, 81, 82, 80, 81}), 0.01));
}

TEST(WholeSpeedup, TheRoundsThatAreAskedForBearOneOutlier) {
  for (const double tail : {0.05, 0.01, kTail, 1e-6}) {
    PairedTimes t;
    for (size_t i = 0; i < rounds_for(tail); ++i) t.by_default.push_back(100), t.tuned.push_back(i == 3 ? 90 : 120);
    EXPECT_TRUE(surely_slower(t, tail)) << tail;
    if (t.tuned.size() == kFewestRounds) continue;
    t.by_default.pop_back(), t.tuned.pop_back();
    EXPECT_FALSE(surely_slower(t, tail)) << tail;
  }
}

// Twelve equal plans, 3% of noise in each time, all passes: what a trial asks of a model.
TEST(WholeTakeBack, NoiseIsHardlyEverBlamed) {
  constexpr int kTrials = 400, kParts = 12, kPasses = 6;
  Random random(7);
  const auto normal = [&] {  // sums of 12 uniform values
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(random.below(1 << 20)) / (1 << 20);
    return sum;
  };
  const auto times = [&](double by_default, double speedup, int rounds) {
    PairedTimes t;
    for (int i = 0; i < rounds; ++i) {
      t.by_default.push_back(by_default * std::exp(0.03 * normal()));
      t.tuned.push_back(by_default / speedup * std::exp(0.03 * normal()));
    }
    return t;
  };
  const double tail = tail_of_each(kParts + 4, kPasses);
  for (const int rounds : {7, 16, kRounds}) {
    int blamed = 0, blamed_by_all = 0, found = 0, wrong = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      std::vector<WholePart> parts;
      for (int p = 0; p < kParts; ++p) {
        parts.push_back(part(std::to_string(p), {{}, {}}));
        parts.back().works[static_cast<size_t>(p % 2)] = times(100, 1, rounds);
      }
      const std::vector<PairedTimes> works = {times(600, 1, rounds), times(600, 1, rounds)};
      blamed += take_back(works, parts, tail).empty() ? 0 : 1;
      blamed_by_all += take_all_back(works, parts, tail).empty() ? 0 : 1;
      parts[4].works[0] = times(100, 0.9, rounds);  // and one that costs
      for (const TakenBack& t : take_back(works, parts, tail)) (t.part == 4 ? found : wrong) += 1;
    }
    // One pass of six: 5% / 6 at most, of 400 trials 3.3.
    EXPECT_LE(blamed, 8) << rounds;
    EXPECT_LE(blamed_by_all, 8) << rounds;
    EXPECT_LE(wrong, 8) << rounds;
    if (rounds == kRounds) {
      EXPECT_GE(found, kTrials * 9 / 10);
    }
  }
}

TEST(WholeTakeBack, WhatIsFasterOrAsFastStays) {
  // Ties: the verdict depends on chance, and has to be rare.
  int taken = 0;
  constexpr int kTrials = 200;
  for (int seed = 0; seed < kTrials; ++seed) {
    Weather w(static_cast<uint64_t>(seed) + 1);
    const std::vector<WholePart> parts = {part("gains", {w.times(100, 1.2)}), part("gains more", {w.times(50, 1.6)}),
                                          part("tie", {w.times(30, 1.0)})};
    const std::vector<TakenBack> list = take_back({w.times(200, 1.1)}, parts, kTail);
    for (const TakenBack& t : list) EXPECT_EQ(parts[t.part].problem, "tie") << "seed " << seed;
    taken += static_cast<int>(list.size());
  }
  EXPECT_LT(taken, kTrials / 20);
}

TEST(WholeTakeBack, WhoIsSlowerItselfGoesEvenIfTheWholeGains) {
  Weather w(3);
  const std::vector<WholePart> parts = {part("gains", {w.times(100, 1.5)}), part("costs", {w.times(20, 0.9)})};
  const std::vector<TakenBack> list = take_back({w.times(130, 1.2)}, parts, kTail);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(parts[list[0].part].problem, "costs");
  EXPECT_EQ(list[0].cause, Cause::kItself);
  EXPECT_NEAR(list[0].speedup.mid, 0.9, 0.02);
}

TEST(WholeTakeBack, TheWorkInWhichItCostsMostIsNamed) {
  Weather w(4);
  const std::vector<WholePart> parts = {part("p", {w.times(10, 0.95), w.times(10, 0.7), w.times(10, 1.2)})};
  const std::vector<TakenBack> list = take_back({w.times(10, 1), w.times(10, 1), w.times(10, 1)}, parts, kTail);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].work, 1u);
}

TEST(WholeTakeBack, ALossThatOtherWorksOutweighStays) {
  Weather w(12);
  const std::vector<PairedTimes> works = {w.times(1000, 1.0, 0), w.times(1000, 1.2)};
  EXPECT_TRUE(take_back(works, {part("one call of the prompt", {w.times(1, 0.7), w.times(500, 1.3)})}, kTail).empty());
  EXPECT_EQ(take_back(works, {part("many", {w.times(500, 0.7), w.times(1, 1.3)})}, kTail).size(), 1u);
  // A work that is surely slower counts whatever others gain.
  const std::vector<PairedTimes> slow = {w.times(1000, 0.9), w.times(1000, 1.2)};
  EXPECT_EQ(take_back(slow, {part("in both", {w.times(300, 0.7), w.times(500, 1.5)})}, kTail).size(), 1u);
}

TEST(WholeTakeBack, DefaultPlansHaveNothingToTakeBack) {
  Weather w(5);
  WholePart p = part("default", {w.times(10, 0.5)});
  p.tuned = false;
  EXPECT_TRUE(take_back({w.times(10, 0.5)}, {p}, kTail).empty());
  EXPECT_TRUE(take_all_back({w.times(10, 0.5)}, {p}, kTail).empty());
}

// Decode chose panels that prefill reads slowly: the choice goes, with all that was made for it; the layout of other
// weights stays.
TEST(WholeTakeBack, ALayoutGoesWithAllPlansThatWereMadeForIt) {
  Weather w(6);
  std::vector<WholePart> parts = {part("m=1", {{}, w.times(10, 1.4)}), part("m=512", {w.times(100, 0.85), {}}),
                                  part("other weights", {w.times(100, 1.1), w.times(10, 1.1)})};
  parts[0].layout = parts[1].layout = "n,k";
  parts[0].relaid = parts[1].relaid = true;
  const std::vector<TakenBack> list = take_back({w.times(200, 0.95), w.times(20, 1.2)}, parts, kTail);
  EXPECT_THAT(names(list, parts), testing::UnorderedElementsAre("m=1", "m=512"));
  for (const TakenBack& t : list) {
    EXPECT_EQ(t.cause, Cause::kLayout);
    EXPECT_EQ(t.work, 0u);
    EXPECT_NEAR(t.speedup.mid, 0.85, 0.02);
  }
}

TEST(WholeTakeBack, AnotherPlanOnTheSameLayoutIsItsOwnAffair) {
  Weather w(7);
  std::vector<WholePart> parts = {part("m=1", {{}, w.times(10, 1.4)}), part("m=512", {w.times(100, 0.85), {}})};
  parts[0].layout = parts[1].layout = "n,k";
  EXPECT_THAT(names(take_back({w.times(100, 0.85), w.times(10, 1.4)}, parts, kTail), parts),
              testing::ElementsAre("m=512"));
}

TEST(WholeTakeBack, WithoutACulpritThoseThatLookSlowerGo) {
  Weather w(8);
  // Each 1% slower: within the noise of one part.
  PairedTimes noisy{.by_default = {100, 100, 100, 100, 100}, .tuned = {90, 101, 101, 102, 120}};
  const std::vector<WholePart> parts = {part("a", {noisy}), part("b", {w.times(100, 1.3)}), part("c", {noisy})};
  ASSERT_FALSE(surely_slower(noisy, kTail));
  const std::vector<TakenBack> list = take_back({w.times(300, 0.9)}, parts, kTail);
  EXPECT_THAT(names(list, parts), testing::UnorderedElementsAre("a", "c"));
  EXPECT_EQ(list[0].cause, Cause::kWork);
  EXPECT_NEAR(list[0].speedup.mid, 0.9, 0.02);  // of the whole
}

TEST(WholeTakeBack, ElseTheDearestHalf) {
  Weather w(9);
  const std::vector<WholePart> parts = {part("small", {w.times(1, 1.1)}), part("large", {w.times(300, 1.1)}),
                                        part("middle", {w.times(30, 1.1)}), part("elsewhere", {{}})};
  EXPECT_THAT(names(take_back({w.times(300, 0.9)}, parts, kTail), parts), testing::ElementsAre("large", "middle"));
  // Nothing of it where the whole is not surely slower.
  EXPECT_TRUE(take_back({w.times(300, 1.0, 0)}, parts, kTail).empty());
}

// Whoever measures after each answer comes to an end, whatever the cause is: the times of the whole never get better.
TEST(WholeTakeBack, EndsWithDefaultPlans) {
  Weather w(10);
  std::vector<WholePart> parts;
  for (int i = 0; i < 11; ++i) parts.push_back(part(std::to_string(i), {w.times(1 + i, 1.05)}));
  int passes = 0;
  for (;; ++passes) {
    const std::vector<TakenBack> list = take_back({w.times(100, 0.8)}, parts, kTail);
    if (list.empty()) break;
    for (const TakenBack& t : list) {
      EXPECT_TRUE(parts[t.part].tuned);
      parts[t.part].tuned = false;
    }
  }
  EXPECT_EQ(passes, 4);  // 11, 5, 2, 1
  for (const WholePart& p : parts) EXPECT_FALSE(p.tuned) << p.problem;
}

TEST(WholeTakeAllBack, WhoIsSlowerItselfGoesToo) {
  Weather w(13);
  const std::vector<WholePart> parts = {part("costs", {w.times(10, 0.8)}), part("gains", {w.times(10, 1.2)})};
  EXPECT_THAT(names(take_all_back({w.times(20, 1.1)}, parts, kTail), parts), testing::ElementsAre("costs"));
}

TEST(WholeTakeAllBack, TakesTheSlowWorkAndLeavesTheOther) {
  Weather w(11);
  std::vector<WholePart> parts = {part("prompt", {w.times(10, 1.1), {}}), part("answer", {{}, w.times(10, 1.1)}),
                                  part("both", {w.times(10, 1.1), w.times(10, 1.1)}),
                                  part("layout of prompt", {{}, w.times(10, 1.1)})};
  parts[0].layout = parts[3].layout = "n,k";
  parts[0].relaid = parts[3].relaid = true;
  const std::vector<TakenBack> list = take_all_back({w.times(20, 0.9), w.times(20, 1.1)}, parts, kTail);
  EXPECT_THAT(names(list, parts), testing::UnorderedElementsAre("prompt", "both", "layout of prompt"));
}

}  // namespace
}  // namespace hone::autotune
