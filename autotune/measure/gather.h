// Awake threads: what an op meets in a model, where the one before it ended a microsecond ago.
#pragma once

#include <atomic>
#include <cstdint>

#include "autotune/measure/clock.h"
#include "engine/runtime/schedule.h"

namespace hone::autotune {

// Where the ranges of a region wait for each other, so that each has a thread of its own. A range does not wait for
// ever: a thread whose CPU is taken comes when the kernel lets it.
class Meeting {
 public:
  static constexpr int64_t kLatestNs = 20'000'000;

  // One moment for all ranges: were it counted from each one's arrival, a helper with many of them would wait for each.
  Meeting(Clock& clock, int threads) : clock_(clock), threads_(threads), latest_(clock.now_ns() + kLatestNs) {}
  // False: somebody did not come in time.
  bool wait_for_all();

 private:
  Clock& clock_;
  const int threads_;
  const int64_t latest_;
  std::atomic<int> arrived_{0};
};

// Opens a region in which every thread of the schedule waits until all have come, or a Meeting's time is over. Emptying
// caches takes long enough for them to fall asleep, and their wake-up would be measured in place of the op: 20 to 400
// us where a virtual CPU was halted, 4 ms where Linux wakes a thread on the caller's CPU and moves it at the next tick.
void gather(runtime::Schedule& schedule);

}  // namespace hone::autotune
