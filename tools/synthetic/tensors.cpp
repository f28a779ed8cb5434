// See tensors.h.
#include "tools/synthetic/tensors.h"

#include <fmt/format.h>

#include <cmath>

namespace hone::synthetic {
namespace {

struct Names {
  Role role;
  const char *gguf, *hugging_face;
};
constexpr Names kNames[] = {
    {Role::kEmbedding, "token_embd.weight", "model.embed_tokens.weight"},
    {Role::kOutputNorm, "output_norm.weight", "model.norm.weight"},
    {Role::kOutput, "output.weight", "lm_head.weight"},
    {Role::kAttentionNorm, "attn_norm.weight", "input_layernorm.weight"},
    {Role::kQ, "attn_q.weight", "self_attn.q_proj.weight"},
    {Role::kK, "attn_k.weight", "self_attn.k_proj.weight"},
    {Role::kV, "attn_v.weight", "self_attn.v_proj.weight"},
    {Role::kQBias, "attn_q.bias", "self_attn.q_proj.bias"},
    {Role::kKBias, "attn_k.bias", "self_attn.k_proj.bias"},
    {Role::kVBias, "attn_v.bias", "self_attn.v_proj.bias"},
    {Role::kQNorm, "attn_q_norm.weight", "self_attn.q_norm.weight"},
    {Role::kKNorm, "attn_k_norm.weight", "self_attn.k_norm.weight"},
    {Role::kO, "attn_output.weight", "self_attn.o_proj.weight"},
    {Role::kFfNorm, "ffn_norm.weight", "post_attention_layernorm.weight"},
    {Role::kGate, "ffn_gate.weight", "mlp.gate_proj.weight"},
    {Role::kUp, "ffn_up.weight", "mlp.up_proj.weight"},
    {Role::kDown, "ffn_down.weight", "mlp.down_proj.weight"},
    {Role::kOBias, "attn_output.bias", "self_attn.o_proj.bias"},
    {Role::kGateBias, "ffn_gate.bias", "mlp.gate_proj.bias"},
    {Role::kUpBias, "ffn_up.bias", "mlp.up_proj.bias"},
    {Role::kDownBias, "ffn_down.bias", "mlp.down_proj.bias"},
};

const Names& names_of(Role role) { return kNames[static_cast<size_t>(role)]; }

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;

// splitmix64's state `n` steps after `seed`, mixed: any element without those before it.
uint64_t mixed(uint64_t seed, uint64_t n) {
  uint64_t z = seed + (n + 1) * kGolden;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// [-1, 1), of 24 bits.
float symmetric(uint64_t bits) {
  return static_cast<float>(static_cast<int32_t>(bits & 0xffffff) - 0x800000) * 0x1p-23F;
}

}  // namespace

std::vector<Tensor> tensors_of(const model::DecoderConfig& c) {
  const int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  std::vector<Tensor> all = {{Role::kEmbedding, -1, {c.vocabulary, c.width}}};
  for (int64_t i = 0; i < c.layers; ++i) {
    all.insert(all.end(), {{Role::kAttentionNorm, i, {c.width}},
                           {Role::kQ, i, {q, c.width}},
                           {Role::kK, i, {kv, c.width}},
                           {Role::kV, i, {kv, c.width}}});
    if (c.qkv_bias) all.insert(all.end(), {{Role::kQBias, i, {q}}, {Role::kKBias, i, {kv}}, {Role::kVBias, i, {kv}}});
    if (c.qk_norm) all.insert(all.end(), {{Role::kQNorm, i, {c.head_dim}}, {Role::kKNorm, i, {c.head_dim}}});
    all.push_back({Role::kO, i, {c.width, q}});
    if (c.o_bias) all.push_back({Role::kOBias, i, {c.width}});
    all.insert(all.end(), {{Role::kFfNorm, i, {c.width}},
                           {Role::kGate, i, {c.ff, c.width}},
                           {Role::kUp, i, {c.ff, c.width}},
                           {Role::kDown, i, {c.width, c.ff}}});
    if (c.mlp_bias)
      all.insert(all.end(),
                 {{Role::kGateBias, i, {c.ff}}, {Role::kUpBias, i, {c.ff}}, {Role::kDownBias, i, {c.width}}});
  }
  all.push_back({Role::kOutputNorm, -1, {c.width}});
  if (!c.tied_embeddings) all.push_back({Role::kOutput, -1, {c.vocabulary, c.width}});
  return all;
}

std::string gguf_name(const Tensor& t) {
  return t.layer < 0 ? names_of(t.role).gguf : fmt::format("blk.{}.{}", t.layer, names_of(t.role).gguf);
}

std::string hugging_face_name(const Tensor& t) {
  const char* name = names_of(t.role).hugging_face;
  return t.layer < 0 ? name : fmt::format("model.layers.{}.{}", t.layer, name);
}

void fill(const Tensor& tensor, uint64_t seed, int64_t first, std::span<float> elements) {
  const uint64_t own = mixed(mixed(seed, static_cast<uint64_t>(tensor.layer + 1)), static_cast<uint64_t>(tensor.role));
  const bool bias = std::string_view(names_of(tensor.role).gguf).ends_with(".bias");
  const float scale = tensor.matrix() ? std::sqrt(3.0F / static_cast<float>(tensor.shape[1])) : 0.1F;
  const float middle = tensor.matrix() || bias ? 0 : 1;
  auto place = static_cast<uint64_t>(first);
  size_t i = 0;
  if (place % 2 == 1 && !elements.empty()) elements[i++] = middle + scale * symmetric(mixed(own, place++ / 2) >> 32);
  for (; i + 2 <= elements.size(); i += 2, place += 2) {  // two of 64 bits
    const uint64_t bits = mixed(own, place / 2);
    elements[i] = middle + scale * symmetric(bits);
    elements[i + 1] = middle + scale * symmetric(bits >> 32);
  }
  if (i < elements.size()) elements[i] = middle + scale * symmetric(mixed(own, place / 2));
}

int64_t row_in_halves(int64_t row, int64_t head_dim) {
  const int64_t head = row / head_dim, in_head = row % head_dim;
  return head * head_dim + in_head % 2 * (head_dim / 2) + in_head / 2;
}

}  // namespace hone::synthetic
