// See gather.h.
#include "autotune/measure/gather.h"

#include <atomic>
#include <chrono>

namespace hone::autotune {
namespace {

using Clock = std::chrono::steady_clock;

struct Meeting {
  int wanted;
  Clock::time_point end;
  std::atomic<int> there{0};

  static void come(void* context, int64_t begin, int64_t end) {
    auto& meeting = *static_cast<Meeting*>(context);
    meeting.there.fetch_add(static_cast<int>(end - begin));
    while (meeting.there.load() < meeting.wanted && Clock::now() < meeting.end) {
    }
  }
};

}  // namespace

void gather(runtime::Schedule& schedule) {
  Meeting meeting{.wanted = schedule.parallelism(), .end = Clock::now() + std::chrono::milliseconds(20)};
  schedule.for_range({.op = "gather", .node = "wake threads"}, meeting.wanted, 1, {Meeting::come, &meeting});
}

}  // namespace hone::autotune
