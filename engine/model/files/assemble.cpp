// See assemble_internal.h.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "engine/base/printable.h"
#include "engine/model/files/assemble_internal.h"

namespace hone::model {
namespace {

// Names of a layer's weights follow the layer's own: "blk.0." and "model.layers.0.".
struct LayerRole {
  Weight LayerWeights::*weight;
  const char* gguf;
  const char* hugging_face;
  bool DecoderConfig::*needs = nullptr;  // what a model must have for it; null: every one has it
};
constexpr LayerRole kLayerRoles[] = {
    {&LayerWeights::attention_norm, "attn_norm.weight", "input_layernorm.weight"},
    {&LayerWeights::q, "attn_q.weight", "self_attn.q_proj.weight"},
    {&LayerWeights::k, "attn_k.weight", "self_attn.k_proj.weight"},
    {&LayerWeights::v, "attn_v.weight", "self_attn.v_proj.weight"},
    {&LayerWeights::q_bias, "attn_q.bias", "self_attn.q_proj.bias", &DecoderConfig::qkv_bias},
    {&LayerWeights::k_bias, "attn_k.bias", "self_attn.k_proj.bias", &DecoderConfig::qkv_bias},
    {&LayerWeights::v_bias, "attn_v.bias", "self_attn.v_proj.bias", &DecoderConfig::qkv_bias},
    {&LayerWeights::q_norm, "attn_q_norm.weight", "self_attn.q_norm.weight", &DecoderConfig::qk_norm},
    {&LayerWeights::k_norm, "attn_k_norm.weight", "self_attn.k_norm.weight", &DecoderConfig::qk_norm},
    {&LayerWeights::o, "attn_output.weight", "self_attn.o_proj.weight"},
    {&LayerWeights::o_bias, "attn_output.bias", "self_attn.o_proj.bias", &DecoderConfig::o_bias},
    {&LayerWeights::ff_norm, "ffn_norm.weight", "post_attention_layernorm.weight"},
    {&LayerWeights::gate, "ffn_gate.weight", "mlp.gate_proj.weight"},
    {&LayerWeights::up, "ffn_up.weight", "mlp.up_proj.weight"},
    {&LayerWeights::down, "ffn_down.weight", "mlp.down_proj.weight"},
    {&LayerWeights::gate_bias, "ffn_gate.bias", "mlp.gate_proj.bias", &DecoderConfig::mlp_bias},
    {&LayerWeights::up_bias, "ffn_up.bias", "mlp.up_proj.bias", &DecoderConfig::mlp_bias},
    {&LayerWeights::down_bias, "ffn_down.bias", "mlp.down_proj.bias", &DecoderConfig::mlp_bias},
};

bool is_bias(const LayerRole& role) { return std::string_view(role.gguf).ends_with(".bias"); }

std::vector<int64_t> shape_of(Weight LayerWeights::*role, const DecoderConfig& c) {
  using L = LayerWeights;
  const int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  if (role == &L::attention_norm || role == &L::ff_norm || role == &L::o_bias || role == &L::down_bias)
    return {c.width};
  if (role == &L::q) return {q, c.width};
  if (role == &L::k || role == &L::v) return {kv, c.width};
  if (role == &L::q_bias) return {q};
  if (role == &L::k_bias || role == &L::v_bias) return {kv};
  if (role == &L::q_norm || role == &L::k_norm) return {c.head_dim};
  if (role == &L::o) return {c.width, q};
  if (role == &L::gate_bias || role == &L::up_bias) return {c.ff};
  if (role == &L::down) return {c.width, c.ff};
  return {c.ff, c.width};  // gate, up
}

class Tensors {
 public:
  // Names are unique already.
  explicit Tensors(std::vector<Weight> tensors) {
    for (Weight& w : tensors) {
      std::string name = w.name;
      by_name_.emplace(std::move(name), std::move(w));
    }
  }
  bool has(const std::string& name) const { return by_name_.contains(name); }

  Status take(const std::string& name, const std::vector<int64_t>& shape, Weight& weight) {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) return invalid_argument(fmt::format("tensor \"{}\" is missing", name));
    if (found->second.shape != shape)
      return invalid_argument(fmt::format("tensor \"{}\" is {}, the geometry makes it {}", name,
                                          shape_text(found->second.shape), shape_text(shape)));
    weight = std::move(found->second);
    by_name_.erase(found);
    return {};
  }

  Status nothing_left() const {
    if (by_name_.empty()) return {};
    return unsupported(
        fmt::format("tensor \"{}\" has no place in a Llama decoder", printable(by_name_.begin()->first)));
  }

 private:
  std::map<std::string, Weight> by_name_;
};

}  // namespace

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

Result<DecoderWeights> assemble(std::vector<Weight> list, Naming naming, DecoderConfig& config) {
  const bool gguf = naming == Naming::kGguf;
  const auto layer_name = [&](int64_t layer, const LayerRole& role) {
    return gguf ? fmt::format("blk.{}.{}", layer, role.gguf)
                : fmt::format("model.layers.{}.{}", layer, role.hugging_face);
  };
  Tensors tensors(std::move(list));
  DecoderWeights weights;
  const std::vector<int64_t> table = {config.vocabulary, config.width};
  HONE_RETURN_IF_ERROR(
      tensors.take(gguf ? "token_embd.weight" : "model.embed_tokens.weight", table, weights.embedding));
  HONE_RETURN_IF_ERROR(
      tensors.take(gguf ? "output_norm.weight" : "model.norm.weight", {config.width}, weights.output_norm));
  if (!config.tied_embeddings)
    HONE_RETURN_IF_ERROR(tensors.take(gguf ? "output.weight" : "lm_head.weight", table, weights.output));

  config.qk_norm = config.architecture == "qwen3";
  config.qkv_bias = config.qkv_bias || config.architecture == "qwen2";
  for (const LayerRole& role : kLayerRoles)
    if (is_bias(role) && tensors.has(layer_name(0, role))) config.*role.needs = true;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    LayerWeights& of_layer = weights.layers.emplace_back();
    for (const LayerRole& role : kLayerRoles) {
      if (role.needs != nullptr && !(config.*role.needs)) continue;
      HONE_RETURN_IF_ERROR(tensors.take(layer_name(layer, role), shape_of(role.weight, config), of_layer.*role.weight));
    }
  }
  HONE_RETURN_IF_ERROR(tensors.nothing_left());
  return weights;
}

int64_t bytes_of(const DecoderWeights& weights) {
  size_t bytes = weights.embedding.data.size() + weights.output_norm.data.size() + weights.output.data.size();
  for (const LayerWeights& layer : weights.layers)
    for (const LayerRole& role : kLayerRoles) bytes += (layer.*role.weight).data.size();
  return static_cast<int64_t>(bytes);
}

}  // namespace hone::model
