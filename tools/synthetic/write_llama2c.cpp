// A synthetic model as a legacy file of llama2.c: see model.h.
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "tools/synthetic/elements_internal.h"

namespace hone::synthetic {
namespace {

Status check(const model::DecoderConfig& c) {
  const bool fits = !c.qkv_bias && !c.o_bias && !c.mlp_bias && !c.qk_norm && c.window == 0 &&
                    c.heads * c.head_dim == c.width && c.rope_dims == c.head_dim && c.rope_factors.empty() &&
                    c.rope_theta == 10000 && c.norm_eps == 1e-5 && c.rope_scaling.kind == model::RopeScalingKind::kNone;
  return fits ? Status() : invalid_argument("llama2.c's header cannot say this geometry");
}

}  // namespace

Status write_llama2c(const SyntheticModel& m, const Sink& sink) {
  const model::DecoderConfig& c = m.config;
  HONE_RETURN_IF_ERROR(check(c));
  const int64_t numbers[7] = {
      c.width, c.ff, c.layers, c.heads, c.kv_heads, c.tied_embeddings ? c.vocabulary : -c.vocabulary, c.context};
  std::string header;
  for (const int64_t number : numbers) {
    const auto narrow = static_cast<int32_t>(number);
    header.append(reinterpret_cast<const char*>(&narrow), sizeof narrow);
  }
  HONE_RETURN_IF_ERROR(sink(header));
  const std::vector<Tensor> all = tensors_of(c);
  const auto write = [&](Role role) -> Status {
    for (const Tensor& t : all)
      if (t.role == role) HONE_RETURN_IF_ERROR(write_elements(m, t, DType::kF32, true, sink));
    return {};
  };
  for (const Role role : {Role::kEmbedding, Role::kAttentionNorm, Role::kQ, Role::kK, Role::kV, Role::kO, Role::kFfNorm,
                          Role::kGate, Role::kDown, Role::kUp, Role::kOutputNorm})
    HONE_RETURN_IF_ERROR(write(role));
  const std::string table(static_cast<size_t>(c.context * (c.head_dim / 2)) * sizeof(float), '\0');
  HONE_RETURN_IF_ERROR(sink(table));  // of cosines, which nobody reads any more
  HONE_RETURN_IF_ERROR(sink(table));  // of sines
  return write(Role::kOutput);
}

std::string llama2c_tokenizer(const model::Vocabulary& v) {
  constexpr std::string_view kSpace = "\u2581";
  std::string bytes;
  const auto put = [&](const auto& value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
  uint32_t longest = 1;
  for (const model::Token& token : v.tokens) longest = std::max(longest, static_cast<uint32_t>(token.text.size()) + 2);
  put(longest);
  for (size_t i = 0; i < v.tokens.size(); ++i) {
    std::string text = v.tokens[i].text;
    for (size_t at; (at = text.find(kSpace)) != std::string::npos;) text.replace(at, kSpace.size(), " ");
    if (i == 1 || i == 2) text = "\n" + text + "\n";
    put(v.tokens[i].score);
    put(static_cast<uint32_t>(text.size()));
    bytes += text;
  }
  return bytes;
}

}  // namespace hone::synthetic
