// A synthetic model as a folder of Hugging Face: see model.h.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/synthetic/elements_internal.h"

namespace hone::synthetic {
namespace {

using Json = nlohmann::ordered_json;
using model::RopeScalingKind;

// Tensors are dealt out in order, by turns.
std::vector<Tensor> tensors_of_shard(const SyntheticModel& m, int shard, int shards) {
  std::vector<Tensor> mine;
  int next = 0;
  for (Tensor& t : tensors_of(m.config))
    if (next++ % shards == shard) mine.push_back(std::move(t));
  return mine;
}

Json scaling_of(const model::RopeScaling& s) {
  if (s.kind == RopeScalingKind::kNone) return nullptr;
  Json json = {{"factor", s.factor}};
  if (s.kind == RopeScalingKind::kLinear) {
    json["type"] = "linear";
    return json;
  }
  json["original_max_position_embeddings"] = s.original_context;
  if (s.kind == RopeScalingKind::kDynamic) {
    json["rope_type"] = "dynamic";
    return json;
  }
  if (s.kind == RopeScalingKind::kLlama3) {
    json["rope_type"] = "llama3";
    json["low_freq_factor"] = s.low_freq_factor;
    json["high_freq_factor"] = s.high_freq_factor;
    return json;
  }
  json["rope_type"] = "yarn";
  json["beta_fast"] = s.beta_fast;
  json["beta_slow"] = s.beta_slow;
  if (s.attention_factor != 0) json["attention_factor"] = s.attention_factor;
  return json;
}

}  // namespace

std::string safetensors_name(int shard, int shards) {
  return shards == 1 ? "model.safetensors" : fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards);
}

Status write_safetensors(const SyntheticModel& m, int shard, int shards, const Sink& sink) {
  const std::vector<Tensor> mine = tensors_of_shard(m, shard, shards);
  Json header = {{"__metadata__", {{"format", "pt"}}}};
  int64_t at = 0;
  for (const Tensor& t : mine) {
    const int64_t end = at + t.elements() * dtype_bytes(m.dtype);
    const char* dtype = m.dtype == DType::kF32 ? "F32" : m.dtype == DType::kF16 ? "F16" : "BF16";
    header[hugging_face_name(t)] = {{"dtype", dtype}, {"shape", t.shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t size = text.size();
  HONE_RETURN_IF_ERROR(sink({reinterpret_cast<const char*>(&size), sizeof size}));
  HONE_RETURN_IF_ERROR(sink(text));
  for (const Tensor& t : mine) HONE_RETURN_IF_ERROR(write_elements(m, t, m.dtype, false, sink));
  return {};
}

std::string safetensors_index(const SyntheticModel& m, int shards) {
  Json map = Json::object();
  int64_t bytes = 0;
  for (int shard = 0; shard < shards; ++shard)
    for (const Tensor& t : tensors_of_shard(m, shard, shards)) {
      map[hugging_face_name(t)] = safetensors_name(shard, shards);
      bytes += t.elements() * dtype_bytes(m.dtype);
    }
  return Json({{"metadata", {{"total_size", bytes}}}, {"weight_map", map}}).dump(2);
}

std::string hugging_face_config(const SyntheticModel& m) {
  const model::DecoderConfig& c = m.config;
  struct Class {
    const char *architecture, *name;
  };
  constexpr Class kClasses[] = {{"llama", "LlamaForCausalLM"},
                                {"mistral", "MistralForCausalLM"},
                                {"qwen2", "Qwen2ForCausalLM"},
                                {"qwen3", "Qwen3ForCausalLM"}};
  Json json;
  for (const Class& k : kClasses)
    if (c.architecture == k.architecture) json["architectures"] = {k.name};
  json["model_type"] = c.architecture;
  json["hidden_act"] = "silu";
  json["hidden_size"] = c.width;
  json["intermediate_size"] = c.ff;
  json["num_hidden_layers"] = c.layers;
  json["num_attention_heads"] = c.heads;
  json["num_key_value_heads"] = c.kv_heads;
  json["head_dim"] = c.head_dim;
  json["vocab_size"] = c.vocabulary;
  json["max_position_embeddings"] = c.context;
  json["rms_norm_eps"] = c.norm_eps;
  json["rope_theta"] = c.rope_theta;
  json["rope_scaling"] = scaling_of(c.rope_scaling);
  json["tie_word_embeddings"] = c.tied_embeddings;
  // Readers cut the product with head_dim off: half an element more is what gives rope_dims back.
  if (c.rope_dims != c.head_dim)
    json["partial_rotary_factor"] = (static_cast<double>(c.rope_dims) + 0.5) / static_cast<double>(c.head_dim);
  json["sliding_window"] = c.window > 0 ? Json(c.window) : Json(nullptr);
  if (c.window > 0 && c.architecture != "mistral") json["use_sliding_window"] = true, json["max_window_layers"] = 0;
  for (const bool sliding : c.sliding) json["layer_types"].push_back(sliding ? "sliding_attention" : "full_attention");
  if (c.o_bias) json["attention_bias"] = true;
  if (c.mlp_bias) json["mlp_bias"] = true;
  json["torch_dtype"] = m.dtype == DType::kF32 ? "float32" : m.dtype == DType::kF16 ? "float16" : "bfloat16";
  return json.dump(2);
}

}  // namespace hone::synthetic
