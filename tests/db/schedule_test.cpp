#include <gmock/gmock.h>

#include "tests/db/db_testing.h"

namespace hone::db {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(DbSchedule, ComesBackNewestFirstWithItsKinds) {
  const auto store = must_open(":memory:");
  ASSERT_TRUE(store->schedules().ok());
  EXPECT_THAT(*store->schedules(), IsEmpty());
  ASSERT_TRUE(store->save_schedule(schedule_choice(2, 100)).ok());
  ASSERT_TRUE(store->save_schedule(schedule_choice(2, 300)).ok());
  ASSERT_TRUE(store->save_schedule(schedule_choice(4, 200)).ok());
  const auto all = store->schedules();
  ASSERT_TRUE(all.ok());
  ASSERT_EQ(all->size(), 3u);
  EXPECT_EQ((*all)[0].measured_at, 300);
  EXPECT_EQ((*all)[1].threads, 4);
  const ScheduleChoice wanted = schedule_choice(2, 100), &found = (*all)[2];
  EXPECT_EQ(found.machine.label, wanted.machine.label);
  EXPECT_EQ(found.build.engine, wanted.build.engine);
  EXPECT_EQ(found.schedule, wanted.schedule);
  EXPECT_EQ(found.min_work, wanted.min_work);
  EXPECT_EQ(found.fork_joins, wanted.fork_joins);
  EXPECT_THAT(*store->verify(), IsEmpty());
}

TEST(DbSchedule, TheSameSecondAgainReplaces) {
  const auto store = must_open(":memory:");
  ScheduleChoice choice = schedule_choice(2, 100);
  ASSERT_TRUE(store->save_schedule(choice).ok());
  choice.schedule = "tbb";
  choice.fork_joins.erase(choice.fork_joins.begin());
  ASSERT_TRUE(store->save_schedule(choice).ok());
  const auto all = store->schedules();
  ASSERT_EQ(all->size(), 1u);
  EXPECT_EQ(all->front().schedule, "tbb");
  EXPECT_EQ(rows(*store, "fork_joins"), 1);
}

TEST(DbSchedule, WhatAWrongClockLeftIsReplaced) {
  const auto store = must_open(":memory:");
  ScheduleChoice other_build = schedule_choice(2, 700);
  other_build.build.codegens = "llvm=19";
  for (const ScheduleChoice& choice : {schedule_choice(2, 100), other_build, schedule_choice(2, 900),
                                       schedule_choice(4, 800), schedule_choice(2, 600, "hone other")})
    ASSERT_TRUE(store->save_schedule(choice).ok());
  ASSERT_TRUE(store->save_schedule(schedule_choice(2, 200)).ok());
  std::vector<std::pair<int, int64_t>> left;
  const std::vector<ScheduleChoice> stored = *store->schedules();
  for (const ScheduleChoice& choice : stored) left.emplace_back(choice.threads, choice.measured_at);
  EXPECT_THAT(left, testing::ElementsAre(std::pair(4, 800), std::pair(2, 600), std::pair(2, 200), std::pair(2, 100)));
  EXPECT_EQ(rows(*store, "fork_joins"), 8);
  EXPECT_THAT(*store->verify(), IsEmpty());
}

TEST(DbSchedule, RefusesWhatCannotHaveBeenMeasured) {
  const auto store = must_open(":memory:");
  auto refused = [&](auto change, const std::string& why) {
    ScheduleChoice choice = schedule_choice(2, 100);
    change(choice);
    const Status s = store->save_schedule(choice);
    EXPECT_EQ(s.code(), Code::kInvalidArgument);
    EXPECT_THAT(s.message(), HasSubstr(why));
  };
  refused([](ScheduleChoice& c) { c.threads = 0; }, "threads is 0");
  refused([](ScheduleChoice& c) { c.schedule.clear(); }, "schedule is empty");
  refused([](ScheduleChoice& c) { c.min_work = -1; }, "min_work is -1");
  refused([](ScheduleChoice& c) { c.machine.key.clear(); }, "key is empty");
  refused([](ScheduleChoice& c) { c.measured_at = -5; }, "measured_at is -5");
  refused([](ScheduleChoice& c) { c.fork_joins[1].p99_ns = 1; }, "fork_joins p99_ns is 1");
  refused([](ScheduleChoice& c) { c.fork_joins[0].paused_median_ns = -1; }, "paused_median_ns is -1");
  refused([](ScheduleChoice& c) { c.schedule = "fibers"; }, "schedule is 'fibers', which is not among fork_joins");
  refused([](ScheduleChoice& c) { std::swap(c.fork_joins[0], c.fork_joins[1]); }, "out of order");
  EXPECT_EQ(rows(*store, "schedules"), 0);
}

}  // namespace
}  // namespace hone::db
