#include "autotune/regions.h"

#include <gmock/gmock.h>

namespace hone::autotune {
namespace {

constexpr int64_t kNow = 1'800'000'000, kDay = 86'400;

bool current(int64_t measured_at, int64_t min_work = 1000) {
  db::ScheduleChoice choice;
  choice.measured_at = measured_at;
  choice.min_work = min_work;
  return is_current(choice, kNow);
}

TEST(AutotuneRegions, ARecordIsCurrentFor30Days) {
  EXPECT_TRUE(current(kNow));
  EXPECT_TRUE(current(kNow - 30 * kDay + 1));
  EXPECT_FALSE(current(kNow - 30 * kDay));
}

TEST(AutotuneRegions, ARecordFromTheFutureIsNotCurrent) {
  EXPECT_FALSE(current(kNow + 1));
  EXPECT_FALSE(current(kNow + 3650 * kDay));
}

TEST(AutotuneRegions, ARecordWithoutAThresholdIsNotCurrent) { EXPECT_FALSE(current(kNow, 0)); }

TEST(AutotuneRegions, MoreThreadsThanCpusAreNotTimed) {
  Machine machine = detect_machine().value();
  machine.cpus_usable = 2;
  machine.cpus_source = "affinity";
  const RegionOptions options{.threads = 64, .seconds = 0.2};
  const Status regions = measure_regions(machine, options).status();
  EXPECT_EQ(regions.code(), Code::kUnavailable);
  EXPECT_THAT(regions.message(), testing::HasSubstr("64 threads have 2 CPU(s) here (affinity)"));
  EXPECT_EQ(measure_smallest_work(machine, runtime::ScheduleKind::kTbb, options).status().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace hone::autotune
