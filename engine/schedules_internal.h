// The engine's threads: one Schedule per thread count that some plan asks for, made once and kept.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "engine/runtime/schedule.h"

namespace hone {

class Schedules {
 public:
  // Before the first get().
  void set_kind(runtime::ScheduleKind kind) { kind_ = kind; }
  runtime::ScheduleKind kind() const { return kind_; }

  // null for one thread: the caller runs inline, through no scheduler at all. Thread safe.
  Result<runtime::Schedule*> get(int threads) {
    if (threads <= 1) return nullptr;
    const std::lock_guard lock(mutex_);
    std::unique_ptr<runtime::Schedule>& schedule = by_threads_[threads];
    if (schedule == nullptr) {
      HONE_ASSIGN_OR_RETURN(schedule, runtime::make_schedule({kind_, threads}));
    }
    return schedule.get();
  }

 private:
  runtime::ScheduleKind kind_ = runtime::ScheduleKind::kTbb;
  std::mutex mutex_;
  std::map<int, std::unique_ptr<runtime::Schedule>> by_threads_;
};

// Tasks [0, tasks) of an op on a schedule, or inline where there is none.
inline void run_tasks(runtime::Schedule* schedule, runtime::RegionTag tag, int64_t tasks, runtime::RangeBody body) {
  if (schedule != nullptr && tasks > 1) {
    schedule->for_range(tag, tasks, 1, body);
  } else if (tasks > 0) {
    body.fn(body.context, 0, tasks);
  }
}

}  // namespace hone
