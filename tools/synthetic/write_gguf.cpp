// A synthetic model as GGUF: see model.h.
#include <fmt/format.h>

#include <cmath>

#include "tools/synthetic/elements_internal.h"
#include "tools/synthetic/gguf_writer.h"

namespace hone::synthetic {
namespace {

using model::DecoderConfig;
using model::RopeScalingKind;

DType stored_as(const Tensor& tensor, DType dtype) { return tensor.matrix() ? dtype : DType::kF32; }

// A file has no llama3 scaling: converters make divisors of it.
std::vector<float> divisors(const DecoderConfig& c) {
  if (c.rope_scaling.kind != RopeScalingKind::kLlama3) return c.rope_factors;
  const model::RopeScaling& s = c.rope_scaling;
  const double low = static_cast<double>(s.original_context) / s.low_freq_factor;
  const double high = static_cast<double>(s.original_context) / s.high_freq_factor;
  std::vector<float> factors;
  for (int64_t i = 0; i < c.rope_dims / 2; ++i) {
    const double wavelength =
        2 * M_PI * std::pow(c.rope_theta, 2 * static_cast<double>(i) / static_cast<double>(c.rope_dims));
    const double smooth = (static_cast<double>(s.original_context) / wavelength - s.low_freq_factor) /
                          (s.high_freq_factor - s.low_freq_factor);
    double factor = 1 / ((1 - smooth) / s.factor + smooth);
    if (wavelength < high) factor = 1;
    if (wavelength > low) factor = s.factor;
    factors.push_back(static_cast<float>(factor));
  }
  return factors;
}

void put_geometry(GgufWriter& w, const DecoderConfig& c) {
  const std::string of = c.architecture + ".";
  const auto u32 = [&](const char* key, int64_t value) { w.u32(of + key, static_cast<uint32_t>(value)); };
  w.text("general.architecture", c.architecture);
  w.text("general.name", c.name);
  u32("block_count", c.layers);
  u32("context_length", c.context);
  u32("embedding_length", c.width);
  u32("feed_forward_length", c.ff);
  u32("attention.head_count", c.heads);
  u32("attention.head_count_kv", c.kv_heads);
  u32("attention.key_length", c.head_dim);
  u32("attention.value_length", c.head_dim);
  if (c.window > 0) u32("attention.sliding_window", c.window);
  if (!c.sliding.empty()) w.flags(of + "attention.sliding_window_pattern", c.sliding);
  w.f32(of + "attention.layer_norm_rms_epsilon", static_cast<float>(c.norm_eps));
  w.f32(of + "rope.freq_base", static_cast<float>(c.rope_theta));
  u32("rope.dimension_count", c.rope_dims);
  u32("vocab_size", c.vocabulary);
  const model::RopeScaling& s = c.rope_scaling;
  if (s.kind != RopeScalingKind::kLinear && s.kind != RopeScalingKind::kYarn) return;
  w.text(of + "rope.scaling.type", s.kind == RopeScalingKind::kLinear ? "linear" : "yarn");
  w.f32(of + "rope.scaling.factor", static_cast<float>(s.factor));
  if (s.kind == RopeScalingKind::kLinear) return;
  u32("rope.scaling.original_context_length", s.original_context);
  w.f32(of + "rope.scaling.yarn_beta_fast", static_cast<float>(s.beta_fast));
  w.f32(of + "rope.scaling.yarn_beta_slow", static_cast<float>(s.beta_slow));
  if (s.attention_factor != 0)
    w.f32(of + "rope.scaling.attn_factor",
          static_cast<float>(s.attention_factor / (0.1 * std::log(std::max(s.factor, 1.0)) + 1)));
}

void put_vocabulary(GgufWriter& w, const model::Vocabulary& v) {
  const bool pieces = v.kind == model::TokenizerKind::kSentencePiece;
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<int32_t> kinds;
  for (const model::Token& token : v.tokens) {
    texts.push_back(token.text);
    scores.push_back(token.score);
    kinds.push_back(static_cast<int32_t>(token.kind) + 1);
  }
  w.text("tokenizer.ggml.model", pieces ? "llama" : "gpt2");
  if (!v.pre_tokenizer.empty()) w.text("tokenizer.ggml.pre", v.pre_tokenizer);
  w.texts("tokenizer.ggml.tokens", texts);
  if (pieces) w.f32s("tokenizer.ggml.scores", scores);
  w.i32s("tokenizer.ggml.token_type", kinds);
  if (!pieces) w.texts("tokenizer.ggml.merges", v.merges);
  const auto id = [&](const char* name, int32_t value) {
    if (value >= 0) w.u32(fmt::format("tokenizer.ggml.{}_token_id", name), static_cast<uint32_t>(value));
  };
  id("bos", v.bos);
  id("eos", v.eos);
  id("unknown", v.unknown);
  w.flag("tokenizer.ggml.add_bos_token", v.add_bos);
  w.flag("tokenizer.ggml.add_eos_token", v.add_eos);
  if (pieces) w.flag("tokenizer.ggml.add_space_prefix", v.add_space_prefix);
}

std::string header_of(const SyntheticModel& m, const std::vector<float>& factors) {
  GgufWriter w;
  put_geometry(w, m.config);
  w.u32("general.file_type", m.dtype == DType::kF32 ? 0 : m.dtype == DType::kF16 ? 1 : 32);
  if (m.vocabulary) put_vocabulary(w, *m.vocabulary);
  if (!m.chat_template.empty()) w.text("tokenizer.chat_template", m.chat_template);
  if (!factors.empty()) w.tensor("rope_freqs.weight", {static_cast<int64_t>(factors.size())}, DType::kF32);
  for (const Tensor& t : tensors_of(m.config)) w.tensor(gguf_name(t), t.shape, stored_as(t, m.dtype));
  return w.header();
}

uint64_t data_bytes(const Tensor& t, DType dtype) {
  return static_cast<uint64_t>(t.elements() * dtype_bytes(stored_as(t, dtype)));
}

}  // namespace

Status write_gguf(const SyntheticModel& m, const Sink& sink) {
  const std::vector<float> factors = divisors(m.config);
  HONE_RETURN_IF_ERROR(sink(header_of(m, factors)));
  if (!factors.empty()) {
    const size_t bytes = factors.size() * sizeof(float);
    HONE_RETURN_IF_ERROR(sink({reinterpret_cast<const char*>(factors.data()), bytes}));
    HONE_RETURN_IF_ERROR(sink(GgufWriter::padding(bytes)));
  }
  const bool neighbours = m.config.rope_style == model::RopeStyle::kInterleaved;
  for (const Tensor& t : tensors_of(m.config)) {
    HONE_RETURN_IF_ERROR(write_elements(m, t, stored_as(t, m.dtype), neighbours, sink));
    HONE_RETURN_IF_ERROR(sink(GgufWriter::padding(data_bytes(t, m.dtype))));
  }
  return {};
}

int64_t gguf_bytes(const SyntheticModel& m) {
  const std::vector<float> factors = divisors(m.config);
  uint64_t bytes = header_of(m, factors).size();
  const auto add = [&](uint64_t data) { bytes += data + GgufWriter::padding(data).size(); };
  if (!factors.empty()) add(factors.size() * sizeof(float));
  for (const Tensor& t : tensors_of(m.config)) add(data_bytes(t, m.dtype));
  return static_cast<int64_t>(bytes);
}

}  // namespace hone::synthetic
