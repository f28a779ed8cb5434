// Routed experts, 8 of which a token takes 2 (d=1024, ff=2816), by strategy. All three run in each iteration, in a
// random order, so that whatever else the machine does meets all of them; the counters are the median of each in
// microseconds, and the iteration's time is that of all three. `spread`: tokens choose evenly; `skewed`: one expert is
// among the choices of every token.
#include <algorithm>
#include <array>
#include <chrono>
#include <random>
#include <string>

#include "bench/bench_internal.h"
#include "engine/experts.h"

namespace hone::bench {
namespace {

constexpr int64_t kExperts = 8, kTopK = 2, kD = 1024, kFf = 2816, kMostTokens = 128;
constexpr std::array kStrategies = {ExpertsStrategy::kPerExpert, ExpertsStrategy::kGrouped, ExpertsStrategy::kDense};

double median(std::vector<double>& us) {
  if (us.empty()) return 0;
  const auto middle = us.begin() + std::ssize(us) / 2;
  std::nth_element(us.begin(), middle, us.end());
  return *middle;
}

void experts(benchmark::State& state, int threads, bool skewed) {
  const Result<Engine> engine = Engine::create({.use_database = false, .threads = threads});
  if (value_or_skip(state, engine) == nullptr) return;
  const int64_t tokens = state.range(0);
  const AlignedBuffer gate = floats(kExperts * kFf * kD), up = floats(kExperts * kFf * kD),
                      down = floats(kExperts * kFf * kD), x = floats(tokens * kD), out = floats(tokens * kD),
                      weights = floats(tokens * kTopK);
  ExpertsSpec spec{.experts = kExperts, .top_k = kTopK, .d = kD, .ff = kFf, .expected_tokens = {tokens}};
  spec.max_tokens = kMostTokens;
  spec.strategy = ExpertsStrategy::kDense;  // memory for every strategy
  const Result<Experts> made = Experts::prepare(
      *engine, spec, {.gate = gate.as<float>().data(), .up = up.as<float>().data(), .down = down.as<float>().data()});
  const Experts* moe = value_or_skip(state, made);
  if (moe == nullptr) return;
  std::mt19937_64 random(1);
  std::vector<int32_t> indices;
  for (int64_t t = 0; t < tokens; ++t) {
    const auto first = skewed ? 0 : static_cast<int32_t>(random() % kExperts);
    indices.push_back(first);
    indices.push_back((first + 1 + static_cast<int32_t>(random() % (kExperts - 1))) % static_cast<int32_t>(kExperts));
  }
  std::array<std::vector<double>, kStrategies.size()> us;
  std::array<size_t, kStrategies.size()> order = {0, 1, 2};
  for (auto _ : state) {
    std::shuffle(order.begin(), order.end(), random);
    for (const size_t i : order) {
      const auto start = std::chrono::steady_clock::now();
      const Status s = moe->run({.tokens = tokens,
                                 .x = x.as<float>().data(),
                                 .indices = indices.data(),
                                 .weights = weights.as<float>().data(),
                                 .out = out.as<float>().data(),
                                 .strategy = kStrategies[i]});
      if (!s.ok()) return state.SkipWithError(s.to_string().c_str());
      us[i].push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    }
  }
  for (size_t i = 0; i < kStrategies.size(); ++i)
    state.counters[std::string(plan::strategy_name(kStrategies[i])) + "_us"] = median(us[i]);
}

BENCHMARK_CAPTURE(experts, spread_1_thread, 1, false)->Arg(1)->Arg(16)->Arg(kMostTokens)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(experts, spread_2_threads, 2, false)
    ->Arg(1)
    ->Arg(16)
    ->Arg(kMostTokens)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(experts, skewed_2_threads, 2, true)->Arg(16)->Arg(kMostTokens)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace hone::bench
