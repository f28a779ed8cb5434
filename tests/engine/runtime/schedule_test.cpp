#include "engine/runtime/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace hone::runtime {
namespace {

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

struct Range {
  int64_t begin, end;
  bool operator==(const Range&) const = default;
};

TEST(Schedule, SequentialIsOneCall) {
  std::unique_ptr<Schedule> schedule = make_schedule({}).value();
  EXPECT_EQ(schedule->parallelism(), 1);
  EXPECT_EQ(schedule->name(), "sequential");
  std::vector<Range> seen;
  auto record = [](void* context, int64_t begin, int64_t end) {
    static_cast<std::vector<Range>*>(context)->push_back({begin, end});
  };
  schedule->for_range({}, 0, 1, {record, &seen});
  schedule->for_range({}, 9, 1, {record, &seen});
  EXPECT_EQ(seen, (std::vector<Range>{{0, 9}}));
}

}  // namespace
}  // namespace hone::runtime
