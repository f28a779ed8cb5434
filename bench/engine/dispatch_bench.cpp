// What a call costs beyond its kernel. A 1 x 1 by 1 x 16 matmul has one multiplication per element, so all of its time
// is overhead: through the public API, and as the bare kernel. And what it costs to open a parallel region, whose
// distribution matters more than its mean: one late worker makes the whole matmul late.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "bench/bench_internal.h"
#include "engine/runtime/schedule.h"
#include "hone/engine.hpp"

namespace hone::bench {
namespace {

constexpr int64_t kN = 16;

void prepared_matmul(benchmark::State& state) {
  const Result<Engine> engine = Engine::create({.use_database = false, .threads = 1});
  if (value_or_skip(state, engine) == nullptr) return;
  const AlignedBuffer weights = floats(kN), x = floats(1), y = floats(kN);
  const Result<Matmul> made = engine->prepare(MatmulSpec{.n = kN, .k = 1}, weights.as<float>().data());
  const Matmul* matmul = value_or_skip(state, made);
  if (matmul == nullptr) return;
  const MatmulCall call{.m = 1, .a = x.as<float>().data(), .c = y.as<float>().data()};
  for (auto _ : state)
    if (const Status s = matmul->run(call); !s.ok()) return state.SkipWithError(s.to_string().c_str());
}
BENCHMARK(prepared_matmul);

void bare_kernel(benchmark::State& state) {
  const Result<Isa> isa = this_machine().best_isa();
  if (value_or_skip(state, isa) == nullptr) return;
  const matmul::MatmulProblem problem{.m = 1, .n = kN, .k = 1, .b = matmul::BLayout::kPacked};
  const matmul::TransformProgram program = matmul::default_program(problem, {*isa, blocking_caches(this_machine()), 1});
  const Result<jit::Executable> made = make(problem, program, *jit::code_generators().front());
  const jit::Executable* executable = value_or_skip(state, made);
  if (executable == nullptr) return;
  const AlignedBuffer weights = floats(matmul::packed_elements(kN, 1, program.panel)), x = floats(1), y = floats(kN);
  const matmul::Arguments arguments =
      matmul::bind(problem, {.a = x.as<float>().data(), .b = weights.as<float>().data(), .c = y.as<float>().data()});
  const ir::TaskSpace space = ir::task_space(executable->bounds, arguments.params.data());
  if (space.count != 1) return state.SkipWithError("the kernel has more than one task");
  int64_t task[ir::kMaxParallelLoops];
  space.values(0, task);
  for (auto _ : state) executable->kernel->run(arguments.buffers.data(), arguments.params.data(), task, nullptr);
}
BENCHMARK(bare_kernel);

// A region of two ranges of kWork each, on two threads; the time is what it took beyond kWork. An empty region would
// measure nothing: the caller is through with both ranges before any helper has looked, and the fastest pool would be
// the one that never wakes anybody. With work, a region whose helper comes too late pays for the second range, so
// the overall quantiles say what a caller gets; `helped` is the share of regions in which the helper came in time, and
// helped_p50_ns is the latency of those. `pause`: as long as nothing was asked of the threads before it.
using Clock = std::chrono::steady_clock;
constexpr std::chrono::nanoseconds kWork(5000);

void busy(std::chrono::nanoseconds time) {
  const Clock::time_point end = Clock::now() + time;
  while (Clock::now() < end) {
  }
}

double quantile(std::vector<double>& ns, double q) {
  if (ns.empty()) return 0;
  const auto at = ns.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(ns.size() - 1));
  std::nth_element(ns.begin(), at, ns.end());
  return *at;
}

void region(benchmark::State& state, runtime::ScheduleKind kind, std::chrono::microseconds pause) {
  const Result<std::unique_ptr<runtime::Schedule>> made = runtime::make_schedule({kind, 2});
  if (value_or_skip(state, made) == nullptr) return;
  if ((*made)->effective().kind != kind) return state.SkipWithError("this machine cannot have it");
  const std::thread::id self = std::this_thread::get_id();
  std::vector<double> all, helped;
  for (auto _ : state) {
    // A pause of microseconds is the work of a caller between two ops; in a longer one it sleeps too.
    if (pause >= std::chrono::milliseconds(1)) {
      std::this_thread::sleep_for(pause);
    } else {
      busy(pause);
    }
    std::atomic<bool> helper_came{false};
    const Clock::time_point begin = Clock::now();
    (*made)->for_range({"busy", "bench"}, 2, 1, [&](int64_t, int64_t) {
      if (std::this_thread::get_id() != self) helper_came.store(true, std::memory_order_relaxed);
      busy(kWork);
    });
    const std::chrono::duration<double, std::nano> took = Clock::now() - begin - kWork;
    state.SetIterationTime(std::max(took.count(), 1.0) / 1e9);
    all.push_back(took.count());
    if (helper_came) helped.push_back(took.count());
  }
  state.counters["helped"] = static_cast<double>(helped.size()) / static_cast<double>(all.size());
  state.counters["p50_ns"] = quantile(all, 0.5);
  state.counters["p99_ns"] = quantile(all, 0.99);
  state.counters["helped_p50_ns"] = quantile(helped, 0.5);
}

void register_regions() {
  for (runtime::ScheduleKind kind : {runtime::ScheduleKind::kTbb, runtime::ScheduleKind::kDedicated}) {
    for (int pause : {0, 20, 100, 1000}) {
      const std::string name = fmt::format("region/{}/after_{}us", to_string(runtime::ScheduleRequest{kind, 2}), pause);
      benchmark::RegisterBenchmark(name.c_str(), region, kind, std::chrono::microseconds(pause))
          ->UseManualTime()
          ->Iterations(pause < 1000 ? 5000 : 400);
    }
  }
}
const int registered = (register_regions(), 0);

}  // namespace
}  // namespace hone::bench
