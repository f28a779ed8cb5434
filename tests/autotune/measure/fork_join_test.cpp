#include "autotune/measure/fork_join.h"

#include <gmock/gmock.h>

#include <atomic>
#include <random>

#include "engine/base/env.h"

namespace hone::autotune {
namespace {

using runtime::ScheduleKind;

// Rounds of a kind whose latencies are around these, with jitter of 5% and an outlier in each.
ForkJoinSamples planted(ScheduleKind kind, double busy, double paused, int rounds = 20) {
  std::mt19937 random(static_cast<unsigned>(busy + paused));
  std::uniform_real_distribution<double> jitter(0.95, 1.05);
  ForkJoinSamples samples{.kind = kind, .busy = {}, .paused = {}};
  for (int r = 0; r < rounds; ++r) {
    for (auto [rounds_of, ns] : {std::pair{&samples.busy, busy}, {&samples.paused, paused}}) {
      std::vector<double>& round = rounds_of->emplace_back();
      for (int i = 0; i < 9; ++i) round.push_back(ns * jitter(random));
      round.push_back(ns * 50);
    }
  }
  return samples;
}

ScheduleKind chosen(const ForkJoinSamples& tbb, const ForkJoinSamples& dedicated) {
  const ForkJoinSamples kinds[] = {dedicated, tbb};
  return choose_schedule(kinds);
}

TEST(AutotuneForkJoin, ATeamThatIsFasterByMoreThanItCostsIsChosen) {
  const ForkJoinSamples tbb = planted(ScheduleKind::kTbb, 3000, 50'000);
  EXPECT_EQ(chosen(tbb, planted(ScheduleKind::kDedicated, 1000, 50'000)), ScheduleKind::kDedicated);
  EXPECT_EQ(chosen(tbb, planted(ScheduleKind::kDedicated, 3000, 50'000)), ScheduleKind::kTbb) << "a tie";
  EXPECT_EQ(chosen(tbb, planted(ScheduleKind::kDedicated, 2800, 50'000)), ScheduleKind::kTbb) << "7% for a CPU";
  EXPECT_EQ(chosen(tbb, planted(ScheduleKind::kDedicated, 9000, 5'000)), ScheduleKind::kTbb);
  EXPECT_EQ(chosen(tbb, planted(ScheduleKind::kDedicated, 1000, 90'000)), ScheduleKind::kTbb) << "late after a pause";
}

TEST(AutotuneForkJoin, TooFewRoundsDecideNothing) {
  EXPECT_EQ(chosen(planted(ScheduleKind::kTbb, 3000, 9000, 3), planted(ScheduleKind::kDedicated, 300, 900, 3)),
            ScheduleKind::kTbb);
}

TEST(AutotuneForkJoin, WhatAloneCanBeHadIsChosen) {
  const ForkJoinSamples one[] = {planted(ScheduleKind::kTbb, 3000, 9000)};
  EXPECT_EQ(choose_schedule(one), ScheduleKind::kTbb);
  EXPECT_EQ(choose_schedule({}), ScheduleKind::kTbb);
}

TEST(AutotuneForkJoin, FiguresAreOfAllRounds) {
  ForkJoinSamples samples{.kind = ScheduleKind::kTbb, .busy = {{}, {}}, .paused = {{5, 7, 6}}};
  for (int i = 1; i <= 101; ++i) samples.busy[static_cast<size_t>(i % 2)].push_back(i);
  EXPECT_EQ(fork_join_figures(samples), (db::ForkJoin{"tbb", 51, 100, 6, 7}));
}

TEST(AutotuneForkJoin, EveryKindThatIsHadIsTimed) {
  SteadyClock clock;
  const Result<std::vector<ForkJoinSamples>> kinds = measure_fork_join(2, 0.3, 7, clock);
  if (kinds.status().code() == Code::kUnavailable) GTEST_SKIP() << kinds.status().message();
  ASSERT_TRUE(kinds.ok()) << kinds.status().to_string();
  for (const ForkJoinSamples& kind : *kinds) {
    ASSERT_FALSE(kind.busy.empty());
    EXPECT_EQ(kind.busy.size(), kind.paused.size());
    const db::ForkJoin f = fork_join_figures(kind);
    EXPECT_GE(f.median_ns, 0);
    EXPECT_GE(f.p99_ns, f.median_ns);
    EXPECT_GT(f.paused_p99_ns, 0);
  }
}

// Each look at it is a step later than the one before.
class CountingClock final : public Clock {
 public:
  explicit CountingClock(int64_t step_ns) : step_ns_(step_ns) {}
  int64_t now_ns() override { return looks_.fetch_add(1) * step_ns_; }
  int64_t looks() const { return looks_.load(); }

 private:
  const int64_t step_ns_;
  std::atomic<int64_t> looks_{1};
};

TEST(AutotuneForkJoin, TheDeadlineHoldsWithinATurn) {
  CountingClock clock(1'000'000'000);
  const Result<std::vector<ForkJoinSamples>> kinds = measure_fork_join(2, 2, 7, clock);
  EXPECT_EQ(kinds.status().code(), Code::kUnavailable);
  EXPECT_THAT(kinds.status().message(), testing::HasSubstr("within 20 s"));
  EXPECT_LT(clock.looks(), 200) << "a turn has 57 regions";
}

TEST(AutotuneForkJoin, EndsWhenItIsStopped) {
  CountingClock clock(1'000);
  const std::atomic<bool> stop = true;
  EXPECT_EQ(measure_fork_join(2, 1, 7, clock, &stop).status().message(), "interrupted");
}

TEST(AutotuneForkJoin, MoreThreadsThanAreHadAnywhereIsAnError) {
  SteadyClock clock;
  EXPECT_EQ(measure_fork_join(kMaxThreads + 1, 0.02, 7, clock).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace hone::autotune
