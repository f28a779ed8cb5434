// See fork_join.h.
#include "autotune/measure/fork_join.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>

#include "autotune/measure/gather.h"
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
constexpr double kMostOverdraft = 10;  // of the time that was asked for

void busy_until(Clock& clock, int64_t end) {
  while (clock.now_ns() < end) {
  }
}

double latency_ns(Schedule& schedule, Clock& clock) {
  const int64_t begin = clock.now_ns();
  Meeting meeting(clock, schedule.parallelism());
  schedule.for_each({"fork_join", ""}, schedule.parallelism(), 1, [&](int64_t) {
    if (meeting.wait_for_all()) busy_until(clock, clock.now_ns() + kWorkNs);
  });
  return static_cast<double>(std::max<int64_t>(clock.now_ns() - begin - kWorkNs, 0));
}

// When measuring is over, whatever is under way.
struct Limit {
  Clock& clock;
  const int64_t end;
  const std::atomic<bool>* stop;

  bool interrupted() const { return stop != nullptr && stop->load(); }
  bool passed() const { return interrupted() || clock.now_ns() > end; }
};

// False, and nothing is added, when the limit was passed before it was through.
bool one_turn(Schedule& schedule, const Limit& limit, ForkJoinSamples& samples) {
  Clock& clock = limit.clock;
  std::vector<double> busy, paused;
  busy_until(clock, clock.now_ns() + kPauseNs);
  for (int i = 0; i < kWarmUp + kBusyRegions; ++i) {
    if (limit.passed()) return false;
    const double ns = latency_ns(schedule, clock);
    if (i >= kWarmUp) busy.push_back(ns);
  }
  for (int i = 0; i < kPausedRegions; ++i) {
    if (limit.passed()) return false;
    busy_until(clock, clock.now_ns() + kPauseNs);
    paused.push_back(latency_ns(schedule, clock));
  }
  samples.busy.push_back(std::move(busy));
  samples.paused.push_back(std::move(paused));
  return true;
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

Result<std::vector<ForkJoinSamples>> measure_fork_join(int threads, double seconds, uint64_t seed, Clock& clock,
                                                       const std::atomic<bool>* stop) {
  std::vector<std::unique_ptr<Schedule>> schedules;
  std::vector<ForkJoinSamples> samples;
  for (const ScheduleKind kind : {ScheduleKind::kDedicated, ScheduleKind::kTbb}) {
    HONE_ASSIGN_OR_RETURN(std::unique_ptr<Schedule> schedule, runtime::make_schedule({kind, threads}));
    if (schedule->effective() != schedule->requested()) continue;
    samples.push_back({.kind = kind, .busy = {}, .paused = {}});
    schedules.push_back(std::move(schedule));
  }
  if (samples.empty()) return unavailable(fmt::format("no kind of schedule has {} threads here", threads));
  std::mt19937_64 random(seed);
  std::vector<size_t> order(samples.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const int64_t begin = clock.now_ns();
  const Limit limit{clock, begin + static_cast<int64_t>(kMostOverdraft * seconds * 1e9), stop};
  auto round = [&] {
    std::shuffle(order.begin(), order.end(), random);
    return std::all_of(order.begin(), order.end(),
                       [&](size_t i) { return one_turn(*schedules[i], limit, samples[i]); });
  };
  for (size_t rounds = 0; rounds < kFewestRounds || static_cast<double>(clock.now_ns() - begin) * 1e-9 < seconds;
       ++rounds)
    if (!round()) break;
  if (limit.interrupted()) return unavailable("interrupted");
  std::erase_if(samples, [](const ForkJoinSamples& kind) { return kind.busy.empty(); });
  if (samples.empty())
    return unavailable(fmt::format("no region of {} threads could be timed within {:.2g} s: the machine is busy",
                                   threads, kMostOverdraft * seconds));
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
