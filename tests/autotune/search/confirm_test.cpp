// Confirmation when a finalist falls away on the way: what cannot run to the end must not be what is decided for.
#include "autotune/search/confirm.h"

#include <gtest/gtest.h>

#include "tests/autotune/search/simulated_racer.h"

namespace hone::autotune {
namespace {

// 0 is the default plan, 1 the stored incumbent, 2 the challenger.
Confirmed confirmed(const std::vector<double>& truth, const std::set<int>& refused, const Finalists& finalists) {
  FakeClock clock;
  SimulatedRacer racer(clock, truth, 5, {.jitter = 0.005, .drift = 0, .outliers = 0});
  racer.zero = refused;
  Race race(racer, clock, 5,
            {.on_round = [](std::span<const RoundSample>) { return Status(); },
             .on_outcome = [](int, const Prepared&) { return Status(); },
             .on_step = {}});
  return confirm(race, finalists, 0.01, 1'000'000'000, false);
}

constexpr Finalists kAll{.challenger = 2, .incumbent = 1, .fallback = 0};

TEST(Confirm, TheDefaultPlanTakesThePlaceOfAnIncumbentThatIsRefused) {
  const Confirmed slower = confirmed({1e6, 9e5, 1.2e6}, {1}, kAll);
  EXPECT_EQ(slower.winner, 0) << "the challenger is slower than the default";
  EXPECT_EQ(slower.verdict, db::Verdict::kNew);
  EXPECT_NEAR(slower.ns, 1e6, 2e4);

  const Confirmed faster = confirmed({1e6, 9e5, 8e5}, {1}, kAll);
  EXPECT_EQ(faster.winner, 2);
  EXPECT_NEAR(faster.speedup.mid, 1.25, 0.02);
}

TEST(Confirm, ARefusedChallengerDoesNotWin) {
  const Confirmed out = confirmed({1e6, 9e5, 1e5}, {2}, kAll);
  EXPECT_EQ(out.winner, 1);
  EXPECT_NE(out.verdict, db::Verdict::kNew);
}

TEST(Confirm, WithoutAnybodyLeftThereIsNoTime) {
  const Confirmed out = confirmed({1e6}, {0}, {.challenger = 0, .incumbent = 0, .fallback = 0});
  EXPECT_EQ(out.ns, 0);
  const Confirmed alone = confirmed({1e6, 9e5, 8e5}, {0, 1}, kAll);
  EXPECT_EQ(alone.winner, 2);
  EXPECT_EQ(alone.fallback_ns, 0) << "nothing to compare with: tune() stores no decision";
}

}  // namespace
}  // namespace hone::autotune
