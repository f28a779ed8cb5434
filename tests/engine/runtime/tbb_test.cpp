// The Schedule on TBB against its contract. No test needs more than one CPU: what must hold does so however few workers
// come.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "engine/runtime/region_internal.h"
#include "engine/runtime/schedule.h"

namespace hone::runtime {
namespace {

using Body = std::function<void(int64_t, int64_t)>;

void for_range(Schedule& schedule, int64_t n, int64_t grain, Body body) {
  schedule.for_range(
      {.op = "test", .node = "n0"}, n, grain,
      {[](void* context, int64_t begin, int64_t end) { (*static_cast<Body*>(context))(begin, end); }, &body});
}

std::unique_ptr<Schedule> tbb_of(int threads) { return make_schedule({ScheduleKind::kTbb, threads}).value(); }

TEST(Tbb, RefusesNonsense) {
  for (int threads : {0, -1, kMaxThreads + 1}) {
    Result<std::unique_ptr<Schedule>> schedule = make_schedule({ScheduleKind::kTbb, threads});
    ASSERT_FALSE(schedule.ok());
    EXPECT_EQ(schedule.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(schedule.status().message(), testing::HasSubstr(std::to_string(threads)));
  }
}

TEST(Tbb, NameAndParallelism) {
  EXPECT_EQ(tbb_of(3)->name(), "tbb(3)");
  EXPECT_EQ(tbb_of(3)->parallelism(), 3);
}

TEST(Tbb, EveryElementOnceInTheSpecifiedCuts) {
  for (int threads : {1, 2, 3, 7, 16}) {
    std::unique_ptr<Schedule> schedule = tbb_of(threads);
    for (int64_t n : {0, 1, 2, 9, 64, 200}) {
      for (int64_t grain : {1, 3, 40}) {
        std::mutex mutex;
        std::set<std::pair<int64_t, int64_t>> seen, expected;
        for_range(*schedule, n, grain, [&](int64_t begin, int64_t end) {
          std::lock_guard lock(mutex);
          EXPECT_TRUE(seen.insert({begin, end}).second);
        });
        int64_t tasks = task_count(n, grain, threads);
        for (int64_t i = 0; i < tasks; ++i) {
          expected.insert({task_range(n, tasks, i).begin, task_range(n, tasks, i).end});
        }
        EXPECT_EQ(seen, expected) << threads << " " << n << " " << grain;
      }
    }
  }
}

TEST(Tbb, MoreThreadsThanCpusReallyRun) {
  constexpr int kThreads = 4;
  std::unique_ptr<Schedule> schedule = tbb_of(kThreads);
  std::atomic<int> arrived{0}, met{0};
  // Each range waits for the others, for at most ten seconds: with fewer threads they would not meet.
  for_range(*schedule, kThreads, 1, [&](int64_t, int64_t) {
    ++arrived;
    for (int i = 0; i < 10000 && arrived < kThreads; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (arrived == kThreads) ++met;
  });
  EXPECT_EQ(met, kThreads);
  EXPECT_FALSE(in_region());
}

TEST(Tbb, OneTaskRunsOnTheCaller) {
  std::unique_ptr<Schedule> schedule = tbb_of(4);
  std::thread::id ran;
  for_range(*schedule, 3, 5, [&](int64_t, int64_t) {
    ran = std::this_thread::get_id();
    EXPECT_FALSE(in_region());
  });
  EXPECT_EQ(ran, std::this_thread::get_id());
}

TEST(Tbb, NestedRegionsRunInlineAcrossSchedules) {
  std::unique_ptr<Schedule> outer = tbb_of(3), inner = tbb_of(2);
  std::atomic<int> calls{0};
  for_range(*outer, 6, 1, [&](int64_t, int64_t) {
    EXPECT_TRUE(in_region());
    std::thread::id here = std::this_thread::get_id();
    for (Schedule* schedule : {inner.get(), outer.get()}) {
      for_range(*schedule, 100, 1, [&](int64_t begin, int64_t end) {
        EXPECT_EQ(begin, 0);
        EXPECT_EQ(end, 100);
        EXPECT_EQ(std::this_thread::get_id(), here);
        ++calls;
      });
    }
  });
  EXPECT_EQ(calls, 2 * 3);
  EXPECT_FALSE(in_region());
}

TEST(Tbb, ExceptionReachesTheCallerAndTheScheduleLives) {
  std::unique_ptr<Schedule> schedule = tbb_of(3);
  for (int64_t failing : {0, 5, 8}) {  // first, middle, last range
    EXPECT_THROW(for_range(*schedule, 9, 1,
                           [&](int64_t begin, int64_t end) {
                             if (begin <= failing && failing < end) throw std::runtime_error("planted");
                           }),
                 std::runtime_error);
    EXPECT_FALSE(in_region());
  }
  EXPECT_THROW(for_range(*schedule, 9, 1, [](int64_t, int64_t) { throw 7; }),
               int);  // all at once, not a std::exception
  std::atomic<int64_t> sum{0};
  for_range(*schedule, 9, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
  EXPECT_EQ(sum, 9);
}

TEST(Tbb, ExceptionInANestedRegionReachesTheCaller) {
  std::unique_ptr<Schedule> outer = tbb_of(2), inner = tbb_of(2);
  auto nested = [&](int64_t, int64_t) {
    for_range(*inner, 4, 1, [](int64_t, int64_t) { throw std::runtime_error("inner"); });
  };
  EXPECT_THROW(for_range(*outer, 4, 1, nested), std::runtime_error);
}

#if defined(__x86_64__)
TEST(Tbb, WorkersHaveTheCallersMxcsr) {
  constexpr unsigned kFtzDaz = 0x8040, kTowardZero = 0x6000;
  std::unique_ptr<Schedule> schedule = tbb_of(4);
  const unsigned before = _mm_getcsr();
  for (unsigned wanted : {before | kFtzDaz, before | kTowardZero, before}) {
    _mm_setcsr(wanted);
    std::atomic<int> wrong{0};
    for (int repeat = 0; repeat < 20; ++repeat) {
      for_range(*schedule, 64, 1, [&](int64_t, int64_t) {
        if ((_mm_getcsr() & ~0x3fu) != (wanted & ~0x3fu)) ++wrong;
      });
    }
    unsigned after = _mm_getcsr();
    _mm_setcsr(before);
    EXPECT_EQ(wrong, 0) << std::hex << wanted;
    EXPECT_EQ(after & ~0x3fu, wanted & ~0x3fu);
  }
}
#endif

TEST(Tbb, ManyCallersShareOneSchedule) {
  std::unique_ptr<Schedule> schedule = tbb_of(2);
  std::vector<std::thread> callers;
  std::atomic<int64_t> sum{0};
  for (int i = 0; i < 5; ++i) {
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 200; ++repeat) {
        for_range(*schedule, 17, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 5 * 200 * 17);
}

// Every thread of a pool enters a region of another schedule at the same time: no deadlock.
TEST(Tbb, RegionsFromPoolThreadsEnd) {
  std::vector<std::thread> pool;
  std::unique_ptr<Schedule> schedule = tbb_of(4);
  std::atomic<int64_t> sum{0};
  for (int i = 0; i < 2; ++i) {
    pool.emplace_back([&] {
      for (int repeat = 0; repeat < 100; ++repeat) {
        for_range(*schedule, 8, 1, [&](int64_t begin, int64_t end) {
          for_range(*schedule, 8, 1, [&](int64_t b, int64_t e) { sum += e - b; });
          sum += end - begin;
        });
      }
    });
  }
  for (std::thread& thread : pool) thread.join();
  EXPECT_EQ(sum, 2 * 100 * (8 + 4 * 8));
}

}  // namespace
}  // namespace hone::runtime
