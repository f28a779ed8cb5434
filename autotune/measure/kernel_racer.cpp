// See kernel_racer.h.
//
// A sample is the time of one call. Short kernels are repeated until the sample takes kSampleNs, as the clock and the
// opening of a region cost tens of ns to microseconds; cold, each repetition is timed by itself, with the caches
// emptied in between and outside the time.
#include "autotune/measure/kernel_racer.h"

#include <fmt/format.h>

#include <algorithm>

#include "autotune/measure/flush.h"
#include "autotune/measure/gather.h"
#include "engine/base/math.h"

namespace hone::autotune {
namespace {

constexpr int64_t kSampleNs = 20'000;
// Checking a call that was repeated would take less than this.
constexpr int64_t kLongCallNs = 10'000'000;
constexpr int64_t kMostRepeats = 10'000;
// Cold repetitions each pay for a flush.
constexpr int64_t kMostColdRepeats = 8;
// The peak is a 95th percentile, the clock of a core may rise after it was measured, and a busy moment may have lowered
// it. What this is to catch, a clock that stood still or a kernel that did not run, is off by far more.
constexpr double kAbovePeak = 1.25;

}  // namespace

Result<std::unique_ptr<KernelRacer>> KernelRacer::create(const op::Problem& problem,
                                                         const std::vector<Candidate>& candidates, Clock& clock,
                                                         const RacerOptions& options) {
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<Workload> workload, make_workload(problem, options.seed, options.weights));
  return std::unique_ptr<KernelRacer>(new KernelRacer(problem, candidates, clock, options, std::move(workload)));
}

Result<runtime::Schedule*> KernelRacer::schedule(int threads) {
  std::unique_ptr<runtime::Schedule>& slot = schedules_[threads];
  if (slot == nullptr) {
    HONE_ASSIGN_OR_RETURN(slot, runtime::make_schedule({options_.schedule, threads}));
  }
  return slot.get();
}

Prepared KernelRacer::prepare(int index) {
  if (ready_.contains(index)) return {};
  const Candidate& candidate = candidates_[static_cast<size_t>(index)];
  Ready ready;
  auto refused = [](const Status& s) { return Prepared{db::Outcome::kRefused, s.message()}; };
  auto failed = [&](const Status& s) {
    return s.code() == Code::kDataLoss ? Prepared{db::Outcome::kWrong, s.message()} : refused(s);
  };
  bool refuted = false;
  stage(index, Stage::kCompile);
  if (Status s = compile(candidate, ready.compiled); !s.ok()) return refused(s);
  stage(index, Stage::kGuardedCheck);
  if (Status s = judged(workload_->check_guarded(ready.compiled, &refuted), refuted); !s.ok()) return failed(s);
  stage(index, Stage::kCheck);
  const int64_t begin = clock_.now_ns();
  if (Status s = judged(workload_->check(ready.compiled, &refuted), refuted); !s.ok()) return failed(s);
  // How often does a sample repeat? Where the first call was long the answer is known.
  if (clock_.now_ns() - begin < kLongCallNs) {
    stage(index, Stage::kTime);
    const Result<int64_t> once = time_once(ready.compiled);
    if (!once.ok()) return refused(once.status());
    const int64_t most = options_.cache == CacheMode::kCold ? kMostColdRepeats : kMostRepeats;
    ready.repeat = std::clamp<int64_t>(ceil_div(kSampleNs, std::max<int64_t>(*once, 1)), 1, most);
  }
  ready_.emplace(index, std::move(ready));
  return {};
}

Status KernelRacer::compile(const Candidate& candidate, Compiled& compiled) {
  HONE_ASSIGN_OR_RETURN(jit::CodeGenerator* const generator, jit::find_code_generator(candidate.codegen));
  HONE_ASSIGN_OR_RETURN(const std::vector<ir::Kernel> kernels, op::lower(problem_, candidate.program));
  compiled.program = candidate.program;
  compiled.workspaces = &workspaces_;
  HONE_ASSIGN_OR_RETURN(compiled.schedule, schedule(candidate.threads));
  for (const ir::Kernel& kernel : kernels) {
    HONE_ASSIGN_OR_RETURN(jit::Executable executable,
                          jit::make_executable(kernel, *generator, op::isa(candidate.program)));
    HONE_RETURN_IF_ERROR(workspaces_.reserve(executable.workspace_bytes, candidate.threads));
    compiled.kernels.push_back(std::move(executable));
  }
  return workload_->set_up(compiled);
}

// Whoever agreed with what is refuted now is wrong; its samples stop here and it is gated again when next prepared.
Status KernelRacer::judged(Status checked, const bool& refuted) {
  if (refuted) ready_.clear();
  return checked;
}

Result<int64_t> KernelRacer::time_once(const Compiled& candidate) {
  if (options_.cache == CacheMode::kCold) {
    flush_caches(workload_->ranges(candidate));
    gather(*candidate.schedule);
  }
  const int64_t begin = clock_.now_ns();
  HONE_RETURN_IF_ERROR(workload_->call(candidate));
  return clock_.now_ns() - begin;
}

std::vector<Timing> KernelRacer::round(std::span<const int> arms) {
  std::vector<Timing> timings;
  for (int arm : arms) {
    const int64_t begin = clock_.now_ns();
    // A candidate that passed may have been refuted since, by one that the reference sided with.
    const Prepared again = prepare(arm);
    Timing timing{.outcome = again.outcome, .detail = again.detail};
    if (again.outcome == db::Outcome::kMeasured) {
      const Result<int64_t> ns = sample(arm);
      if (ns.ok()) timing.ns = *ns;
      if (!ns.ok()) timing.outcome = db::Outcome::kRefused, timing.detail = ns.status().message();
    }
    timing.wall_ns = clock_.now_ns() - begin;
    timings.push_back(std::move(timing));
  }
  return timings;
}

Result<int64_t> KernelRacer::sample(int index) {
  Ready& ready = ready_.at(index);
  stage(index, Stage::kTime);
  int64_t total = 0;
  if (options_.cache == CacheMode::kCold) {
    for (int64_t i = 0; i < ready.repeat; ++i) {
      HONE_ASSIGN_OR_RETURN(const int64_t ns, time_once(ready.compiled));
      total += ns;
    }
  } else {
    // One untimed call: the candidates before this one have left their own data in the caches.
    gather(*ready.compiled.schedule);
    HONE_RETURN_IF_ERROR(workload_->call(ready.compiled));
    const int64_t begin = clock_.now_ns();
    for (int64_t i = 0; i < ready.repeat; ++i) HONE_RETURN_IF_ERROR(workload_->call(ready.compiled));
    total = clock_.now_ns() - begin;
  }
  const double ns = static_cast<double>(total) / static_cast<double>(ready.repeat);
  const Candidate& candidate = candidates_[static_cast<size_t>(index)];
  HONE_RETURN_IF_ERROR(plausible(ns, candidate.threads, op::numerics(candidate.program)));
  return std::max<int64_t>(static_cast<int64_t>(ns + 0.5), 1);
}

Result<CounterReading> KernelRacer::count(int index, PerfCounters& counters) {
  const auto at = ready_.find(index);
  if (at == ready_.end()) return failed_precondition("a candidate that is not prepared has nothing to count");
  const Ready& ready = at->second;
  CounterReading total;
  const bool cold = options_.cache == CacheMode::kCold;
  if (!cold) HONE_RETURN_IF_ERROR(workload_->call(ready.compiled));
  const int64_t stretches = cold ? ready.repeat : 1;  // counted apart, as the flush between them is not to count
  const int64_t calls = cold ? 1 : ready.repeat;
  for (int64_t s = 0; s < stretches; ++s) {
    if (cold) flush_caches(workload_->ranges(ready.compiled));
    counters.start();
    Status called;
    for (int64_t i = 0; i < calls && called.ok(); ++i) called = workload_->call(ready.compiled);
    const CounterReading reading = counters.stop();
    HONE_RETURN_IF_ERROR(called);
    for (size_t c = 0; c < reading.values.size(); ++c) {
      if (!reading.values[c]) continue;
      total.values[c] = total.values[c].value_or(0) + *reading.values[c] / static_cast<double>(ready.repeat);
    }
  }
  return total;
}

Status KernelRacer::plausible(double ns, int threads, std::string_view numerics) const {
  if (ns <= 0) return failed_precondition("a time of 0");
  const double peak = options_.peak.gflops(threads, options_.cpus, numerics);
  const double gflops = flops_ / ns;
  if (peak > 0 && gflops > kAbovePeak * peak)
    return failed_precondition(
        fmt::format("{:.1f} GFLOP/s is above this machine's peak of {:.1f} with {} threads", gflops, peak, threads));
  return {};
}

void KernelRacer::release(int index) { ready_.erase(index); }

}  // namespace hone::autotune
