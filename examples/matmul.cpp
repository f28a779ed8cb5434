// A linear layer with constant weights: prepare once, then call with one row (decode) and with 128 (prefill).
#include <cmath>
#include <cstdio>
#include <vector>

#include "hone/engine.hpp"

namespace {

constexpr int64_t kN = 1024, kK = 512;

int fail(const hone::Status& status) {
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  return 1;
}

// C[i, j] as the header defines it: one chain of fused multiply-adds, then the bias, then relu.
float expected(const std::vector<float>& x, const std::vector<float>& w, const std::vector<float>& bias, int64_t i,
               int64_t j) {
  float sum = 0;
  for (int64_t p = 0; p < kK; ++p) {
    sum = std::fma(x[static_cast<size_t>(i * kK + p)], w[static_cast<size_t>(j * kK + p)], sum);
  }
  return std::fmax(sum + bias[static_cast<size_t>(j)], 0.0f);
}

}  // namespace

int main() {
  hone::Result<hone::Engine> engine = hone::Engine::create();
  if (!engine.ok()) return fail(engine.status());
  std::printf("machine %s, %d threads\n", engine->info().machine.c_str(), engine->info().threads);

  // Weights as model files store them: [n, k].
  std::vector<float> weights(kN * kK), bias(kN);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i % 17) / 16 - 0.5f;
  for (size_t j = 0; j < bias.size(); ++j) bias[j] = static_cast<float>(j % 5);

  hone::MatmulSpec spec{.n = kN, .k = kK, .b = hone::Layout::kNt};
  spec.epilogue = {hone::Epilogue::kBias, hone::Epilogue::kRelu};
  spec.expected_m = {1, 128};
  hone::Result<hone::Matmul> matmul = engine->prepare(spec, weights.data());
  if (!matmul.ok()) return fail(matmul.status());

  for (int64_t m : {1, 128}) {
    std::vector<float> x(static_cast<size_t>(m * kK)), y(static_cast<size_t>(m * kN));
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 13) / 8 - 0.75f;
    const hone::Status status = matmul->run({.m = m, .a = x.data(), .c = y.data(), .bias = bias.data()});
    if (!status.ok()) return fail(status);

    const hone::PlanInfo plan = matmul->plan(m).value();
    std::printf("m=%d: %s plan, %s, %d threads: %s\n", static_cast<int>(m), plan.reason.c_str(), plan.codegen.c_str(),
                plan.threads, plan.program.c_str());
    const int64_t i = m - 1, j = kN - 3;
    const float got = y[static_cast<size_t>(i * kN + j)], want = expected(x, weights, bias, i, j);
    std::printf("  C[%d, %d] = %g\n", static_cast<int>(i), static_cast<int>(j), static_cast<double>(got));
    if (got != want) return fail({hone::Code::kInternal, "that is not the sum"});
  }
  return 0;
}
