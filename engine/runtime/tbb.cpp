// A Schedule on oneTBB: helpers are tasks of an arena with one slot fewer than threads; the caller stays outside.
//
// A region puts helpers into the arena and never waits for them, only for tasks that they have claimed. So a caller
// whose arena is busy, or which is itself a thread of TBB, does all the work alone rather than wait, and cannot
// deadlock. Helpers that come late find the queue of a region that is over, or of a later one, which they then help.
#include <fmt/format.h>
#include <pthread.h>
#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/task_arena.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <vector>

#include "engine/runtime/pools_internal.h"
#include "engine/runtime/region_internal.h"

namespace hone::runtime {
namespace {

// The process that first used TBB, plus 1; 0: none has.
std::atomic<uint32_t> tbb_process{0};

// Whether so many threads can be there at once: TBB ends the process where it cannot start one (limits of processes and
// of memory, as a sandbox has them), so that is tried first, with threads that wait for each other and end.
// Nothing is allocated for each: a sandbox ends its process when there is no memory for that.
Status can_start(int threads) {
  std::vector<pthread_t> started;
  started.reserve(static_cast<size_t>(threads));
  std::atomic<bool> over{false};
  const auto wait = [](void* flag) -> void* {
    static_cast<std::atomic<bool>*>(flag)->wait(false);
    return nullptr;
  };
  int error = 0;
  for (pthread_t thread{}; std::ssize(started) < threads && error == 0;) {
    error = pthread_create(&thread, nullptr, wait, &over);
    if (error == 0) started.push_back(thread);
  }
  over = true;
  over.notify_all();
  for (const pthread_t thread : started) pthread_join(thread, nullptr);
  if (error == 0) return {};
  return resource_exhausted(fmt::format("{} threads cannot be started here, {} can ({}); ask for fewer", threads + 1,
                                        started.size() + 1, std::generic_category().message(error)));
}

// TBB starts no more workers than CPUs unless told to; a caller that asks for more gets what it asked for. The lowest
// of all limits counts, so there is one for all schedules. It only grows, as who else relies on it cannot be known.
// Error: resource_exhausted.
Status allow_threads(int threads) {
  static std::mutex mutex;
  static std::optional<tbb::global_control>* limit = new std::optional<tbb::global_control>;  // outlives every arena
  static int allowed = tbb::info::default_concurrency();
  const std::lock_guard lock(mutex);
  if (threads <= allowed) return {};
  HONE_RETURN_IF_ERROR(can_start(threads - 1));
  allowed = threads;
  limit->reset();
  limit->emplace(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(threads));
  return {};
}

// What one caller at a time uses; as many as there have been callers at once. Shared with helpers, which may start when
// the schedule is gone: waiting for them could wait for threads that wait for this one.
struct Lane {
  Queue queue;
  std::atomic<int64_t> helpers{0};  // in the arena and not yet looking at the queue
};

class TbbPool {
 public:
  // Of as many threads as allow_threads() has allowed.
  explicit TbbPool(int threads) : arena_(threads - 1, /*reserved_for_masters=*/0) {}

  void run(Region& region) {
    std::shared_ptr<Lane> lane = take();
    lane->queue.open(region);
    // Helpers that an earlier region left behind are as good as new ones.
    // Without memory or a thread for one, who is there does the work: the region is open and must be finished.
    try {
      for (int64_t have = lane->helpers.load(); have < region.tasks() - 1; ++have) {
        arena_.enqueue([lane] {
          lane->helpers.fetch_sub(1);
          lane->queue.help();
        });
        lane->helpers.fetch_add(1);
      }
    } catch (const std::exception&) {
    }
    lane->queue.run_and_finish(region);
    give_back(std::move(lane));
  }

 private:
  std::shared_ptr<Lane> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      free_.reserve(++lanes_);  // so that giving back does not allocate
      return std::make_shared<Lane>();
    }
    std::shared_ptr<Lane> lane = std::move(free_.back());
    free_.pop_back();
    return lane;
  }
  void give_back(std::shared_ptr<Lane> lane) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(lane));
  }

  tbb::task_arena arena_;
  std::mutex mutex_;
  size_t lanes_ = 0;
  std::vector<std::shared_ptr<Lane>> free_;
};

class TbbSchedule final : public Schedule {
 public:
  TbbSchedule(const ScheduleRequest& requested, const ScheduleRequest& effective)
      : Schedule(to_string(effective), requested, effective), pool_(std::make_unique<TbbPool>(effective.threads)) {}
  // Another thread may have held the locks of TBB when this process was forked off.
  ~TbbSchedule() override {
    if (!in_its_process()) (void)pool_.release();
  }

 protected:
  bool run(Region& region) override {
    pool_->run(region);
    return true;
  }

 private:
  std::unique_ptr<TbbPool> pool_;
};

}  // namespace

bool tbb_works_in_this_process() {
  const uint32_t first = tbb_process.load();
  return first == 0 || first == process_number() + 1;
}

Result<std::unique_ptr<Schedule>> make_tbb(const ScheduleRequest& requested, const ScheduleRequest& effective) {
  uint32_t none = 0;
  tbb_process.compare_exchange_strong(none, process_number() + 1);
  HONE_RETURN_IF_ERROR(allow_threads(effective.threads));
  return std::unique_ptr<Schedule>(std::make_unique<TbbSchedule>(requested, effective));
}

}  // namespace hone::runtime
