// See fork_join.h.
#include "autotune/measure/fork_join.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <thread>

#include "autotune/search/stats.h"

namespace hone::autotune {
namespace {

using runtime::Schedule;
using runtime::ScheduleKind;

constexpr int64_t kWorkNs = 2'000;
// Longer than helpers of any kind stay awake without work.
constexpr int64_t kPauseNs = 1'000'000;
constexpr int kWarmUp = 3, kBusyRegions = 50, kPausedRegions = 4;
// Below it the interval of choose_schedule() has no end.
constexpr size_t kFewestRounds = 8;
// A range does not wait for ever: where threads are more than CPUs, the others come when the kernel lets them.
constexpr int64_t kLatestNs = 20'000'000;
constexpr int kSpinsBeforeYield = 2'000;

void busy_until(Clock& clock, int64_t end) {
  while (clock.now_ns() < end) {
  }
}

struct Meeting {
  Clock& clock;
  const int threads;
  std::atomic<int> arrived{0};

  void take_part() {
    arrived.fetch_add(1);
    const int64_t latest = clock.now_ns() + kLatestNs;
    for (int spins = 0; arrived.load(std::memory_order_acquire) < threads; ++spins) {
      if (spins < kSpinsBeforeYield) continue;
      std::this_thread::yield();
      if (clock.now_ns() > latest) return;
    }
    busy_until(clock, clock.now_ns() + kWorkNs);
  }
};

double latency_ns(Schedule& schedule, Clock& clock) {
  Meeting meeting{clock, schedule.parallelism()};
  const int64_t begin = clock.now_ns();
  schedule.for_each({"fork_join", ""}, meeting.threads, 1, [&](int64_t) { meeting.take_part(); });
  return static_cast<double>(std::max<int64_t>(clock.now_ns() - begin - kWorkNs, 0));
}

void one_turn(Schedule& schedule, Clock& clock, ForkJoinSamples& samples) {
  busy_until(clock, clock.now_ns() + kPauseNs);
  for (int i = 0; i < kWarmUp; ++i) latency_ns(schedule, clock);
  std::vector<double>& busy = samples.busy.emplace_back();
  for (int i = 0; i < kBusyRegions; ++i) busy.push_back(latency_ns(schedule, clock));
  std::vector<double>& paused = samples.paused.emplace_back();
  for (int i = 0; i < kPausedRegions; ++i) {
    busy_until(clock, clock.now_ns() + kPauseNs);
    paused.push_back(latency_ns(schedule, clock));
  }
}

std::vector<double> all_of(const std::vector<std::vector<double>>& rounds) {
  std::vector<double> all;
  for (const std::vector<double>& round : rounds) all.insert(all.end(), round.begin(), round.end());
  std::sort(all.begin(), all.end());
  return all;
}

int64_t quantile(const std::vector<double>& sorted, double q) {
  if (sorted.empty()) return 0;
  return std::llround(sorted[static_cast<size_t>(q * static_cast<double>(sorted.size() - 1) + 0.5)]);
}

// log(time of a / time of b), round by round.
Interval gain(const std::vector<std::vector<double>>& a, const std::vector<std::vector<double>>& b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    ratios.push_back(std::log(std::max(median(a[i]), 1.0) / std::max(median(b[i]), 1.0)));
  return order_interval(ratios, 0.025);
}

}  // namespace

Result<std::vector<ForkJoinSamples>> measure_fork_join(int threads, double seconds, uint64_t seed, Clock& clock) {
  std::vector<std::unique_ptr<Schedule>> schedules;
  std::vector<ForkJoinSamples> samples;
  for (const ScheduleKind kind : {ScheduleKind::kDedicated, ScheduleKind::kTbb}) {
    HONE_ASSIGN_OR_RETURN(std::unique_ptr<Schedule> schedule, runtime::make_schedule({kind, threads}));
    if (schedule->effective() != schedule->requested()) continue;
    samples.push_back({.kind = kind, .busy = {}, .paused = {}});
    schedules.push_back(std::move(schedule));
  }
  std::mt19937_64 random(seed);
  std::vector<size_t> order(samples.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const int64_t begin = clock.now_ns();
  auto elapsed = [&] { return static_cast<double>(clock.now_ns() - begin) * 1e-9; };
  for (size_t round = 0; round < kFewestRounds || elapsed() < seconds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const size_t i : order) one_turn(*schedules[i], clock, samples[i]);
    if (elapsed() > 10 * seconds) break;
  }
  if (samples.empty()) return unavailable(fmt::format("no kind of schedule has {} threads here", threads));
  return samples;
}

db::ForkJoin fork_join_figures(const ForkJoinSamples& samples) {
  const std::vector<double> busy = all_of(samples.busy), paused = all_of(samples.paused);
  return {.schedule = std::string(runtime::schedule_kind_name(samples.kind)),
          .median_ns = quantile(busy, 0.5),
          .p99_ns = quantile(busy, 0.99),
          .paused_median_ns = quantile(paused, 0.5),
          .paused_p99_ns = quantile(paused, 0.99)};
}

ScheduleKind choose_schedule(std::span<const ForkJoinSamples> kinds) {
  auto of = [&](ScheduleKind kind) {
    return std::find_if(kinds.begin(), kinds.end(), [&](const ForkJoinSamples& s) { return s.kind == kind; });
  };
  const auto tbb = of(ScheduleKind::kTbb), dedicated = of(ScheduleKind::kDedicated);
  if (tbb == kinds.end() || dedicated == kinds.end()) return kinds.empty() ? ScheduleKind::kTbb : kinds.front().kind;
  const double worth = std::log1p(kWorthSpinning);
  const bool faster = gain(tbb->busy, dedicated->busy).lo > worth;
  const bool late = gain(tbb->paused, dedicated->paused).hi < -worth;
  return faster && !late ? ScheduleKind::kDedicated : ScheduleKind::kTbb;
}

}  // namespace hone::autotune
