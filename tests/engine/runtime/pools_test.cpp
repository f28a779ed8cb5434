// The Schedules that have threads, against their contract. No test needs more than one CPU: what must hold does so
// however few workers come. Where this machine cannot have a dedicated team, its tests are skipped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/cpu_quota.h"
#include "engine/runtime/region_internal.h"
#include "engine/runtime/schedule.h"
#include "engine/runtime/trace.h"

namespace hone::runtime {
namespace {

using testing::HasSubstr;

constexpr RegionTag kTag{.op = "test", .node = "n0"};

// Waits until `arrived` says that all are there, for at most ten seconds.
bool meet(std::atomic<int>& arrived, int all) {
  ++arrived;
  for (int i = 0; i < 10'000 && arrived < all; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return arrived >= all;
}

class Pools : public ::testing::TestWithParam<ScheduleKind> {
 protected:
  void SetUp() override {
    if (GetParam() == ScheduleKind::kDedicated && usable() < 2) GTEST_SKIP() << "a team needs two CPUs";
  }
  static int usable() { return usable_cpus(affinity_cpus(), read_cpu_quota("")).count; }
  // As many threads as asked for, or as a team can have here.
  static std::unique_ptr<Schedule> make(int threads) {
    const bool team = GetParam() == ScheduleKind::kDedicated;
    const ScheduleRequest request{GetParam(), team ? std::min(threads, usable()) : threads};
    std::unique_ptr<Schedule> schedule = make_schedule(request).value();
    EXPECT_EQ(schedule->effective(), request.threads == 1 ? ScheduleRequest{} : request);
    return schedule;
  }
};
INSTANTIATE_TEST_SUITE_P(Kinds, Pools, ::testing::Values(ScheduleKind::kTbb, ScheduleKind::kDedicated),
                         [](const auto& param_info) { return std::string(schedule_kind_name(param_info.param)); });

TEST_P(Pools, NameAndParallelism) {
  const std::unique_ptr<Schedule> schedule = make(2);
  EXPECT_EQ(schedule->name(), std::string(schedule_kind_name(GetParam())) + "(2)");
  EXPECT_EQ(schedule->parallelism(), 2);
}

TEST_P(Pools, EveryElementOnceInTheSpecifiedCuts) {
  for (int threads : {1, 2, 3, 7, 16}) {
    std::unique_ptr<Schedule> schedule = make(threads);
    for (int64_t n : {0, 1, 2, 9, 64, 200}) {
      for (int64_t grain : {1, 3, 40}) {
        std::mutex mutex;
        std::set<std::pair<int64_t, int64_t>> seen, expected;
        schedule->for_range(kTag, n, grain, [&](int64_t begin, int64_t end) {
          std::lock_guard lock(mutex);
          EXPECT_TRUE(seen.insert({begin, end}).second);
        });
        int64_t tasks = task_count(n, grain, schedule->parallelism());
        for (int64_t i = 0; i < tasks; ++i) {
          expected.insert({task_range(n, tasks, i).begin, task_range(n, tasks, i).end});
        }
        EXPECT_EQ(seen, expected) << threads << " " << n << " " << grain;
      }
    }
  }
}

TEST_P(Pools, AsManyThreadsAsAskedForReallyRun) {
  const std::unique_ptr<Schedule> schedule = make(4);
  const int threads = schedule->parallelism();
  std::atomic<int> arrived{0}, met{0};
  schedule->for_range(kTag, threads, 1, [&](int64_t, int64_t) { met += meet(arrived, threads) ? 1 : 0; });
  EXPECT_EQ(met, threads);
  EXPECT_FALSE(in_region());
}

// TBB's limits are process wide, and the lowest counts: a small schedule must not limit a large one.
TEST_P(Pools, SchedulesOfDifferentSizesDoNotLimitEachOther) {
  const std::unique_ptr<Schedule> small = make(3), large = make(6), medium = make(5);
  for (Schedule* schedule : {small.get(), large.get(), medium.get()}) {
    const int threads = schedule->parallelism();
    std::atomic<int> arrived{0}, met{0};
    schedule->for_range(kTag, threads, 1, [&](int64_t, int64_t) { met += meet(arrived, threads) ? 1 : 0; });
    EXPECT_EQ(met, threads);
  }
}

TEST_P(Pools, OneTaskRunsOnTheCaller) {
  std::unique_ptr<Schedule> schedule = make(4);
  std::thread::id ran;
  schedule->for_range(kTag, 3, 5, [&](int64_t, int64_t) {
    ran = std::this_thread::get_id();
    EXPECT_FALSE(in_region());
  });
  EXPECT_EQ(ran, std::this_thread::get_id());
}

// Schedules of different kinds, nested in each other both ways.
TEST_P(Pools, NestedRegionsRunInlineAcrossSchedules) {
  const std::unique_ptr<Schedule> outer = make(3), team = make(2), tbb = make_schedule({ScheduleKind::kTbb, 2}).value();
  for (Schedule* opened : {outer.get(), tbb.get()}) {
    std::atomic<int> calls{0};
    opened->for_range(kTag, 6, 1, [&](int64_t, int64_t) {
      EXPECT_TRUE(in_region());
      const std::thread::id here = std::this_thread::get_id();
      for (Schedule* schedule : {team.get(), tbb.get(), outer.get()}) {
        schedule->for_range(kTag, 100, 1, [&](int64_t begin, int64_t end) {
          EXPECT_EQ(begin, 0);
          EXPECT_EQ(end, 100);
          EXPECT_EQ(std::this_thread::get_id(), here);
          ++calls;
        });
      }
    });
    EXPECT_EQ(calls, 3 * opened->parallelism());
    EXPECT_FALSE(in_region());
  }
}

TEST_P(Pools, ExceptionReachesTheCallerAndTheScheduleLives) {
  std::unique_ptr<Schedule> schedule = make(3);
  for (int64_t failing : {0, 5, 8}) {  // first, middle, last range
    EXPECT_THROW(schedule->for_range(kTag, 9, 1,
                                     [&](int64_t begin, int64_t end) {
                                       if (begin <= failing && failing < end) throw std::runtime_error("planted");
                                     }),
                 std::runtime_error);
    EXPECT_FALSE(in_region());
  }
  EXPECT_THROW(schedule->for_range(kTag, 9, 1, [](int64_t, int64_t) { throw 7; }),
               int);  // all at once, not a std::exception
  std::atomic<int64_t> sum{0};
  schedule->for_range(kTag, 9, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
  EXPECT_EQ(sum, 9);
}

TEST_P(Pools, ExceptionInANestedRegionReachesTheCaller) {
  std::unique_ptr<Schedule> outer = make(2), inner = make(2);
  auto nested = [&](int64_t, int64_t) {
    inner->for_range(kTag, 4, 1, [](int64_t, int64_t) { throw std::runtime_error("inner"); });
  };
  EXPECT_THROW(outer->for_range(kTag, 4, 1, nested), std::runtime_error);
}

#if defined(__x86_64__)
TEST_P(Pools, WorkersHaveTheCallersMxcsr) {
  constexpr unsigned kFtzDaz = 0x8040, kTowardZero = 0x6000;
  std::unique_ptr<Schedule> schedule = make(4);
  const unsigned before = _mm_getcsr();
  for (unsigned wanted : {before | kFtzDaz, before | kTowardZero, before}) {
    _mm_setcsr(wanted);
    std::atomic<int> wrong{0};
    for (int repeat = 0; repeat < 20; ++repeat) {
      schedule->for_range(kTag, 64, 1, [&](int64_t, int64_t) {
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

TEST_P(Pools, ManyCallersShareOneSchedule) {
  std::unique_ptr<Schedule> schedule = make(2);
  std::vector<std::thread> callers;
  std::atomic<int64_t> sum{0};
  for (int i = 0; i < 5; ++i) {
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 200; ++repeat) {
        schedule->for_range(kTag, 17, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 5 * 200 * 17);
}

// A pool of two, four threads asked for, every pool thread in a region at the same time: nobody waits for helpers that
// cannot come.
TEST_P(Pools, RegionsFromThreadsOfAPoolEnd) {
  const std::unique_ptr<Schedule> schedule = make(4);
  tbb::task_arena pool(2);
  std::atomic<int64_t> sum{0};
  pool.execute([&] {
    tbb::parallel_for(0, 64, [&](int) {
      schedule->for_range(kTag, 8, 1, [&](int64_t begin, int64_t end) {
        schedule->for_range(kTag, 8, 1, [&](int64_t b, int64_t e) { sum += e - b; });
        sum += end - begin;
      });
    });
  });
  // Where the team was taken, a region was one range.
  EXPECT_GE(sum, 64 * (8 + 8));
  EXPECT_LE(sum, 64 * (8 + 4 * 8));
}

class Planted : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

TEST_P(Pools, TwoFailuresAtOnceKeepTheTypeAndAreCounted) {
  const std::unique_ptr<Schedule> schedule = make(2);
  std::atomic<int> arrived{0};
  try {
    schedule->for_range(kTag, 2, 1, [&](int64_t, int64_t) {
      meet(arrived, 2);
      throw Planted("planted");
    });
    FAIL() << "nothing was thrown";
  } catch (const Planted& e) {
    EXPECT_STREQ(e.what(), "planted (and 1 more of its ranges failed)");
  }
}

TEST_P(Pools, CloseIsFinal) {
  const std::unique_ptr<Schedule> schedule = make(2);
  auto count = [](int64_t, int64_t) {};
  schedule->for_range(kTag, 8, 1, [&](int64_t, int64_t) { EXPECT_THROW(schedule->close(), std::logic_error); });
  schedule->close();
  schedule->close();
  for (int64_t n : {8, 1}) {
    try {
      schedule->for_range(kTag, n, 1, count);
      FAIL() << "ran after close()";
    } catch (const std::logic_error& e) {
      EXPECT_THAT(e.what(), testing::AllOf(HasSubstr(schedule->name()), HasSubstr("closed")));
    }
  }
}

TEST_P(Pools, CloseMayComeWhileARegionRuns) {
  const std::unique_ptr<Schedule> schedule = make(2);
  std::atomic<bool> started{false}, leave{false};
  std::atomic<int64_t> sum{0};
  std::thread caller([&] {
    schedule->for_range(kTag, 8, 1, [&](int64_t begin, int64_t end) {
      started = true;
      while (!leave) std::this_thread::yield();
      sum += end - begin;
    });
  });
  while (!started) std::this_thread::yield();
  std::thread closer([&] { schedule->close(); });
  leave = true;
  caller.join();
  closer.join();
  EXPECT_EQ(sum, 8);
}

TEST_P(Pools, MayGoWhileHelpersAreOnTheirWay) {
  std::atomic<int64_t> sum{0};
  for (int i = 0; i < 300; ++i) make(4)->for_range(kTag, 8, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
  EXPECT_EQ(sum, 300 * 8);
}

using Dedicated = Pools;
INSTANTIATE_TEST_SUITE_P(Team, Dedicated, ::testing::Values(ScheduleKind::kDedicated));

TEST_P(Dedicated, ASecondCallerRunsInlineAndItShows) {
  const std::unique_ptr<Schedule> team = make(2);
  const auto sink = std::make_shared<RecordingSink>();
  std::atomic<int> arrived{0};
  std::atomic<bool> leave{false};
  std::thread first([&] {
    team->for_range(kTag, 2, 1, [&](int64_t, int64_t) {
      ++arrived;
      while (!leave) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
  });
  while (arrived == 0) std::this_thread::yield();
  set_trace_sink(sink);
  std::vector<int64_t> seen;
  team->for_range(kTag, 8, 1, [&](int64_t begin, int64_t end) { seen = {begin, end}; });
  set_trace_sink(nullptr);
  leave = true;
  first.join();
  EXPECT_EQ(seen, (std::vector<int64_t>{0, 8}));
  ASSERT_EQ(sink->downgrades().size(), 1U);
  EXPECT_EQ(sink->downgrades()[0].requested, "dedicated(2)");
  EXPECT_EQ(sink->downgrades()[0].effective, "sequential");
  EXPECT_TRUE(sink->regions().empty());
}

TEST_P(Dedicated, WorkersSitOnCpusOfTheirOwnAndTheCallerIsLeftAlone) {
  cpu_set_t before, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  const std::unique_ptr<Schedule> team = make(4);
  const std::thread::id self = std::this_thread::get_id();
  std::atomic<int> arrived{0};
  std::mutex mutex;
  std::multiset<int> seats;
  team->for_range(kTag, team->parallelism(), 1, [&](int64_t, int64_t) {
    meet(arrived, team->parallelism());
    if (std::this_thread::get_id() == self) return;
    cpu_set_t mask;
    const std::lock_guard lock(mutex);
    ASSERT_EQ(sched_getaffinity(0, sizeof mask, &mask), 0);
    ASSERT_EQ(CPU_COUNT(&mask), 1);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &mask)) seats.insert(cpu);
  });
  EXPECT_EQ(seats.size(), static_cast<size_t>(team->parallelism() - 1));
  EXPECT_EQ(std::set<int>(seats.begin(), seats.end()).size(), seats.size());
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

// Teams of their own would spin on each other's CPUs. Making and ending many also passes the moments at which a worker
// might miss that it is to leave.
TEST_P(Dedicated, SchedulesShareOneTeam) {
  auto threads_now = [] {
    std::ifstream file("/proc/self/status");
    for (std::string line; std::getline(file, line);)
      if (line.starts_with("Threads:")) return std::stoi(line.substr(8));
    return -1;
  };
  const int before = threads_now();
  {
    const std::unique_ptr<Schedule> one = make_schedule({ScheduleKind::kDedicated, 2}).value();
    const std::unique_ptr<Schedule> two = make_schedule({ScheduleKind::kDedicated, 2}).value();
    EXPECT_EQ(threads_now(), before + 1);
    one->close();
    std::atomic<int> ranges{0};
    two->for_range({"x", ""}, 2, 1, [&](int64_t begin, int64_t end) { ranges += static_cast<int>(end - begin); });
    EXPECT_EQ(ranges, 2) << "closing one leaves the other its threads";
  }
  EXPECT_EQ(threads_now(), before);
  {
    const std::unique_ptr<Schedule> outer = make_schedule({ScheduleKind::kDedicated, 2}).value();
    std::atomic<int> made{0};
    outer->for_range({"x", ""}, 2, 1, [&](int64_t, int64_t) {
      made += make_schedule({ScheduleKind::kDedicated, 2}).ok() ? 1 : 0;
    });
    EXPECT_EQ(made, 2) << "from inside a region";
  }
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(make_schedule({ScheduleKind::kDedicated, 2}).ok());
}

TEST_P(Dedicated, AnIdleTeamBurnsNothing) {
  const std::unique_ptr<Schedule> team = make(2);
  auto cpu_ms = [] {
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
  };
  team->for_range(kTag, 8, 1, [](int64_t, int64_t) {});
  const double before = cpu_ms();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(cpu_ms() - before, 100);
}

}  // namespace
}  // namespace hone::runtime
