// See bench_racer.h.
#include "tools/hone/bench_racer.h"

#include <fmt/format.h>

#include <cmath>

#include "autotune/measure/flush.h"
#include "bench/peers/settle.h"

namespace hone::cli {
namespace {

// A sample shorter than this is repeated: below it the clock's own cost shows.
constexpr double kSampleNs = 20e3;

}  // namespace

Result<std::unique_ptr<BenchRacer>> BenchRacer::create(const op::Problem& problem,
                                                       const std::vector<autotune::Candidate>& candidates,
                                                       std::span<const HonePeer* const> peers, int threads,
                                                       autotune::Clock& clock, const autotune::RacerOptions& options,
                                                       std::shared_ptr<autotune::Weights>* peer_weights) {
  std::unique_ptr<BenchRacer> racer(
      new BenchRacer(problem, candidates.size(), peers, threads, clock, options, peer_weights));
  HONE_ASSIGN_OR_RETURN(racer->plans_, autotune::KernelRacer::create(problem, candidates, clock, options));
  return racer;
}

BenchRacer::~BenchRacer() {
  for (auto& [i, ready] : ready_)
    if (ready.handle != nullptr) peer(i).release(ready.handle);
}

autotune::Prepared BenchRacer::prepare(int i) { return is_peer(i) ? prepare_peer(i) : plans_->prepare(i); }

std::vector<autotune::Timing> BenchRacer::round(std::span<const int> implementations) {
  std::vector<autotune::Timing> timings;
  for (int i : implementations) {
    // A thread of the previous library that never sleeps is measured along with the next one: no reason to stop.
    if (!peers_.empty()) (void)hone::peers::settle();
    timings.push_back(is_peer(i) ? time_peer(i) : plans_->round(std::span(&i, 1)).front());
  }
  return timings;
}

std::string BenchRacer::setting(int i) const {
  const auto at = ready_.find(i);
  return at == ready_.end() ? "" : peer(i).setting(at->second.handle);
}

autotune::Timing BenchRacer::time_peer(int i) {
  const int64_t begin = clock_.now_ns();
  const Result<int64_t> ns = sample_peer(i);
  autotune::Timing timing{.wall_ns = clock_.now_ns() - begin};
  if (ns.ok()) timing.ns = *ns;
  if (!ns.ok()) timing.outcome = db::Outcome::kRefused, timing.detail = ns.status().message();
  return timing;
}

void BenchRacer::release(int i) {
  if (!is_peer(i)) return plans_->release(i);
  const auto at = ready_.find(i);
  if (at == ready_.end()) return;
  peer(i).release(at->second.handle);
  ready_.erase(at);
}

autotune::Prepared BenchRacer::prepare_peer(int i) {
  if (ready_.contains(i)) return {};
  if (work_ == nullptr) {
    Result<std::unique_ptr<PeerWork>> made = make_peer_work(problem_, options_.seed, peer_weights_);
    if (!made.ok()) return {db::Outcome::kRefused, made.status().message()};
    work_ = std::move(*made);
  }
  const Result<void*> handle = work_->prepare(peer(i), threads_);
  if (!handle.ok()) return {db::Outcome::kRefused, handle.status().message()};
  ready_[i] = {*handle, 1};
  work_->reset();
  if (!work_->run(peer(i), *handle)) return {db::Outcome::kRefused, fmt::format("{} failed", peer(i).name)};
  if (Status s = work_->check(peer(i)); !s.ok()) {
    release(i);
    return {db::Outcome::kWrong, s.message()};
  }
  if (options_.cache == autotune::CacheMode::kWarm) {
    const Result<int64_t> once = sample_peer(i);
    if (once.ok()) ready_[i].repeat = std::max<int64_t>(1, std::llround(kSampleNs / static_cast<double>(*once)));
  }
  return {};
}

void BenchRacer::flush(int i) {
  std::vector<std::span<const std::byte>> ranges = work_->ranges();
  size_t bytes = 0;
  if (const void* packed = peer(i).packed(ready_[i].handle, &bytes); packed != nullptr)
    ranges.emplace_back(static_cast<const std::byte*>(packed), bytes);
  autotune::flush_caches(ranges);
}

Result<int64_t> BenchRacer::sample_peer(int i) {
  const Ready& ready = ready_[i];
  if (options_.cache == autotune::CacheMode::kCold) {
    flush(i);
    peer(i).wake(ready.handle);
  }
  // Warm means after a call of its own, as for the plans: it fetches the operands and wakes the threads.
  if (options_.cache == autotune::CacheMode::kWarm && !work_->run(peer(i), ready.handle))
    return internal_error(fmt::format("{} failed", peer(i).name));
  const int64_t begin = clock_.now_ns();
  for (int64_t r = 0; r < ready.repeat; ++r)
    if (!work_->run(peer(i), ready.handle)) return internal_error(fmt::format("{} failed", peer(i).name));
  const int64_t ns = (clock_.now_ns() - begin) / ready.repeat;
  if (ns <= 0) return internal_error("a time of 0 was measured");
  return ns;
}

std::map<int, CounterReading> BenchRacer::count(std::span<const int> implementations) {
  std::map<int, CounterReading> readings;
  PerfCounters counters = PerfCounters::of_this_thread();
  if (!counters.any()) return readings;
  for (int i : implementations) {
    if (!peers_.empty()) (void)hone::peers::settle();
    const Result<CounterReading> reading = is_peer(i) ? count_peer(i, counters) : plans_->count(i, counters);
    if (reading.ok()) readings[i] = *reading;  // what fails here has been timed all the same
  }
  return readings;
}

Result<CounterReading> BenchRacer::count_peer(int i, PerfCounters& counters) {
  const auto at = ready_.find(i);
  if (at == ready_.end()) return failed_precondition("a peer that is not prepared has nothing to count");
  void* const handle = at->second.handle;
  const bool warm = options_.cache == autotune::CacheMode::kWarm;
  if (!warm) flush(i), peer(i).wake(handle);
  if (warm && !work_->run(peer(i), handle)) return internal_error(fmt::format("{} failed", peer(i).name));
  counters.start();
  const bool ran = work_->run(peer(i), handle);
  const CounterReading reading = counters.stop();
  if (!ran) return internal_error(fmt::format("{} failed", peer(i).name));
  return reading;
}

}  // namespace hone::cli
