// What holds for every Schedule, and what make_schedule makes of a request.
#include "engine/runtime/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <thread>
#include <vector>

#include "engine/base/cpu_quota.h"
#include "engine/base/env.h"
#include "engine/runtime/trace.h"
#include "tests/engine/runtime/schedule_testing.h"

namespace hone::runtime {
namespace {

using testing::HasSubstr;

// The whole table of the specification. The naive cut (n=9, grain=1, P=8, ceil) yields [14, 9).
TEST(Schedule, CutsCoverWithoutEmptyInvertedOrShortRanges) {
  for (int64_t n = 0; n <= 200; ++n) {
    for (int64_t grain = 1; grain <= 40; ++grain) {
      for (int p = 1; p <= 16; ++p) {
        int64_t tasks = task_count(n, grain, p);
        ASSERT_EQ(tasks, n <= 0 ? 0 : std::min<int64_t>(p, std::max<int64_t>(1, n / grain)));
        int64_t next = 0;
        for (int64_t i = 0; i < tasks; ++i) {
          TaskRange range = task_range(n, tasks, i);
          ASSERT_EQ(range.begin, i * n / tasks);
          ASSERT_EQ(range.begin, next);
          ASSERT_LT(range.begin, range.end);
          ASSERT_GE(range.end - range.begin, std::min(grain, n)) << n << " " << grain << " " << p;
          next = range.end;
        }
        ASSERT_EQ(next, tasks == 0 ? 0 : n);
      }
    }
  }
}

TEST(Schedule, CutsDoNotOverflow) {
  int64_t n = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(task_range(n, 4096, 4095).end, n);
  EXPECT_GT(task_range(n, 4096, 4095).begin, 0);
}

TEST(Schedule, NonsenseGrainAndParallelismAreOne) {
  EXPECT_EQ(task_count(10, 0, 4), 4);
  EXPECT_EQ(task_count(10, -5, 4), 4);
  EXPECT_EQ(task_count(10, 1, 0), 1);
  EXPECT_EQ(task_count(-1, 1, 4), 0);
}

TEST(Schedule, SequentialIsOneCall) {
  const std::unique_ptr<Schedule> schedule = make_schedule({}).value();
  EXPECT_EQ(schedule->parallelism(), 1);
  EXPECT_EQ(schedule->name(), "sequential");
  std::vector<std::pair<int64_t, int64_t>> seen;
  auto record = [&](int64_t begin, int64_t end) { seen.emplace_back(begin, end); };
  schedule->for_range({}, 0, 1, record);
  schedule->for_range({}, 9, 1, record);
  EXPECT_EQ(seen, (std::vector<std::pair<int64_t, int64_t>>{{0, 9}}));
}

TEST(Schedule, ForEachCallsEveryItemOnce) {
  const std::unique_ptr<Schedule> schedule = reversed_schedule(3);
  std::vector<int> calls(10, 0);
  schedule->for_each({"op", "node"}, 10, 2, [&](int64_t i) { ++calls[static_cast<size_t>(i)]; });
  EXPECT_THAT(calls, testing::Each(1));
}

TEST(Schedule, KindsHaveNames) {
  for (ScheduleKind kind : {ScheduleKind::kSequential, ScheduleKind::kTbb, ScheduleKind::kDedicated})
    EXPECT_EQ(parse_schedule_kind(schedule_kind_name(kind)).value(), kind);
  const Result<ScheduleKind> unknown = parse_schedule_kind("openmp");
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.status().message(), testing::AllOf(HasSubstr("openmp"), HasSubstr("dedicated")));
  EXPECT_EQ(to_string({ScheduleKind::kDedicated, 4}), "dedicated(4)");
  EXPECT_EQ(to_string({}), "sequential");
}

TEST(Schedule, RefusesNonsense) {
  for (ScheduleKind kind : {ScheduleKind::kSequential, ScheduleKind::kTbb, ScheduleKind::kDedicated}) {
    for (int threads : {0, -1, kMaxThreads + 1}) {
      const Result<std::unique_ptr<Schedule>> schedule = make_schedule({kind, threads});
      ASSERT_FALSE(schedule.ok());
      EXPECT_EQ(schedule.status().code(), Code::kInvalidArgument);
      EXPECT_THAT(schedule.status().message(), HasSubstr(std::to_string(threads)));
    }
  }
  EXPECT_FALSE(make_schedule({ScheduleKind::kSequential, 2}).ok());
}

TEST(Schedule, OneThreadOfAnyKindIsSequential) {
  for (ScheduleKind kind : {ScheduleKind::kTbb, ScheduleKind::kDedicated}) {
    const std::unique_ptr<Schedule> schedule = make_schedule({kind, 1}).value();
    EXPECT_EQ(schedule->effective(), ScheduleRequest{});
    EXPECT_EQ(schedule->requested(), (ScheduleRequest{kind, 1}));
  }
}

// r3: one CPU in the affinity mask, P = 8. The mask is a thread's, so a thread of its own has it.
TEST(Schedule, DedicatedNeverHasMoreThreadsThanCpus) {
  const auto sink = std::make_shared<RecordingSink>();
  set_trace_sink(sink);
  std::thread([] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    ASSERT_EQ(affinity_cpus(), 1);
    const std::unique_ptr<Schedule> schedule = make_schedule({ScheduleKind::kDedicated, 8}).value();
    EXPECT_EQ(schedule->name(), "tbb(8)");
    EXPECT_EQ(to_string(schedule->requested()), "dedicated(8)");
    EXPECT_EQ(to_string(schedule->effective()), "tbb(8)");
    std::atomic<int64_t> sum{0};
    schedule->for_range({}, 100, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
    EXPECT_EQ(sum, 100);
  }).join();
  set_trace_sink(nullptr);
  ASSERT_EQ(sink->downgrades().size(), 1U);
  EXPECT_EQ(sink->downgrades()[0].requested, "dedicated(8)");
  EXPECT_EQ(sink->downgrades()[0].effective, "tbb(8)");
  EXPECT_THAT(sink->downgrades()[0].reason, HasSubstr("1 CPU"));
}

TEST(Schedule, AFailureSkipsWhatHasNotStarted) {
  const std::unique_ptr<Schedule> schedule =
      std::make_unique<OrderedSchedule>("as they come", 4, [](std::vector<int64_t>&) {});
  for (int64_t failing : {0, 2, 3}) {
    std::vector<int64_t> started;
    EXPECT_THROW(schedule->for_range({}, 4, 1,
                                     [&](int64_t begin, int64_t) {
                                       started.push_back(begin);
                                       if (begin == failing) throw std::runtime_error("planted");
                                     }),
                 std::runtime_error);
    EXPECT_EQ(started.size(), static_cast<size_t>(failing + 1));
  }
}

}  // namespace
}  // namespace hone::runtime
