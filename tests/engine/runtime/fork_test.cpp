// r1: run, fork, run again in the child: works, no hang. What a child finds wrong is its exit code.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "engine/base/cpu_quota.h"
#include "engine/base/sandbox.h"
#include "engine/runtime/schedule.h"
#include "engine/runtime/trace.h"

namespace hone::runtime {
namespace {

int64_t sum_on(Schedule& schedule) {
  std::atomic<int64_t> sum{0};
  schedule.for_range({"test", "fork"}, 100, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
  return sum;
}

// Exit code of a child that runs `body`; 99 when it hangs.
template <typename Body>
int in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    _exit(body());
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

class Fork : public ::testing::TestWithParam<ScheduleKind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, Fork, ::testing::Values(ScheduleKind::kTbb, ScheduleKind::kDedicated),
                         [](const auto& param_info) { return std::string(schedule_kind_name(param_info.param)); });

TEST_P(Fork, AScheduleOfTheParentRunsInlineAndSaysSoOnce) {
  std::unique_ptr<Schedule> schedule = make_schedule({GetParam(), 2}).value();
  for (int i = 0; i < 100; ++i) ASSERT_EQ(sum_on(*schedule), 100);
  EXPECT_EQ(in_child([&] {
              const auto sink = std::make_shared<RecordingSink>();
              set_trace_sink(sink);
              if (sum_on(*schedule) != 100 || sum_on(*schedule) != 100) return 1;
              if (sink->downgrades().size() != 1 || !sink->regions().empty()) return 2;
              if (sink->downgrades()[0].effective != "sequential") return 3;
              schedule->close();
              schedule.reset();
              return 0;
            }),
            0);
  EXPECT_EQ(sum_on(*schedule), 100) << "the parent goes on";
}

TEST_P(Fork, AChildMayMakeItsOwn) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer lets no child of a process with threads start any";
#endif
  const std::unique_ptr<Schedule> tbb = make_schedule({ScheduleKind::kTbb, 2}).value();
  ASSERT_EQ(sum_on(*tbb), 100);
  const bool team =
      GetParam() == ScheduleKind::kDedicated && usable_cpus(affinity_cpus(), read_cpu_quota("")).count > 1;
  EXPECT_EQ(in_child([&] {
              const std::unique_ptr<Schedule> own = make_schedule({GetParam(), 2}).value();
              for (int i = 0; i < 100; ++i)
                if (sum_on(*own) != 100) return 1;
              // TBB had been used before the fork; a team is started anew.
              return own->name() == (team ? "dedicated(2)" : "sequential") ? 0 : 2;
            }),
            0);
}

// Where memory for their stacks is short, as in the worker of a tune. TBB itself would end the process.
TEST(ForkWithLimits, ThreadsThatCannotBeStartedAreAnError) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "a sanitizer's own memory is beyond any limit";
#endif
  EXPECT_EQ(in_child([] {
              limit_memory(64e6);
              Result<std::unique_ptr<Schedule>> many = make_schedule({ScheduleKind::kTbb, 1000});
              // A system that does not hold processes to that limit, or a parent that has used TBB.
              if (many.ok()) return sum_on(**many) == 100 ? 0 : 1;
              return many.status().code() == Code::kResourceExhausted ? 0 : 2;
            }),
            0);
}

}  // namespace
}  // namespace hone::runtime
