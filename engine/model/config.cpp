// What a geometry must be, whichever file said it. Bounds are far above every model that there is, and low enough that
// no product of two of them overflows 64 bits.
#include "engine/model/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace hone::model {
namespace {

constexpr int64_t kMostWidth = 1 << 20, kMostHeads = 1 << 14, kMostVocabulary = 1 << 24;
constexpr int64_t kMostContext = int64_t{1} << 31;

struct Bound {
  const char* field;
  int64_t value, most;
};

Status check_sizes(const DecoderConfig& c) {
  const Bound bounds[] = {{"layers", c.layers, kMostLayers},
                          {"width", c.width, kMostWidth},
                          {"heads", c.heads, kMostHeads},
                          {"kv_heads", c.kv_heads, kMostHeads},
                          {"head_dim", c.head_dim, kMostWidth},
                          {"ff", c.ff, kMostWidth},
                          {"vocabulary", c.vocabulary, kMostVocabulary},
                          {"context", c.context, kMostContext},
                          {"rope_dims", c.rope_dims, c.head_dim}};
  for (const Bound& b : bounds)
    if (b.value < 1 || b.value > b.most)
      return invalid_argument(fmt::format("{} is {}, it must be 1 to {}", b.field, b.value, b.most));
  if (c.window < 0) return invalid_argument(fmt::format("window is {}, it must not be negative", c.window));
  if (!c.sliding.empty() && c.sliding.size() != static_cast<size_t>(c.layers))
    return invalid_argument(fmt::format("windows are said of {} layers, there are {}", c.sliding.size(), c.layers));
  if (c.heads % c.kv_heads != 0)
    return invalid_argument(fmt::format("heads ({}) must be a multiple of kv_heads ({})", c.heads, c.kv_heads));
  if (c.rope_dims % 2 != 0) return invalid_argument(fmt::format("rope_dims is {}, it must be even", c.rope_dims));
  return {};
}

Status positive(const char* field, double value) {
  if (std::isfinite(value) && value > 0) return {};
  return invalid_argument(fmt::format("{} is {}, it must be a positive number", field, value));
}

Status check_scaling(const RopeScaling& s) {
  if (s.kind == RopeScalingKind::kNone) return {};
  HONE_RETURN_IF_ERROR(positive("rope_scaling.factor", s.factor));
  if (s.kind == RopeScalingKind::kLinear) return {};
  if (s.original_context < 1 || s.original_context > kMostContext)
    return invalid_argument(
        fmt::format("rope_scaling.original_context is {}, it must be 1 to {}", s.original_context, kMostContext));
  if (s.kind == RopeScalingKind::kDynamic) return {};
  if (s.kind == RopeScalingKind::kLlama3) {
    HONE_RETURN_IF_ERROR(positive("rope_scaling.low_freq_factor", s.low_freq_factor));
    HONE_RETURN_IF_ERROR(positive("rope_scaling.high_freq_factor", s.high_freq_factor));
    if (s.low_freq_factor >= s.high_freq_factor)
      return invalid_argument(fmt::format("rope_scaling.low_freq_factor ({}) must be below high_freq_factor ({})",
                                          s.low_freq_factor, s.high_freq_factor));
    return {};
  }
  HONE_RETURN_IF_ERROR(positive("rope_scaling.beta_fast", s.beta_fast));
  HONE_RETURN_IF_ERROR(positive("rope_scaling.beta_slow", s.beta_slow));
  if (s.attention_factor != 0) return positive("rope_scaling.attention_factor", s.attention_factor);
  return {};
}

}  // namespace

void set_windows(DecoderConfig& config, std::vector<bool> sliding) {
  const auto with = std::ranges::count(sliding, true), all = std::ssize(sliding);
  if (all > 0 && with == 0) config.window = 0;
  config.sliding = with == 0 || with == all ? std::vector<bool>() : std::move(sliding);
}

Status validate(const DecoderConfig& config) {
  HONE_RETURN_IF_ERROR(check_sizes(config));
  HONE_RETURN_IF_ERROR(positive("norm_eps", config.norm_eps));
  HONE_RETURN_IF_ERROR(positive("rope_theta", config.rope_theta));
  HONE_RETURN_IF_ERROR(check_scaling(config.rope_scaling));
  const auto factors = static_cast<int64_t>(config.rope_factors.size());
  if (factors != 0 && factors != config.rope_dims / 2)
    return invalid_argument(
        fmt::format("{} rope_factors, there must be rope_dims / 2 = {}", factors, config.rope_dims / 2));
  for (const float factor : config.rope_factors) HONE_RETURN_IF_ERROR(positive("an element of rope_factors", factor));
  return {};
}

}  // namespace hone::model
