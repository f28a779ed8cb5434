// What a call costs beyond its kernel. A 1 x 1 by 1 x 16 matmul has one multiplication per element, so all of its time
// is overhead: through the public API, and as the bare kernel. And what it costs to open a parallel region, whose
// distribution matters more than its mean: one late worker makes the whole matmul late.
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

// An empty region of two ranges. `pause`: as long as the threads were left alone before it; workers that have fallen
// asleep must be woken.
void region(benchmark::State& state, int threads, std::chrono::microseconds pause) {
  using Clock = std::chrono::steady_clock;
  const Result<std::unique_ptr<runtime::Schedule>> made =
      runtime::make_schedule({runtime::ScheduleKind::kTbb, threads});
  if (value_or_skip(state, made) == nullptr) return;
  std::vector<double> ns;
  for (auto _ : state) {
    if (pause.count() > 0) std::this_thread::sleep_for(pause);
    const Clock::time_point begin = Clock::now();
    (*made)->for_range({"empty", "bench"}, threads, 1, {[](void*, int64_t, int64_t) {}, nullptr});
    const std::chrono::duration<double> took = Clock::now() - begin;
    state.SetIterationTime(took.count());
    ns.push_back(took.count() * 1e9);
  }
  auto quantile = [&](double q) {
    const auto at = ns.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(ns.size() - 1));
    std::nth_element(ns.begin(), at, ns.end());
    return *at;
  };
  state.counters["p50_ns"] = quantile(0.5);
  state.counters["p99_ns"] = quantile(0.99);
}
BENCHMARK_CAPTURE(region, one_thread, 1, std::chrono::microseconds(0))->UseManualTime()->Iterations(100'000);
BENCHMARK_CAPTURE(region, two_threads, 2, std::chrono::microseconds(0))->UseManualTime()->Iterations(20'000);
BENCHMARK_CAPTURE(region, two_threads_after_1ms, 2, std::chrono::microseconds(1000))->UseManualTime()->Iterations(500);

}  // namespace
}  // namespace hone::bench
