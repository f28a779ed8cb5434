// A Schedule on oneTBB: one task_arena of `threads` slots, the caller in one of them.
//
// Each range is one TBB task and the partitioner is static, so that a thread tends to get the same range on every call
// and finds its part of the weights in its own cache. TBB gives the rest of the contract: the first exception cancels
// ranges that have not started and is rethrown on the caller, and a caller that waits helps, so a busy pool cannot
// deadlock.
#include <fmt/format.h>
#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>

#include <optional>

#include "engine/runtime/region_internal.h"
#include "engine/runtime/schedule.h"

namespace hone::runtime {
namespace {

class TbbSchedule final : public Schedule {
 public:
  explicit TbbSchedule(int threads) : threads_(threads), arena_(threads, /*reserved_for_masters=*/1) {
    // TBB starts no more workers than CPUs unless told to; a caller that asks for more gets what it asked for.
    if (threads > tbb::info::default_concurrency()) {
      more_workers_.emplace(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(threads));
    }
  }

  int parallelism() const override { return threads_; }
  std::string name() const override { return fmt::format("tbb({})", threads_); }

  void for_range(RegionTag, int64_t n, int64_t grain, RangeBody body) override {
    const int64_t tasks = task_count(n, grain, threads_);
    if (tasks == 0) return;
    if (tasks == 1 || in_region()) {
      body.fn(body.context, 0, n);
      return;
    }
    const FloatControl of_caller = FloatControl::current();
    auto run_tasks = [&](const tbb::blocked_range<int64_t>& claimed) {
      RegionScope scope(of_caller);
      for (int64_t task = claimed.begin(); task < claimed.end(); ++task) {
        TaskRange range = task_range(n, tasks, task);
        body.fn(body.context, range.begin, range.end);
      }
    };
    arena_.execute(
        [&] { tbb::parallel_for(tbb::blocked_range<int64_t>(0, tasks, 1), run_tasks, tbb::static_partitioner()); });
  }

 private:
  int threads_;
  std::optional<tbb::global_control> more_workers_;
  tbb::task_arena arena_;
};

}  // namespace

Result<std::unique_ptr<Schedule>> make_tbb(int threads) {
  if (threads < 1 || threads > kMaxThreads) {
    return invalid_argument(fmt::format("threads must be from 1 to {}, got {}", kMaxThreads, threads));
  }
  return std::unique_ptr<Schedule>(std::make_unique<TbbSchedule>(threads));
}

}  // namespace hone::runtime
