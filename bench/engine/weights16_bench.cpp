// What weights of 16 bits gain where bytes of B bound the time, and lose where fma does. Prepared matmuls with default
// plans on one thread, by its CPU time; --benchmark_enable_random_interleaving=true compares them fairly.
#include <array>
#include <vector>

#include "bench/bench_internal.h"
#include "engine/base/half.h"
#include "hone/engine.hpp"

namespace hone::bench {
namespace {

constexpr std::array kNames = {"f32", "bf16", "f16"};

// Arguments: WeightType, n and k, m.
void weights(benchmark::State& state) {
  const auto type = static_cast<WeightType>(state.range(0));
  const int64_t n = state.range(1), m = state.range(2);
  const Result<Engine> engine = Engine::create({.use_database = false, .threads = 1});
  if (value_or_skip(state, engine) == nullptr) return;
  const AlignedBuffer wide = floats(n * n), a = floats(m * n), c = floats(m * n);
  std::vector<uint16_t> halves;
  if (type != WeightType::kF32)
    halves.assign(static_cast<size_t>(n * n), type == WeightType::kBf16 ? f32_to_bf16(0.5F) : f32_to_f16(0.5F));
  const void* b = halves.empty() ? static_cast<const void*>(wide.data()) : halves.data();
  const Result<Matmul> made = engine->prepare({.n = n, .k = n, .weight_type = type, .expected_m = {m}, .max_m = 0}, b);
  const Matmul* matmul = value_or_skip(state, made);
  if (matmul == nullptr) return;
  const MatmulCall call{.m = m, .a = a.as<float>().data(), .c = c.as<float>().data()};
  for (auto _ : state)
    if (const Status s = matmul->run(call); !s.ok()) return state.SkipWithError(s.to_string().c_str());
  state.SetLabel(kNames[static_cast<size_t>(type)]);
  state.SetBytesProcessed(state.iterations() * matmul->weight_bytes());
}
BENCHMARK(weights)->ArgsProduct({{0, 1, 2}, {2048, 4096}, {1, 4, 16, 128, 512}})->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hone::bench
