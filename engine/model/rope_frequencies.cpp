#include "engine/model/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace hone::model {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

double llama3(double b, const RopeScaling& s) {
  const double turns = static_cast<double>(s.original_context) * b / kTurn;
  if (turns < s.low_freq_factor) return b / s.factor;
  if (turns > s.high_freq_factor) return b;
  const double mix = (turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1 - mix) * b / s.factor + mix * b;
}

// The pair, as a real number, that turns `turns` times within the context of training.
double pair_turning(double turns, const DecoderConfig& c) {
  const double length = static_cast<double>(c.rope_scaling.original_context) / (turns * kTurn);
  return static_cast<double>(c.rope_dims) * std::log(length) / (2 * std::log(c.rope_theta));
}

// How much of pair i is stretched, from 0 to 1.
double yarn_ramp(size_t i, const DecoderConfig& c) {
  const double first = std::max(0.0, std::floor(pair_turning(c.rope_scaling.beta_fast, c)));
  const double last =
      std::min(static_cast<double>(c.rope_dims - 1), std::ceil(pair_turning(c.rope_scaling.beta_slow, c)));
  return std::clamp((static_cast<double>(i) - first) / std::max(0.001, last - first), 0.0, 1.0);
}

double stretched(double b, size_t i, const DecoderConfig& c) {
  const RopeScaling& s = c.rope_scaling;
  switch (s.kind) {
    case RopeScalingKind::kNone:
    case RopeScalingKind::kDynamic:
      return b;
    case RopeScalingKind::kLinear:
      return b / s.factor;
    case RopeScalingKind::kLlama3:
      return llama3(b, s);
    case RopeScalingKind::kYarn: {
      const double ramp = yarn_ramp(i, c);
      return b / s.factor * ramp + b * (1 - ramp);
    }
  }
  return b;
}

double amplitude_of(const RopeScaling& s) {
  if (s.kind != RopeScalingKind::kYarn) return 1;
  if (s.attention_factor != 0) return s.attention_factor;
  return s.factor > 1 ? 0.1 * std::log(s.factor) + 1 : 1;
}

}  // namespace

RopeFrequencies rope_frequencies(const DecoderConfig& config) {
  RopeFrequencies made{.inv_freq = {}, .amplitude = amplitude_of(config.rope_scaling)};
  for (size_t i = 0; i < static_cast<size_t>(config.rope_dims / 2); ++i) {
    double b = std::pow(config.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(config.rope_dims));
    if (i < config.rope_factors.size()) b /= static_cast<double>(config.rope_factors[i]);
    made.inv_freq.push_back(static_cast<float>(stretched(b, i, config)));
  }
  return made;
}

}  // namespace hone::model
