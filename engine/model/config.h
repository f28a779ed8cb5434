// The geometry of a Llama-architecture decoder, as every model file format is read into it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/status.h"

namespace hone::model {

enum class RopeStyle : uint8_t { kHalf, kInterleaved };  // pairs j with j + d/2; 2j with 2j + 1
enum class RopeScalingKind : uint8_t { kNone, kLinear, kLlama3, kYarn, kDynamic };

// How the frequencies of RoPE are stretched for contexts longer than those of training.
struct RopeScaling {
  RopeScalingKind kind = RopeScalingKind::kNone;
  double factor = 1;
  int64_t original_context = 0;                      // llama3, yarn, dynamic
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  double beta_fast = 32, beta_slow = 1;              // yarn
  double attention_factor = 0;                       // yarn: cos and sin are multiplied by it; 0: 0.1 ln(factor) + 1
  bool operator==(const RopeScaling&) const = default;
};

inline constexpr int64_t kMostLayers = 4096;

struct DecoderConfig {
  std::string architecture;  // "llama", "mistral", "qwen2", "qwen3"
  std::string name;          // for people; may be empty
  int64_t layers = 0;
  int64_t width = 0;  // of the residual stream
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t ff = 0;  // of the gated feed-forward network
  int64_t vocabulary = 0;
  int64_t context = 0;  // tokens that the model was made for
  int64_t window = 0;   // sliding-window attention; 0: none
  // Which layers have the window, where not all of them do; empty: all.
  std::vector<bool> sliding;
  double norm_eps = 1e-5;
  double rope_theta = 10000;
  int64_t rope_dims = 0;  // of a head, from its first; == head_dim where all are turned
  RopeStyle rope_style = RopeStyle::kHalf;
  RopeScaling rope_scaling;
  std::vector<float> rope_factors;  // the file's own divisors of the frequencies, rope_dims / 2 of them; empty: none
  bool qkv_bias = false, o_bias = false;  // of attention's projections
  bool mlp_bias = false;                  // of gate, up and down
  bool qk_norm = false;                   // RMSNorm over each head of q and k, before RoPE
  bool tied_embeddings = false;           // the output projection is the table of embeddings
};

// Of one layer; 0: it sees everything before it.
inline int64_t window_of(const DecoderConfig& config, size_t layer) {
  return config.sliding.empty() || config.sliding[layer] ? config.window : 0;
}

// Says which layers have config.window, by layer; empty: all.
void set_windows(DecoderConfig& config, std::vector<bool> sliding);

// One line naming the field and the rule: sizes positive and bounded, heads a multiple of kv_heads, rope_dims even and
// at most head_dim, factors where their kind needs them, numbers finite.
Status validate(const DecoderConfig& config);

}  // namespace hone::model
