#include "engine/runtime/schedule.h"

#include <algorithm>

#include "engine/runtime/region_internal.h"

namespace hone::runtime {
namespace {

thread_local bool t_in_region = false;

class Sequential final : public Schedule {
 public:
  int parallelism() const override { return 1; }
  std::string name() const override { return "sequential"; }
  void for_range(RegionTag, int64_t n, int64_t, RangeBody body) override {
    if (n > 0) body.fn(body.context, 0, n);
  }
};

}  // namespace

int64_t task_count(int64_t n, int64_t grain, int parallelism) {
  if (n <= 0) return 0;
  int64_t by_grain = std::max<int64_t>(1, n / std::max<int64_t>(1, grain));
  return std::min<int64_t>(std::max(1, parallelism), by_grain);
}

TaskRange task_range(int64_t n, int64_t tasks, int64_t task) {
  // i*n/T without the overflow of i*n: n = q*T + r gives i*q + i*r/T, and i*r < T*T is small.
  int64_t q = n / tasks, r = n % tasks;
  auto cut = [&](int64_t i) { return i * q + i * r / tasks; };
  return {.begin = cut(task), .end = cut(task + 1)};
}

std::unique_ptr<Schedule> make_sequential() { return std::make_unique<Sequential>(); }

Result<std::unique_ptr<Schedule>> make_schedule(int threads) {
  if (threads == 1) return make_sequential();
  return make_tbb(threads);
}

bool in_region() { return t_in_region; }

RegionScope::RegionScope(const FloatControl& of_caller) : own_(FloatControl::current()), outer_(t_in_region) {
  of_caller.apply();
  t_in_region = true;
}

RegionScope::~RegionScope() {
  t_in_region = outer_;
  own_.apply();
}

}  // namespace hone::runtime
