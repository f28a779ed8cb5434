#include "autotune/measure/region_threshold.h"

#include <gmock/gmock.h>

#include <vector>

#include "jit/codegen.h"

namespace hone::autotune {
namespace {

Rung rung(double work, double gain) { return {.work = work, .gain = {gain - 0.02, gain, gain + 0.02}}; }

TEST(AutotuneRegionThreshold, LiesWhereTheGainPassesThroughZero) {
  const std::vector<Rung> rungs = {rung(1000, -1), rung(2000, -0.5), rung(4000, -0.3), rung(8000, 0.3),
                                   rung(16000, 0.5)};
  EXPECT_NEAR(static_cast<double>(min_work(rungs)), 4000 * std::sqrt(2.0), 1);
}

TEST(AutotuneRegionThreshold, OneRungAloneIsLuck) {
  const std::vector<Rung> rungs = {rung(1000, -1), rung(2000, 0.3), rung(4000, -0.2), rung(8000, 0.2),
                                   rung(16000, 0.4)};
  EXPECT_NEAR(static_cast<double>(min_work(rungs)), 4000 * std::sqrt(2.0), 1);
  EXPECT_FALSE(is_decided(std::span(rungs).first(4)));
  EXPECT_TRUE(is_decided(rungs));
}

TEST(AutotuneRegionThreshold, AGainWithinTheNoiseIsNone) {
  EXPECT_FALSE(is_won({.work = 1, .gain = {-0.01, 0.1, 0.2}}));
  EXPECT_FALSE(is_won({.work = 1, .gain = {0.004, 0.1, 0.2}}));
  EXPECT_TRUE(is_won({.work = 1, .gain = {0.006, 0.1, 0.2}}));
  const std::vector<Rung> rungs = {{.work = 1000, .gain = {-0.1, 0.1, 0.3}}, rung(2000, 0.2), rung(4000, 0.4)};
  EXPECT_EQ(min_work(rungs), 2000) << "the first that is sure";
}

TEST(AutotuneRegionThreshold, WonFromTheFirstOrNever) {
  const std::vector<Rung> always = {rung(1000, 0.2), rung(2000, 0.3)}, never = {rung(1000, -1), rung(2000, 0.3)};
  EXPECT_EQ(min_work(always), 1000);
  EXPECT_EQ(min_work(never), 4000);
  EXPECT_EQ(min_work({}), 0);
}

TEST(AutotuneRegionThreshold, RealKernelsGiveOne) {
  const Result<Machine> machine = detect_machine();
  if (!machine.ok() || !machine->best_isa().ok() || jit::compiling_generators().empty())
    GTEST_SKIP() << "no code generator emits code for this CPU";
  SteadyClock clock;
  for (const runtime::ScheduleKind kind : {runtime::ScheduleKind::kTbb, runtime::ScheduleKind::kDedicated}) {
    const Result<int64_t> work = measure_min_work(*machine, {kind, 2}, 0.05, 3, clock);
    if (work.status().code() == Code::kUnsupported) GTEST_SKIP() << work.status().message();
    ASSERT_TRUE(work.ok()) << work.status().to_string();
    EXPECT_GT(*work, 1000);
    EXPECT_LT(*work, 100'000'000);
  }
}

}  // namespace
}  // namespace hone::autotune
