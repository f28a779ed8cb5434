// A linear layer from a package, in a program that links hone::runtime: no code generator is in the process.
//
//   hone compile matmul:f32:m=4,n=256,k=128,b=packed:+bias -o linear.hone
//   package_cpp linear.hone matmul:f32:m=4,n=256,k=128,b=packed:+bias
//
// The package may have been compiled on another machine, for another CPU too (--mcpu, --isa avx2,avx512).
#include <cmath>
#include <cstdio>
#include <vector>

#include "hone/engine.hpp"

static int fail(const hone::Status& status) {
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 3) return fail({hone::Code::kInvalidArgument, "usage: package_cpp PACKAGE PROBLEM"});
  hone::Result<hone::Engine> engine = hone::Engine::create();
  if (!engine.ok()) return fail(engine.status());
  if (hone::Status s = engine->load_package(argv[1]); !s.ok()) return fail(s);

  hone::Result<hone::MatmulSpec> spec = hone::MatmulSpec::parse(argv[2]);
  if (!spec.ok()) return fail(spec.status());
  const int64_t m = spec->expected_m.front(), n = spec->n, k = spec->k;
  std::vector<float> weights(n * k), bias(n), x(m * k), y(m * n);  // weights as model files store them: [n, k]
  for (int64_t i = 0; i < n * k; ++i) weights[i] = static_cast<float>(i % 17) / 16 - 0.5f;
  for (int64_t j = 0; j < n; ++j) bias[j] = static_cast<float>(j % 5);
  for (int64_t i = 0; i < m * k; ++i) x[i] = static_cast<float>(i % 13) / 8 - 0.75f;

  hone::Result<hone::Matmul> matmul = engine->prepare(*spec, weights.data());
  if (!matmul.ok()) return fail(matmul.status());
  const hone::Status status = matmul->run({.m = m, .a = x.data(), .c = y.data(), .bias = bias.data()});
  if (!status.ok()) return fail(status);

  // What the package does not have would run on the precompiled kernel: the same bits, and slower.
  const hone::Result<hone::PlanInfo> plan = matmul->plan(m);
  if (!plan.ok()) return fail(plan.status());
  std::printf("%s plan, %s, %s\n", plan->reason.c_str(), plan->codegen.c_str(), plan->program.c_str());

  const int64_t i = m - 1, j = n - 3;
  float sum = 0;
  for (int64_t p = 0; p < k; ++p) sum = std::fma(x[i * k + p], weights[j * k + p], sum);
  if (y[i * n + j] != sum + bias[j]) return fail({hone::Code::kInternal, "that is not the sum"});
}
