#include "autotune/measure/region_threshold.h"

#include <gmock/gmock.h>

#include <vector>

#include "jit/codegen.h"
#include "kernels/matmul/blocking.h"

namespace hone::autotune {
namespace {

Rung rung(double work, double gain) { return {.work = work, .gain = {gain - 0.02, gain, gain + 0.02}}; }

TEST(AutotuneRegionThreshold, LiesWhereTheGainPassesThroughZero) {
  const std::vector<Rung> rungs = {rung(1000, -1), rung(2000, -0.5), rung(4000, -0.3), rung(8000, 0.3),
                                   rung(16000, 0.5)};
  EXPECT_NEAR(static_cast<double>(min_work(rungs).value()), 4000 * std::sqrt(2.0), 1);
}

TEST(AutotuneRegionThreshold, OneRungAloneIsLuck) {
  const std::vector<Rung> rungs = {rung(1000, -1), rung(2000, 0.3), rung(4000, -0.2), rung(8000, 0.2),
                                   rung(16000, 0.4)};
  EXPECT_NEAR(static_cast<double>(min_work(rungs).value()), 4000 * std::sqrt(2.0), 1);
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
  EXPECT_FALSE(min_work(never)) << "a busy machine says nothing about a quiet one";
  EXPECT_FALSE(min_work({}));
}

class AutotuneRegionLadder : public testing::Test {
 protected:
  void SetUp() override {
    const Result<Machine> machine = detect_machine();
    if (!machine.ok() || !machine->best_isa().ok() || jit::compiling_generators().empty())
      GTEST_SKIP() << "no code generator emits code for this CPU";
    machine_ = *machine;
  }

  Machine machine_;
  SteadyClock clock_;
};

TEST_F(AutotuneRegionLadder, IsOfRealKernelsInTheUnitOfTheEngine) {
  for (const runtime::ScheduleKind kind : {runtime::ScheduleKind::kTbb, runtime::ScheduleKind::kDedicated}) {
    const Result<std::vector<Rung>> rungs = climb(machine_, {kind, 2}, 0.05, 3, clock_);
    if (rungs.status().code() == Code::kUnsupported) GTEST_SKIP() << rungs.status().message();
    ASSERT_TRUE(rungs.ok()) << rungs.status().to_string();
    ASSERT_GE(rungs->size(), 2u);
    for (size_t i = 0; i < rungs->size(); ++i) {
      const matmul::MatmulProblem p = rung_problem(machine_, *machine_.best_isa(), 2, static_cast<int>(i));
      EXPECT_EQ((*rungs)[i].work, matmul::region_work(p)) << matmul::to_string(p);
    }
    const matmul::MatmulProblem smallest = rung_problem(machine_, *machine_.best_isa(), 2, 0);
    EXPECT_GT(matmul::region_work(smallest), smallest.flops() / 2) << "or the two units are not told apart";
  }
}

TEST_F(AutotuneRegionLadder, EndsWhenItIsStopped) {
  const std::atomic<bool> stop = true;
  const Result<std::vector<Rung>> rungs = climb(machine_, {runtime::ScheduleKind::kTbb, 2}, 0.05, 3, clock_, &stop);
  EXPECT_THAT(rungs.status().code(), testing::AnyOf(Code::kUnavailable, Code::kUnsupported));
}

}  // namespace
}  // namespace hone::autotune
