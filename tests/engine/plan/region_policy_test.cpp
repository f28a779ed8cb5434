#include "engine/plan/region_policy.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include "engine/base/version.h"
#include "tests/engine/plan/decision_util.h"

namespace hone::plan {
namespace {

using runtime::ScheduleKind;
using testing::HasSubstr;

db::ScheduleChoice measured(const Machine& m, const std::string& schedule, int threads, int64_t at) {
  return {.machine = {.key = m.key(), .label = machine_to_json(m)},
          .build = {.engine = std::string(engine_label()), .codegens = ""},
          .threads = threads,
          .schedule = schedule,
          .min_work = 1000 + at,
          .fork_joins = {},
          .measured_at = at};
}

TEST(PlanRegionPolicy, TheNewestOfThisMachineEngineAndThreads) {
  const Machine here = described("zen4"), there = described("zen5");
  db::ScheduleChoice other_engine = measured(here, "dedicated", 4, 9);
  other_engine.build.engine = "hone 9.9.9";
  db::ScheduleChoice other_label = measured(here, "dedicated", 4, 8);
  other_label.machine.label = "{}";
  const std::vector<db::ScheduleChoice> stored = {other_engine,
                                                  other_label,
                                                  measured(there, "dedicated", 4, 7),
                                                  measured(here, "dedicated", 8, 6),
                                                  measured(here, "fibers", 4, 5),
                                                  measured(here, "dedicated", 4, 4),
                                                  measured(here, "tbb", 4, 3)};
  const RegionPolicy found = region_policy(stored, here, 4);
  EXPECT_EQ(found.schedule, (runtime::ScheduleRequest{ScheduleKind::kDedicated, 4}));
  EXPECT_EQ(found.source, "measured");
  EXPECT_EQ(found.min_work, 1004);
  EXPECT_EQ(found.measured->measured_at, 4);
}

TEST(PlanRegionPolicy, WithoutARecordTbbAndNoThreshold) {
  const Machine here = described("zen4");
  const RegionPolicy policy = region_policy({measured(here, "dedicated", 8, 6)}, here, 4);
  EXPECT_EQ(policy.schedule, (runtime::ScheduleRequest{ScheduleKind::kTbb, 4}));
  EXPECT_EQ(policy.source, "default");
  EXPECT_FALSE(policy.min_work || policy.measured);
}

TEST(PlanRegionPolicy, AThresholdThatWasNotFoundIsNone) {
  const Machine here = described("zen4");
  db::ScheduleChoice choice = measured(here, "dedicated", 4, 4);
  choice.min_work = 0;
  const RegionPolicy policy = region_policy({choice}, here, 4);
  EXPECT_EQ(policy.schedule.kind, ScheduleKind::kDedicated);
  EXPECT_EQ(policy.source, "measured");
  EXPECT_FALSE(policy.min_work);
}

TEST(PlanRegionPolicy, AWishComesBeforeARecord) {
  const Machine here = described("zen4");
  const std::vector<db::ScheduleChoice> stored = {measured(here, "dedicated", 4, 4)};
  const RegionPolicy tbb = region_policy(stored, here, 4, {.kind = ScheduleKind::kTbb, .source = "HONE_SCHEDULE"});
  EXPECT_EQ(tbb.schedule.kind, ScheduleKind::kTbb);
  EXPECT_EQ(tbb.source, "HONE_SCHEDULE");
  EXPECT_FALSE(tbb.min_work) << "it was measured on the other kind";
  EXPECT_TRUE(tbb.overruled);
  const RegionPolicy same = region_policy(stored, here, 4, {.kind = ScheduleKind::kDedicated, .source = "option"});
  EXPECT_EQ(same.source, "option");
  EXPECT_EQ(same.min_work, 1004);
  EXPECT_FALSE(same.overruled);
  EXPECT_TRUE(region_policy({}, here, 4, {.kind = ScheduleKind::kDedicated, .source = "option"}).overruled);
  EXPECT_FALSE(region_policy({}, here, 4, {.kind = ScheduleKind::kTbb, .source = "option"}).overruled);
  const RegionPolicy one = region_policy(stored, here, 4, {.kind = ScheduleKind::kSequential, .source = "option"});
  EXPECT_EQ(one.schedule, runtime::ScheduleRequest());
  EXPECT_EQ(one.source, "option");
  EXPECT_EQ(region_policy(stored, here, 1).source, "one thread");
}

TEST(PlanRegionPolicy, OptionsAndTheVariableAreNamedWhenTheyAreWrong) {
  ASSERT_EQ(setenv("HONE_SCHEDULE", " dedicated ", 1), 0);
  EXPECT_EQ(schedule_wish()->kind, ScheduleKind::kDedicated);
  EXPECT_EQ(schedule_wish()->source, "HONE_SCHEDULE");
  EXPECT_EQ(schedule_wish("tbb", "option")->kind, ScheduleKind::kTbb);
  EXPECT_FALSE(schedule_wish("auto", "option")->kind) << "auto is what was measured, whatever the variable says";
  ASSERT_EQ(setenv("HONE_SCHEDULE", "fibers", 1), 0);
  EXPECT_EQ(schedule_wish().status().code(), Code::kInvalidArgument);
  EXPECT_THAT(schedule_wish().status().message(), HasSubstr("HONE_SCHEDULE=fibers"));
  ASSERT_EQ(setenv("HONE_SCHEDULE", " ", 1), 0);
  EXPECT_FALSE(schedule_wish()->kind);
  ASSERT_EQ(unsetenv("HONE_SCHEDULE"), 0);
  EXPECT_THAT(schedule_wish("gpu", "EngineOptions::schedule").status().message(),
              HasSubstr("EngineOptions::schedule=gpu"));
}

}  // namespace
}  // namespace hone::plan
