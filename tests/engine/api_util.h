// Runs one matmul of the public API on memory that catches what it must not touch, and compares with the reference
// chain bit for bit.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "engine/base/guarded_buffer.h"
#include "engine/spec_internal.h"
#include "hone/engine.hpp"
#include "jit/codegen.h"
#include "jit/exec_memory.h"
#include "kernels/matmul/reference.h"

namespace hone::testing_api {

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Every way to execute that this build and this CPU have.
inline std::vector<std::string> all_codegens() {
  std::vector<std::string> names;
  for (jit::CodeGenerator* g : jit::code_generators()) {
    const Result<Engine> engine =
        Engine::create({.use_database = false, .threads = 1, .codegen = std::string(g->name())});
    if (engine.ok() && !engine->info().codegens.empty()) names.emplace_back(g->name());
  }
  names.emplace_back("precompiled");
  return names;
}

// An engine that can only use this code generator; "precompiled" is what remains when executable memory is refused.
class EngineWith {
 public:
  explicit EngineWith(const std::string& codegen, int threads = 2) : refuse_(codegen == "precompiled") {
    if (refuse_) jit::refuse_exec_memory_for_testing(true);
    Result<Engine> made =
        Engine::create({.use_database = false, .threads = threads, .codegen = refuse_ ? "" : codegen, .log = {}});
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    engine_ = *std::move(made);
  }
  ~EngineWith() {
    if (refuse_) jit::refuse_exec_memory_for_testing(false);
  }
  EngineWith(const EngineWith&) = delete;
  EngineWith& operator=(const EngineWith&) = delete;
  const Engine& operator*() const { return *engine_; }
  const Engine* operator->() const { return &*engine_; }

 private:
  bool refuse_;
  std::optional<Engine> engine_;
};

// A matrix (or batch of them) at the very end of its pages: elements random, padding between rows NaN.
class Matrix {
 public:
  Matrix() : Matrix(0, 0, 0, 1, 0, 0) {}
  Matrix(int64_t rows, int64_t cols, int64_t ld, int64_t batch, int64_t batch_stride, uint32_t seed)
      : rows_(rows), cols_(cols), ld_(ld), batch_(batch), stride_(batch_stride) {
    const bool empty = rows == 0 || cols == 0;
    const int64_t span = empty ? 0 : (batch - 1) * batch_stride + (rows - 1) * ld + cols;
    buffer_ = std::make_unique<GuardedBuffer>(GuardedBuffer::create(span * 4).value());
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-1, 1);
    each([&](float& v) { v = uniform(random); });
  }

  template <typename F>
  void each(F f) {
    for (int64_t b = 0; b < batch_; ++b)
      for (int64_t i = 0; i < rows_; ++i)
        for (int64_t j = 0; j < cols_; ++j) f(at(b, i, j));
  }
  void fill(float value) {
    each([&](float& v) { v = value; });
  }
  float* data() const { return reinterpret_cast<float*>(buffer_->data()); }
  int64_t elements() const { return buffer_->size() / 4; }
  float& at(int64_t b, int64_t i, int64_t j) const { return data()[b * stride_ + i * ld_ + j]; }
  float& at(int64_t i, int64_t j) const { return at(0, i, j); }
  std::vector<float> snapshot() const { return {data(), data() + elements()}; }
  bool slack_intact() const { return buffer_->slack_intact(); }

 private:
  int64_t rows_, cols_, ld_, batch_, stride_;
  std::unique_ptr<GuardedBuffer> buffer_;
};

// The operands of a spec with m rows.
struct Operands {
  Operands(const MatmulSpec& spec, int64_t rows, uint32_t seed = 1) : problem(problem_of(spec).value()) {
    problem.m = rows;
    const matmul::MatmulProblem& p = problem;
    const bool nt = p.b == matmul::BLayout::kNt;
    const int64_t ldc = p.row_stride_c(), sc = p.batch_stride_c();
    a = Matrix(p.m, p.k, p.row_stride_a(), p.batch, p.batch_stride_a(), seed);
    b = Matrix(nt ? p.n : p.k, nt ? p.k : p.n, p.row_stride_b(), p.batch, p.batch_stride_b(), seed + 1);
    c = Matrix(p.m, p.columns(), ldc, p.batch, sc, seed + 2);
    bias = Matrix(1, p.n, p.n, 1, 0, seed + 3);
    gate = Matrix(p.m, p.columns(), ldc, p.batch, sc, seed + 4);
    residual = Matrix(p.m, p.columns(), ldc, p.batch, sc, seed + 5);
    row_scale = Matrix(p.m, 1, 1, 1, 0, seed + 6);
    if (p.beta == 0) c.fill(kNaN);  // must not be read
  }

  MatmulCall call(bool constant) const {
    return {.m = problem.m,
            .a = a.data(),
            .b = constant ? nullptr : b.data(),
            .c = c.data(),
            .bias = bias.data(),
            .gate = gate.data(),
            .residual = residual.data(),
            .row_scale = row_scale.data()};
  }

  // What C has to become, laid out like C with its padding.
  std::vector<float> expected() const {
    std::vector<float> out = c.snapshot();
    matmul::ordered_f32(problem, {.a = a.data(),
                                  .b = b.data(),
                                  .c = out.data(),
                                  .bias = bias.data(),
                                  .gate = gate.data(),
                                  .residual = residual.data(),
                                  .row_scale = row_scale.data()});
    return out;
  }

  matmul::MatmulProblem problem;
  Matrix a, b, c, bias, gate, residual, row_scale;
};

// Equal bit for bit, NaN equal to NaN, padding included.
inline ::testing::AssertionResult same_bits(const std::vector<float>& got, const std::vector<float>& want) {
  if (got.size() != want.size()) return ::testing::AssertionFailure() << got.size() << " elements, not " << want.size();
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(want[i])) continue;
    if (std::memcmp(&got[i], &want[i], 4) != 0)
      return ::testing::AssertionFailure() << "element " << i << " is " << got[i] << ", not " << want[i];
  }
  return ::testing::AssertionSuccess();
}

// Prepares (with constant weights or without), runs, compares. Returns C.
inline std::vector<float> check(const Engine& engine, const MatmulSpec& spec, const Operands& operands, bool constant) {
  const std::string what =
      matmul::to_string(operands.problem) + (constant ? " (weights packed once)" : " (B per call)");
  SCOPED_TRACE(what);
  Result<Matmul> matmul = constant ? engine.prepare(spec, operands.b.data()) : engine.prepare(spec);
  EXPECT_TRUE(matmul.ok()) << matmul.status().to_string();
  if (!matmul.ok()) return {};
  const std::vector<float> want = operands.expected();
  const Status status = matmul->run(operands.call(constant));
  EXPECT_TRUE(status.ok()) << status.to_string();
  std::vector<float> got = operands.c.snapshot();
  EXPECT_TRUE(same_bits(got, want));
  EXPECT_TRUE(operands.c.slack_intact()) << "something was written before C";
  return got;
}

// Every layout of B: nn and nt per call, and both packed once. `body` gets the spec and whether B is constant. Only
// what is called gets compiled, as there are many such tests.
template <typename Body>
void all_layouts(MatmulSpec spec, Body body) {
  spec.max_m = 0;
  for (Layout layout : {Layout::kNn, Layout::kNt}) {
    spec.b = layout;
    body(spec, false);
    body(spec, true);
  }
}

}  // namespace hone::testing_api
