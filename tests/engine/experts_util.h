// Routed experts for tests: random weights and tokens, and what has to come of them, computed by loops that share
// nothing with the engine but the scalar silu, which defines the bits.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "engine/base/guarded_buffer.h"
#include "engine/experts.h"
#include "kernels/math/scalar_ops.h"

namespace hone::testing_api {

inline constexpr ExpertsStrategy kStrategies[] = {ExpertsStrategy::kPerExpert, ExpertsStrategy::kGrouped,
                                                  ExpertsStrategy::kDense};

// How tokens choose their experts.
enum class Spread { kRandom, kAllOnTheLast, kNoneOnTheFirst };

struct MoeModel {
  int64_t experts, top_k, d, ff;
  std::vector<float> gate, up, down;

  MoeModel(int64_t its_experts, int64_t its_top_k, int64_t its_d, int64_t its_ff, unsigned seed = 1)
      : experts(its_experts), top_k(its_top_k), d(its_d), ff(its_ff) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 1);
    for (std::vector<float>* w : {&gate, &up, &down}) {
      w->resize(static_cast<size_t>(experts * d * ff));
      for (float& v : *w) v = normal(random) / std::sqrt(static_cast<float>(w == &down ? ff : d));
    }
  }

  ExpertsSpec spec(int64_t max_tokens = 32) const {
    return {.experts = experts, .top_k = top_k, .d = d, .ff = ff, .max_tokens = max_tokens};
  }
  ExpertsWeights weights() const { return {.gate = gate.data(), .up = up.data(), .down = down.data()}; }
};

// The memory of one call; each buffer ends at a guard page, out starts as NaN.
class MoeTokens {
 public:
  MoeTokens(const MoeModel& model, int64_t tokens, Spread spread = Spread::kRandom, unsigned seed = 7)
      : model_(model),
        tokens_(tokens),
        x_(GuardedBuffer::create(tokens * model.d * 4).value()),
        indices_(GuardedBuffer::create(tokens * model.top_k * 4).value()),
        weights_(GuardedBuffer::create(tokens * model.top_k * 4).value()),
        out_(GuardedBuffer::create(tokens * model.d * 4).value()) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 1);
    for (float& v : x_.as<float>()) v = normal(random);
    for (float& v : weights_.as<float>()) v = std::fabs(normal(random));
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t j = 0; j < model.top_k; ++j) {
        const bool skip = spread == Spread::kNoneOnTheFirst && model.experts > 1;
        const auto any = static_cast<int32_t>(random() % static_cast<unsigned>(model.experts - (skip ? 1 : 0)));
        indices()[t * model.top_k + j] =
            spread == Spread::kAllOnTheLast ? static_cast<int32_t>(model.experts - 1) : any + (skip ? 1 : 0);
      }
    }
    poison();
  }

  void poison() { std::memset(out_.data(), 0xff, static_cast<size_t>(out_.size())); }
  float* x() { return x_.as<float>().data(); }
  int32_t* indices() { return indices_.as<int32_t>().data(); }
  float* weights() { return weights_.as<float>().data(); }
  std::vector<float> out() { return {out_.as<float>().begin(), out_.as<float>().end()}; }
  bool untouched() {
    for (const uint32_t bits : out_.as<uint32_t>())
      if (bits != 0xffffffffU) return false;
    return out_.slack_intact();
  }

  ExpertsCall call(std::optional<ExpertsStrategy> strategy = {}) {
    return {.tokens = tokens_,
            .x = x(),
            .indices = indices(),
            .weights = weights(),
            .out = out_.as<float>().data(),
            .strategy = strategy};
  }

  // The bits: each sum a chain of fma from +0, ascending.
  std::vector<float> expected() {
    std::vector<float> out(static_cast<size_t>(tokens_ * model_.d), 0.0F);
    for (int64_t t = 0; t < tokens_; ++t) {
      for (int64_t j = 0; j < model_.top_k; ++j) {
        const std::vector<float> y = expert(indices()[t * model_.top_k + j], x() + t * model_.d);
        for (int64_t c = 0; c < model_.d; ++c) {
          float& sum = out[static_cast<size_t>(t * model_.d + c)];
          sum = std::fma(weights()[t * model_.top_k + j], y[static_cast<size_t>(c)], sum);
        }
      }
    }
    return out;
  }

  // In double, with libm.
  std::vector<double> mathematical() {
    std::vector<double> out(static_cast<size_t>(tokens_ * model_.d), 0.0);
    const int64_t d = model_.d, ff = model_.ff;
    for (int64_t t = 0; t < tokens_; ++t) {
      for (int64_t j = 0; j < model_.top_k; ++j) {
        const int64_t e = indices()[t * model_.top_k + j];
        std::vector<double> hidden(static_cast<size_t>(ff));
        for (int64_t f = 0; f < ff; ++f) {
          double gate = 0, up = 0;
          for (int64_t q = 0; q < d; ++q) {
            gate += static_cast<double>(model_.gate[static_cast<size_t>((e * ff + f) * d + q)]) * x()[t * d + q];
            up += static_cast<double>(model_.up[static_cast<size_t>((e * ff + f) * d + q)]) * x()[t * d + q];
          }
          hidden[static_cast<size_t>(f)] = gate / (1 + std::exp(-gate)) * up;
        }
        for (int64_t c = 0; c < d; ++c) {
          double y = 0;
          for (int64_t f = 0; f < ff; ++f)
            y += model_.down[static_cast<size_t>((e * d + c) * ff + f)] * hidden[static_cast<size_t>(f)];
          out[static_cast<size_t>(t * d + c)] += weights()[t * model_.top_k + j] * y;
        }
      }
    }
    return out;
  }

 private:
  std::vector<float> expert(int64_t e, const float* token) const {
    const int64_t d = model_.d, ff = model_.ff;
    std::vector<float> hidden(static_cast<size_t>(ff)), y(static_cast<size_t>(d));
    const auto chain = [](const float* a, const float* b, int64_t n) {
      float sum = 0;
      for (int64_t i = 0; i < n; ++i) sum = std::fma(a[i], b[i], sum);
      return sum;
    };
    for (int64_t f = 0; f < ff; ++f) {
      const float gate = chain(token, model_.gate.data() + (e * ff + f) * d, d);
      const float up = chain(token, model_.up.data() + (e * ff + f) * d, d);
      hidden[static_cast<size_t>(f)] = math::scalar_activation(math::Activation::kSilu, gate) * up;
    }
    for (int64_t c = 0; c < d; ++c)
      y[static_cast<size_t>(c)] = chain(hidden.data(), model_.down.data() + (e * d + c) * ff, ff);
    return y;
  }

  const MoeModel& model_;
  int64_t tokens_;
  GuardedBuffer x_, indices_, weights_, out_;
};

}  // namespace hone::testing_api
