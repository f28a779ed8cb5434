// See gather.h.
#include "autotune/measure/gather.h"

#include <thread>

namespace hone::autotune {
namespace {

constexpr int kSpinsBeforeYield = 2'000;

}  // namespace

bool Meeting::wait_for_all() {
  arrived_.fetch_add(1);
  for (int spins = 0; arrived_.load(std::memory_order_acquire) < threads_; ++spins) {
    if (spins < kSpinsBeforeYield) continue;
    std::this_thread::yield();
    if (clock_.now_ns() > latest_) return false;
  }
  return true;
}

void gather(runtime::Schedule& schedule) {
  SteadyClock clock;  // of its own: a racer's may be a test's, which reads it by the number of looks
  Meeting meeting(clock, schedule.parallelism());
  schedule.for_each({.op = "gather", .node = "wake threads"}, schedule.parallelism(), 1,
                    [&](int64_t) { meeting.wait_for_all(); });
}

}  // namespace hone::autotune
