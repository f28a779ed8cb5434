// A linear layer with constant weights: prepare once, then call with one row (decode) and with 128 (prefill).
#include <cmath>
#include <cstdio>
#include <vector>

#include "hone/engine.hpp"

static int fail(const hone::Status& status) {
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  return 1;
}

int main() {
  hone::Result<hone::Engine> engine = hone::Engine::create();  // tuned plans come from the default database
  if (!engine.ok()) return fail(engine.status());

  // Weights as model files store them: [n, k].
  constexpr int64_t n = 1024, k = 512;
  std::vector<float> weights(n * k), bias(n);
  for (int64_t i = 0; i < n * k; ++i) weights[i] = static_cast<float>(i % 17) / 16 - 0.5f;
  for (int64_t j = 0; j < n; ++j) bias[j] = static_cast<float>(j % 5);

  hone::MatmulSpec spec{.n = n, .k = k, .b = hone::Layout::kNt};
  spec.epilogue = {hone::Epilogue::kBias, hone::Epilogue::kRelu};
  spec.expected_m = {1, 128};  // compiled now; any other m works too
  hone::Result<hone::Matmul> matmul = engine->prepare(spec, weights.data());
  if (!matmul.ok()) return fail(matmul.status());

  for (int64_t m : {1, 128}) {
    std::vector<float> x(m * k), y(m * n);
    for (int64_t i = 0; i < m * k; ++i) x[i] = static_cast<float>(i % 13) / 8 - 0.75f;
    const hone::Status status = matmul->run({.m = m, .a = x.data(), .c = y.data(), .bias = bias.data()});
    if (!status.ok()) return fail(status);

    const hone::Result<hone::PlanInfo> plan = matmul->plan(m);
    if (!plan.ok()) return fail(plan.status());
    std::printf("m=%-3d %s plan, %s, %d thread(s)\n      %s\n", static_cast<int>(m), plan->reason.c_str(),
                plan->codegen.c_str(), plan->threads, plan->program.c_str());

    // One element by hand: a chain of fused multiply-adds, then the bias, then relu. Equal to the last bit.
    const int64_t i = m - 1, j = n - 3;
    float sum = 0;
    for (int64_t p = 0; p < k; ++p) sum = std::fma(x[i * k + p], weights[j * k + p], sum);
    if (y[i * n + j] != std::fmax(sum + bias[j], 0.0f)) return fail({hone::Code::kInternal, "that is not the sum"});
  }
}
