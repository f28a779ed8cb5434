// Routed experts (MoE), prepared: for each token t
//
//   out[t] = sum over j = 0 .. top_k-1 of w[t, j] * y(t, j),   y(t, j) = W_down[e] (silu(W_gate[e] x[t]) * (W_up[e]
//   x[t]))
//
// with e = indices[t, j]. The matmuls are of class `ordered`; the sum over j is a chain of fused multiply-adds from +0,
// j ascending (one rounding a step, and a -0 product becomes +0). The bits of a token depend on its own row, its
// indices and weights alone: not on the strategy, the threads or the other tokens.
//
// A token may name one expert twice; its rows count twice.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/plan/experts_policy.h"
#include "engine/runtime/schedule.h"
#include "hone/engine.hpp"

namespace hone {

using plan::ExpertsChoice;
using plan::ExpertsStrategy;

struct ExpertsSpec {
  int64_t experts = 0, top_k = 0;  // 1 <= top_k <= experts
  int64_t d = 0, ff = 0;           // of a token; of the hidden layer of an expert
  // Numbers of tokens that matter most; the first decides how weights are packed.
  std::vector<int64_t> expected_tokens = {1};
  int64_t max_tokens = 512;                   // in a call
  std::optional<ExpertsStrategy> strategy{};  // of every call that does not say otherwise; else the load decides
};

struct ExpertsWeights {
  const float* gate = nullptr;  // [experts, ff, d], as all below read once, while preparing
  const float* up = nullptr;    // [experts, ff, d]
  const float* down = nullptr;  // [experts, d, ff]
};

struct ExpertsCall {
  int64_t tokens = 0;                         // 0 .. max_tokens
  const float* x = nullptr;                   // [tokens, d]
  const int32_t* indices = nullptr;           // [tokens, top_k]
  const float* weights = nullptr;             // [tokens, top_k]
  float* out = nullptr;                       // [tokens, d]; overlaps none of these
  std::optional<ExpertsStrategy> strategy{};  // kDense only where prepared for it (spec.strategy, or few tokens)
  runtime::Schedule* schedule = nullptr;      // null: the engine's, for work that it pays for
};

// Copies share everything and keep the engine's resources alive. Thread safe.
class Experts {
 public:
  // Packs the weights: for each expert gate and up as one matmul with the swiglu epilogue (two matmuls where ff is not
  // a multiple of 16), and down. Errors: invalid_argument naming the field, resource_exhausted.
  static Result<Experts> prepare(const Engine& engine, const ExpertsSpec& spec, const ExpertsWeights& weights);

  // A call of up to max_tokens compiles nothing, and after the first one allocates nothing but where several run at
  // once: each needs memory of scratch_bytes(), which is kept. `chosen`: what was run, and why. Errors, with out
  // untouched: invalid_argument (sizes, null, overlap, an index that is no expert), unsupported (dense without memory
  // for it). resource_exhausted: out is unspecified.
  Status run(const ExpertsCall& call, ExpertsChoice* chosen = nullptr) const;

  int64_t weight_bytes() const;   // of packed weights: the only copy
  int64_t scratch_bytes() const;  // that one call works in: gathered tokens, hidden rows, results, tables
  // The plans of an expert that has `rows` rows: gate and up (one or two), down.
  Result<std::vector<PlanInfo>> plans(int64_t rows) const;

  class Impl;
  explicit Experts(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace hone
