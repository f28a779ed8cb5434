// See hugging_face_internal.h. A field that is null is as one that is absent; fallbacks are those of the classes that
// read these files.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/printable.h"
#include "engine/model/files/hugging_face_internal.h"
#include "engine/model/json.h"

namespace hone::model {
namespace {

struct Class {
  const char *name, *type, *architecture;
};
constexpr Class kClasses[] = {{"LlamaForCausalLM", "llama", "llama"},
                              {"MistralForCausalLM", "mistral", "mistral"},
                              {"Qwen2ForCausalLM", "qwen2", "qwen2"},
                              {"Qwen3ForCausalLM", "qwen3", "qwen3"}};

// Fields of one object, by key and type. `where` stands before the key in messages.
class Fields {
 public:
  explicit Fields(const Json& object, std::string where = "") : object_(object), where_(std::move(where)) {}

  const Json& at(std::string_view key) const { return member(object_, key); }
  bool has(std::string_view key) const { return !at(key).is_null(); }

  Status integer(std::string_view key, int64_t& value, std::optional<int64_t> fallback = std::nullopt) const {
    const Json& field = at(key);
    if (field.is_null() && fallback) {
      value = *fallback;
      return {};
    }
    if (!field.is_number_integer() || (field.is_number_unsigned() && field.get<uint64_t>() > INT64_MAX))
      return wrong(key, "a whole number");
    value = field.get<int64_t>();
    return {};
  }
  // What is absent leaves `value`.
  Status number(std::string_view key, double& value) const {
    if (!has(key)) return {};
    if (!at(key).is_number()) return wrong(key, "a number");
    value = at(key).get<double>();
    return {};
  }
  Status flag(std::string_view key, bool& value) const {
    if (!has(key)) return {};
    if (!at(key).is_boolean()) return wrong(key, "true or false");
    value = at(key).get<bool>();
    return {};
  }
  Status text(std::string_view key, std::string& value) const {
    if (!has(key)) return {};
    if (!at(key).is_string()) return wrong(key, "a text");
    value = at(key).get<std::string>();
    return {};
  }
  Status wrong(std::string_view key, std::string_view wanted) const {
    return invalid_argument(
        fmt::format("\"{}{}\" {} {}", where_, key, has(key) ? "must be" : "is missing, it must be", wanted));
  }

 private:
  const Json& object_;
  std::string where_;
};

Status read_class(const Fields& fields, DecoderConfig& c) {
  std::string type, name;
  HONE_RETURN_IF_ERROR(fields.text("model_type", type));
  const Json& list = fields.at("architectures");
  if (list.is_array() && !list.empty() && list[0].is_string()) name = list[0].get<std::string>();
  for (const Class& known : kClasses)
    if (name.empty() ? type == known.type : name == known.name) c.architecture = known.architecture;
  if (c.architecture.empty())
    return unsupported(fmt::format("architecture \"{}\"; Llama, Mistral, Qwen2 and Qwen3ForCausalLM are read",
                                   printable(name.empty() ? type : name)));
  std::string activation = "silu";
  HONE_RETURN_IF_ERROR(fields.text("hidden_act", activation));
  if (activation != "silu") return unsupported(fmt::format("hidden_act \"{}\"; silu is read", printable(activation)));
  if (fields.has("quantization_config")) return unsupported("quantization_config: quantised weights");
  return fields.text("_name_or_path", c.name);
}

Status read_sizes(const Fields& fields, DecoderConfig& c) {
  HONE_RETURN_IF_ERROR(fields.integer("hidden_size", c.width));
  HONE_RETURN_IF_ERROR(fields.integer("intermediate_size", c.ff));
  HONE_RETURN_IF_ERROR(fields.integer("num_hidden_layers", c.layers));
  HONE_RETURN_IF_ERROR(fields.integer("num_attention_heads", c.heads));
  HONE_RETURN_IF_ERROR(fields.integer("num_key_value_heads", c.kv_heads, c.heads));
  HONE_RETURN_IF_ERROR(fields.integer("vocab_size", c.vocabulary));
  HONE_RETURN_IF_ERROR(fields.integer("max_position_embeddings", c.context));
  if (c.heads < 1) return fields.wrong("num_attention_heads", "positive");
  if (!fields.has("head_dim") && c.width % c.heads != 0)
    return invalid_argument(
        fmt::format("hidden_size ({}) is not a multiple of num_attention_heads ({})", c.width, c.heads));
  HONE_RETURN_IF_ERROR(fields.integer("head_dim", c.head_dim, c.width / c.heads));
  c.norm_eps = 1e-6;
  HONE_RETURN_IF_ERROR(fields.number("rms_norm_eps", c.norm_eps));
  if (c.architecture == "llama" || c.architecture == "qwen3") {  // the other classes do not know these fields
    HONE_RETURN_IF_ERROR(fields.flag("attention_bias", c.qkv_bias));
    c.o_bias = c.qkv_bias;
  }
  if (c.architecture == "llama") HONE_RETURN_IF_ERROR(fields.flag("mlp_bias", c.mlp_bias));
  return fields.flag("tie_word_embeddings", c.tied_embeddings);
}

// layer_types says it of each layer in newer files; of older ones only Qwen's differ: their first max_window_layers
// layers see everything.
Status read_window(const Fields& fields, DecoderConfig& c) {
  if (c.architecture == "llama") return {};  // its class knows no window, whatever the file has
  bool used = c.architecture == "mistral";
  HONE_RETURN_IF_ERROR(fields.flag("use_sliding_window", used));
  HONE_RETURN_IF_ERROR(fields.integer("sliding_window", c.window, 0));
  const Json& types = fields.at("layer_types");
  std::vector<bool> sliding;
  for (size_t i = 0; types.is_array() && i < types.size(); ++i) {
    sliding.push_back(types[i] == "sliding_attention");
    if (!sliding.back() && types[i] != "full_attention")
      return unsupported("layer_types other than full_attention and sliding_attention");
  }
  if (!used) c.window = 0;
  if (c.window == 0) return {};
  if (types.is_array()) {
    if (sliding.size() != static_cast<size_t>(c.layers))
      return invalid_argument(fmt::format("layer_types are {}, num_hidden_layers is {}", sliding.size(), c.layers));
  } else if (c.architecture != "mistral") {
    int64_t full = 0;
    HONE_RETURN_IF_ERROR(fields.integer("max_window_layers", full, 28));
    if (c.layers > kMostLayers) return fields.wrong("num_hidden_layers", fmt::format("at most {}", kMostLayers));
    for (int64_t i = 0; i < c.layers; ++i) sliding.push_back(i >= full);
  }
  set_windows(c, std::move(sliding));
  return {};
}

// As YaRN's authors and every reader have it: 1 for what is not stretched.
double magnitude(double factor, double scale) { return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1; }

Status read_yarn(const Fields& rope, const DecoderConfig& c, RopeScaling& s) {
  s.kind = RopeScalingKind::kYarn;
  HONE_RETURN_IF_ERROR(rope.integer("original_max_position_embeddings", s.original_context, c.context));
  HONE_RETURN_IF_ERROR(rope.number("beta_fast", s.beta_fast));
  HONE_RETURN_IF_ERROR(rope.number("beta_slow", s.beta_slow));
  double scale = 0, all = 0;
  HONE_RETURN_IF_ERROR(rope.number("mscale", scale));
  HONE_RETURN_IF_ERROR(rope.number("mscale_all_dim", all));
  if (scale != 0 && all != 0) s.attention_factor = magnitude(s.factor, scale) / magnitude(s.factor, all);
  HONE_RETURN_IF_ERROR(rope.number("attention_factor", s.attention_factor));
  bool truncate = true;
  HONE_RETURN_IF_ERROR(rope.flag("truncate", truncate));
  if (!truncate) return unsupported("yarn without truncate");
  return {};
}

// Nothing is scaled within the context of training, which thereby is the model's.
Status read_dynamic(const Fields& rope, DecoderConfig& c, RopeScaling& s) {
  if (rope.has("alpha")) return unsupported("RoPE scaling \"dynamic\" with alpha");
  s.kind = RopeScalingKind::kDynamic;
  HONE_RETURN_IF_ERROR(rope.integer("original_max_position_embeddings", s.original_context, c.context));
  c.context = std::min(c.context, s.original_context);
  return {};
}

// `rope`: the object rope_parameters or rope_scaling; empty where there is none.
Status read_scaling(const Fields& rope, DecoderConfig& c) {
  std::string type = "default";
  HONE_RETURN_IF_ERROR(rope.text("type", type));
  HONE_RETURN_IF_ERROR(rope.text("rope_type", type));
  if (type == "default") return {};
  RopeScaling& s = c.rope_scaling;
  if (!rope.has("factor")) return rope.wrong("factor", "a number");
  HONE_RETURN_IF_ERROR(rope.number("factor", s.factor));
  if (type == "linear") {
    s.kind = RopeScalingKind::kLinear;
    return {};
  }
  if (type == "yarn") return read_yarn(rope, c, s);
  if (type == "dynamic") return read_dynamic(rope, c, s);
  if (type != "llama3")
    return unsupported(fmt::format("RoPE scaling \"{}\"; linear, llama3, yarn and dynamic are read", printable(type)));
  s.kind = RopeScalingKind::kLlama3;
  HONE_RETURN_IF_ERROR(rope.number("low_freq_factor", s.low_freq_factor));
  HONE_RETURN_IF_ERROR(rope.number("high_freq_factor", s.high_freq_factor));
  return rope.integer("original_max_position_embeddings", s.original_context);
}

Status read_rope(const Fields& fields, DecoderConfig& c) {
  static const Json kNone = Json::object();
  const char* key = fields.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  const Json& object = fields.has(key) ? fields.at(key) : kNone;
  if (!object.is_object()) return fields.wrong(key, "an object");
  if (object.contains("full_attention") || object.contains("sliding_attention"))
    return unsupported("rope_parameters that differ between layers");
  const Fields rope(object, fmt::format("{}.", key));
  HONE_RETURN_IF_ERROR(fields.number("rope_theta", c.rope_theta));
  HONE_RETURN_IF_ERROR(rope.number("rope_theta", c.rope_theta));
  double part = 1;
  HONE_RETURN_IF_ERROR(fields.number("partial_rotary_factor", part));
  HONE_RETURN_IF_ERROR(rope.number("partial_rotary_factor", part));
  if (!(part > 0 && part <= 1)) return fields.wrong("partial_rotary_factor", "above 0 and at most 1");
  if (c.head_dim < 1 || c.head_dim > INT32_MAX) return fields.wrong("head_dim", "positive and small");
  c.rope_dims = static_cast<int64_t>(static_cast<double>(c.head_dim) * part);
  return read_scaling(rope, c);
}

}  // namespace

Result<DecoderConfig> config_of_hugging_face(std::string_view config_json) {
  HONE_ASSIGN_OR_RETURN(const Json json, parse_json_object(config_json));
  const Fields fields(json);
  DecoderConfig c;
  HONE_RETURN_IF_ERROR(read_class(fields, c));
  HONE_RETURN_IF_ERROR(read_sizes(fields, c));
  HONE_RETURN_IF_ERROR(read_window(fields, c));
  HONE_RETURN_IF_ERROR(read_rope(fields, c));
  HONE_RETURN_IF_ERROR(validate(c));
  return c;
}

Result<std::vector<int32_t>> stops_of_hugging_face(std::string_view text) {
  HONE_ASSIGN_OR_RETURN(const Json json, parse_json_object(text));
  const Json& eos = member(json, "eos_token_id");
  std::vector<int32_t> ids;
  const auto add = [&](const Json& id) {
    const bool good = id.is_number_integer() && id.get<int64_t>() >= 0 && id.get<int64_t>() <= INT32_MAX;
    if (good) ids.push_back(id.get<int32_t>());
    return good;
  };
  bool good = true;
  if (eos.is_array())
    for (const Json& id : eos) good = add(id) && good;
  else if (!eos.is_null())
    good = add(eos);
  if (!good) return invalid_argument("\"eos_token_id\" must be an id or a list of them");
  return ids;
}

std::string chat_template_of_hugging_face(const Json& tokenizer_config) {
  const Json& found = member(tokenizer_config, "chat_template");
  if (found.is_string()) return found.get<std::string>();
  if (found.is_array())
    for (const Json& entry : found)
      if (entry.is_object() && member(entry, "name") == "default" && member(entry, "template").is_string())
        return member(entry, "template").get<std::string>();
  return "";
}

Result<std::vector<std::pair<std::string, std::string>>> weight_map_of_hugging_face(std::string_view index) {
  HONE_ASSIGN_OR_RETURN(const Json json, parse_json_object(index));
  const Json& map = member(json, "weight_map");
  if (!map.is_object()) return invalid_argument("\"weight_map\" must be an object");
  std::vector<std::pair<std::string, std::string>> files;
  for (const auto& [tensor, file] : map.items()) {
    if (!file.is_string()) return invalid_argument(fmt::format("the file of \"{}\" must be a text", printable(tensor)));
    const auto& name = file.get_ref<const std::string&>();
    if (name.empty() || name.front() == '.' || name.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos)
      return invalid_argument(fmt::format("\"{}\" is said to be in \"{}\", which is no name of a file in this folder",
                                          printable(tensor), printable(name)));
    files.emplace_back(tensor, name);
  }
  return files;
}

}  // namespace hone::model
