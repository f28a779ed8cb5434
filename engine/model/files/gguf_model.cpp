// From a GGUF container to a decoder: which keys say what, and which say that the file is no Llama decoder.
//
// Rows of q and k: what converts a checkpoint of the llama architecture to GGUF reorders them within each head, so that
// RoPE turns neighbours (2j, 2j + 1) and not halves (j, j + d/2); of qwen2 and qwen3 it leaves them. The style is thus
// the architecture's, and both give the same products of q and k.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/base/printable.h"
#include "engine/model/files/assemble_internal.h"
#include "engine/model/files/formats_internal.h"

namespace hone::model {
namespace {

struct Architecture {
  const char* name;
  RopeStyle rope;
};
constexpr Architecture kArchitectures[] = {{"llama", RopeStyle::kInterleaved},
                                           {"mistral", RopeStyle::kInterleaved},
                                           {"qwen2", RopeStyle::kHalf},
                                           {"qwen3", RopeStyle::kHalf}};

// Keys below the architecture that a Llama decoder has not, and the value with which they say nothing (NaN: none).
struct Foreign {
  const char* key;
  double neutral;
};
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr Foreign kForeign[] = {{"expert_count", 0},
                                {"logit_scale", 1},
                                {"embedding_scale", 1},
                                {"residual_scale", 1},
                                {"attention.scale", 0},
                                {"attention.output_scale", 1},
                                {"attention.temperature_scale", 0},
                                {"attention.temperature_length", 0},
                                {"attention.max_alibi_bias", 0},
                                {"attention.clamp_kqv", 0},
                                {"attention.key_length_mla", kNone},
                                {"attention.key_length_swa", kNone},
                                {"attention.shared_kv_layers", 0},
                                {"attention.chunk_size", kNone},
                                {"attn_logit_softcapping", 0},
                                {"final_logit_softcapping", 0},
                                {"rope.dimension_sections", kNone},
                                {"rope.scaling.yarn_log_multiplier", 0}};

class Reader {
 public:
  explicit Reader(GgufFile& file) : file_(file) {}

  Result<DecoderConfig> config() {
    HONE_RETURN_IF_ERROR(architecture());
    HONE_RETURN_IF_ERROR(refuse_foreign());
    HONE_RETURN_IF_ERROR(sizes());
    HONE_RETURN_IF_ERROR(windows());
    HONE_RETURN_IF_ERROR(rope());
    HONE_RETURN_IF_ERROR(scaling());
    HONE_RETURN_IF_ERROR(tensors());
    HONE_RETURN_IF_ERROR(validate(config_));
    return std::move(config_);
  }

 private:
  std::string key(std::string_view rest) const { return fmt::format("{}.{}", config_.architecture, rest); }

  Status architecture() {
    HONE_ASSIGN_OR_RETURN(const auto type, file_.text("general.type"));
    if (type && *type != "model")
      return unsupported(fmt::format("a file of type \"{}\", not a model", printable(*type)));
    HONE_ASSIGN_OR_RETURN(const auto name, file_.text("general.architecture"));
    if (!name) return invalid_argument("metadata \"general.architecture\" is missing");
    const auto* known = std::ranges::find(kArchitectures, *name, &Architecture::name);
    if (known == std::end(kArchitectures))
      return unsupported(
          fmt::format("architecture \"{}\"; llama, mistral, qwen2 and qwen3 are read", printable(*name)));
    config_.architecture = known->name;
    config_.rope_style = known->rope;
    HONE_ASSIGN_OR_RETURN(const auto title, file_.text("general.name"));
    config_.name = title.value_or("");
    return {};
  }

  Status refuse_foreign() {
    for (const Foreign& foreign : kForeign) {
      if (!file_.has(key(foreign.key))) continue;
      if (std::isnan(foreign.neutral))
        return unsupported(fmt::format("metadata \"{}\": no part of a Llama decoder", key(foreign.key)));
      HONE_ASSIGN_OR_RETURN(const auto value, file_.number(key(foreign.key)));
      if (*value != foreign.neutral && *value != 0)
        return unsupported(fmt::format("metadata \"{}\" is {}: no part of a Llama decoder", key(foreign.key), *value));
    }
    HONE_ASSIGN_OR_RETURN(const auto causal, file_.flag(key("attention.causal")));
    HONE_ASSIGN_OR_RETURN(const auto parallel, file_.flag(key("use_parallel_residual")));
    if (!causal.value_or(true)) return unsupported("attention that is not causal");
    if (parallel.value_or(false)) return unsupported("parallel residuals");
    return {};
  }

  // `fallback`: nothing where the key must be there.
  Status integer(std::string_view rest, int64_t& value, std::optional<int64_t> fallback = std::nullopt) {
    HONE_ASSIGN_OR_RETURN(const auto read, file_.integer(key(rest)));
    if (!read && !fallback) return invalid_argument(fmt::format("metadata \"{}\" is missing", key(rest)));
    value = read ? *read : *fallback;
    return {};
  }
  Status number(std::string_view rest, double& value) {
    HONE_ASSIGN_OR_RETURN(const auto read, file_.number(key(rest)));
    value = read.value_or(value);
    return {};
  }

  Status sizes() {
    DecoderConfig& c = config_;
    HONE_RETURN_IF_ERROR(integer("block_count", c.layers));
    HONE_RETURN_IF_ERROR(integer("context_length", c.context));
    HONE_RETURN_IF_ERROR(integer("embedding_length", c.width));
    HONE_RETURN_IF_ERROR(integer("feed_forward_length", c.ff));
    HONE_RETURN_IF_ERROR(integer("attention.head_count", c.heads));
    HONE_RETURN_IF_ERROR(integer("attention.head_count_kv", c.kv_heads, c.heads));
    if (c.heads < 1)
      return invalid_argument(fmt::format("metadata \"{}\" is {}", key("attention.head_count"), c.heads));
    int64_t value_length = 0;
    HONE_RETURN_IF_ERROR(integer("attention.key_length", c.head_dim, c.width / c.heads));
    HONE_RETURN_IF_ERROR(integer("attention.value_length", value_length, c.width / c.heads));
    if (!file_.has(key("attention.key_length")) && c.width % c.heads != 0)
      return invalid_argument(
          fmt::format("embedding_length ({}) is not a multiple of head_count ({})", c.width, c.heads));
    if (value_length != c.head_dim)
      return unsupported(fmt::format("heads of {} elements in keys and {} in values", c.head_dim, value_length));
    c.norm_eps = 0;
    HONE_RETURN_IF_ERROR(number("attention.layer_norm_rms_epsilon", c.norm_eps));
    if (c.norm_eps == 0)
      return invalid_argument(fmt::format("metadata \"{}\" is missing or 0", key("attention.layer_norm_rms_epsilon")));
    return {};
  }

  // The pattern is a truth value for each layer, or a number n: all layers but each n-th have the window.
  Status windows() {
    DecoderConfig& c = config_;
    HONE_RETURN_IF_ERROR(integer("attention.sliding_window", c.window, 0));
    const std::string pattern = key("attention.sliding_window_pattern");
    if (c.window == 0 || !file_.has(pattern)) return {};
    std::vector<bool> sliding;
    if (file_.is_array(pattern)) {
      HONE_ASSIGN_OR_RETURN(sliding, file_.flags(pattern));
    } else {
      HONE_ASSIGN_OR_RETURN(const auto period, file_.integer(pattern));
      if (*period < 0 || c.layers > kMostLayers)
        return invalid_argument(fmt::format("metadata \"{}\" is {}, of {} layers", pattern, *period, c.layers));
      for (int64_t i = 0; i < c.layers; ++i) sliding.push_back(*period == 0 || i % *period + 1 < *period);
    }
    if (std::ssize(sliding) != c.layers)
      return invalid_argument(
          fmt::format("metadata \"{}\" is of {} layers, there are {}", pattern, sliding.size(), c.layers));
    set_windows(c, std::move(sliding));
    return {};
  }

  Status rope() {
    HONE_RETURN_IF_ERROR(number("rope.freq_base", config_.rope_theta));
    double in_windows = config_.rope_theta;
    HONE_RETURN_IF_ERROR(number("rope.freq_base_swa", in_windows));
    if (config_.window != 0 && in_windows != config_.rope_theta)
      return unsupported(fmt::format("metadata \"{}\": RoPE that differs between layers", key("rope.freq_base_swa")));
    return integer("rope.dimension_count", config_.rope_dims, config_.head_dim);
  }

  Status scaling() {
    HONE_ASSIGN_OR_RETURN(const auto type, file_.text(key("rope.scaling.type")));
    RopeScaling s;
    s.factor = 0;
    HONE_RETURN_IF_ERROR(number("rope.scale_linear", s.factor));  // its name in early files
    HONE_RETURN_IF_ERROR(number("rope.scaling.factor", s.factor));
    if (s.factor == 0) s.factor = 1;
    double attention = 1, yarn_attention = 1, extrapolation = 1;
    HONE_RETURN_IF_ERROR(number("rope.scaling.attn_factor", attention));
    const std::string_view kind = type.value_or("linear");
    if (kind == "yarn") {
      s.kind = RopeScalingKind::kYarn;
      HONE_RETURN_IF_ERROR(integer("rope.scaling.original_context_length", s.original_context, config_.context));
      HONE_RETURN_IF_ERROR(number("rope.scaling.yarn_attn_factor", yarn_attention));
      HONE_RETURN_IF_ERROR(number("rope.scaling.yarn_ext_factor", extrapolation));
      HONE_RETURN_IF_ERROR(number("rope.scaling.yarn_beta_fast", s.beta_fast));
      HONE_RETURN_IF_ERROR(number("rope.scaling.yarn_beta_slow", s.beta_slow));
      if (extrapolation != 1 && extrapolation != -1)  // -1: as the type has it
        return unsupported(fmt::format("metadata \"{}\" is {}", key("rope.scaling.yarn_ext_factor"), extrapolation));
      attention *= yarn_attention;
      // The file's factors come on top of the one that the stretch brings with it.
      if (attention != 1) s.attention_factor = attention * (s.factor > 1 ? 0.1 * std::log(s.factor) + 1 : 1);
    } else if (kind == "linear" || kind == "none") {
      if (kind == "linear" && s.factor != 1) s.kind = RopeScalingKind::kLinear;
      if (attention != 1)
        return unsupported(fmt::format("metadata \"{}\" without yarn", key("rope.scaling.attn_factor")));
    } else {
      return unsupported(fmt::format("metadata \"{}\" is \"{}\"; none, linear and yarn are read",
                                     key("rope.scaling.type"), printable(kind)));
    }
    if (s.kind != RopeScalingKind::kNone) config_.rope_scaling = s;
    return {};
  }

  // What the list of tensors says of the geometry.
  Status tensors() {
    std::vector<Weight>& list = file_.tensors();
    const auto embedding = std::ranges::find(list, "token_embd.weight", &Weight::name);
    if (embedding == list.end()) return invalid_argument("tensor \"token_embd.weight\" is missing");
    config_.vocabulary = embedding->shape.front();
    HONE_ASSIGN_OR_RETURN(const auto tokens, file_.integer(key("vocab_size")));
    if (tokens && *tokens != config_.vocabulary)
      return invalid_argument(fmt::format("tensor \"token_embd.weight\" is {}, metadata \"{}\" is {}",
                                          shape_text(embedding->shape), key("vocab_size"), *tokens));
    config_.tied_embeddings = std::ranges::find(list, "output.weight", &Weight::name) == list.end();
    const auto factors = std::ranges::find(list, "rope_freqs.weight", &Weight::name);
    if (factors == list.end()) return {};
    if (factors->dtype != DType::kF32 || factors->shape.size() != 1)
      return unsupported(fmt::format("tensor \"rope_freqs.weight\" is {} of {}; a list of f32 is read",
                                     shape_text(factors->shape), dtype_name(factors->dtype)));
    config_.rope_factors.resize(factors->data.size() / sizeof(float));
    std::memcpy(config_.rope_factors.data(), factors->data.data(), factors->data.size());
    list.erase(factors);
    return {};
  }

  GgufFile& file_;
  DecoderConfig config_;
};

}  // namespace

Result<ModelFile> model_of_gguf(std::span<const std::byte> bytes, bool with_vocabulary, const GgufParts& parts) {
  HONE_ASSIGN_OR_RETURN(GgufFile file, GgufFile::parse(bytes));
  HONE_RETURN_IF_ERROR(append_parts(file, parts));
  ModelFile model;
  model.format = fmt::format("GGUF v{}", file.version());
  HONE_ASSIGN_OR_RETURN(model.config, Reader(file).config());
  HONE_ASSIGN_OR_RETURN(model.weights, assemble(std::move(file.tensors()), Naming::kGguf, model.config));
  if (with_vocabulary) {
    HONE_ASSIGN_OR_RETURN(model.vocabulary, vocabulary_of_gguf(file));
  }
  HONE_ASSIGN_OR_RETURN(const auto chat_template, file.text("tokenizer.chat_template"));
  model.chat_template = chat_template.value_or("");
  return model;
}

}  // namespace hone::model
