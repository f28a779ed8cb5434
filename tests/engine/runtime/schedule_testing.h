// Schedules for tests: the tasks of a region one after another, on the caller, in an order that no pool would choose.
#pragma once

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "engine/runtime/region_internal.h"
#include "engine/runtime/schedule.h"

namespace hone::runtime {

class OrderedSchedule final : public Schedule {
 public:
  using Reorder = std::function<void(std::vector<int64_t>& tasks)>;
  OrderedSchedule(std::string name, int threads, Reorder reorder)
      : Schedule(std::move(name), {ScheduleKind::kTbb, threads}, {ScheduleKind::kTbb, threads}),
        reorder_(std::move(reorder)) {}

 protected:
  bool run(Region& region) override {
    std::vector<int64_t> tasks(static_cast<size_t>(region.tasks()));
    std::iota(tasks.begin(), tasks.end(), int64_t{0});
    reorder_(tasks);
    for (int64_t task : tasks) region.run(task);
    return true;
  }

 private:
  Reorder reorder_;
};

inline std::unique_ptr<Schedule> reversed_schedule(int threads) {
  return std::make_unique<OrderedSchedule>(
      "reversed", threads, [](std::vector<int64_t>& tasks) { std::reverse(tasks.begin(), tasks.end()); });
}

// Another order at every call.
inline std::unique_ptr<Schedule> shuffled_schedule(int threads, uint64_t seed) {
  return std::make_unique<OrderedSchedule>("shuffled", threads,
                                           [rng = std::mt19937_64(seed)](std::vector<int64_t>& tasks) mutable {
                                             std::shuffle(tasks.begin(), tasks.end(), rng);
                                           });
}

}  // namespace hone::runtime
