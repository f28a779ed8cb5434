// config.json and its neighbours: what real ones say, and what is refused.
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/model/files/hugging_face_internal.h"
#include "tests/engine/model/files/files_testing.h"

namespace hone::model {
namespace {

using ::testing::HasSubstr;

const Json kLlama32 =
    Json::parse(R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false, "bos_token_id": 128000,
  "eos_token_id": [128001, 128008, 128009], "head_dim": 64, "hidden_act": "silu", "hidden_size": 2048,
  "intermediate_size": 8192, "max_position_embeddings": 131072, "mlp_bias": false, "model_type": "llama",
  "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8, "pretraining_tp": 1,
  "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
  "original_max_position_embeddings": 8192, "rope_type": "llama3"}, "rope_theta": 500000.0,
  "tie_word_embeddings": true, "torch_dtype": "bfloat16", "vocab_size": 128256})");
const Json kQwen25 = Json::parse(R"({"architectures": ["Qwen2ForCausalLM"], "hidden_act": "silu", "hidden_size": 896,
  "intermediate_size": 4864, "max_position_embeddings": 32768, "max_window_layers": 21, "model_type": "qwen2",
  "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
  "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": true, "use_sliding_window": false,
  "vocab_size": 151936})");
const Json kMistral =
    Json::parse(R"({"architectures": ["MistralForCausalLM"], "hidden_act": "silu", "hidden_size": 4096,
  "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mistral", "num_attention_heads": 32,
  "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
  "sliding_window": 4096, "tie_word_embeddings": false, "vocab_size": 32000})");

DecoderConfig config_of(const Json& json) {
  const Result<DecoderConfig> config = config_of_hugging_face(json.dump());
  EXPECT_TRUE(config.ok()) << config.status().to_string();
  return config.ok() ? *config : DecoderConfig();
}

Json with(Json json, const char* key, const Json& value) {
  json[key] = value;
  return json;
}

TEST(ModelFilesConfig, OfRealModels) {
  const DecoderConfig llama = config_of(kLlama32);
  EXPECT_EQ(llama.architecture, "llama");
  EXPECT_EQ(llama.head_dim, 64);
  EXPECT_EQ(llama.kv_heads, 8);
  EXPECT_EQ(llama.context, 131072);
  EXPECT_EQ(llama.rope_theta, 500000);
  EXPECT_TRUE(llama.tied_embeddings);
  EXPECT_EQ(llama.rope_scaling, (RopeScaling{.kind = RopeScalingKind::kLlama3,
                                             .factor = 32,
                                             .original_context = 8192,
                                             .low_freq_factor = 1,
                                             .high_freq_factor = 4}));
  const DecoderConfig qwen = config_of(kQwen25);
  EXPECT_EQ(qwen.architecture, "qwen2");
  EXPECT_EQ(qwen.head_dim, 64);
  EXPECT_EQ(qwen.window, 0) << "use_sliding_window is false";
  EXPECT_EQ(qwen.norm_eps, 1e-6);
  const DecoderConfig mistral = config_of(kMistral);
  EXPECT_EQ(mistral.window, 4096);
  EXPECT_EQ(config_of(with(kMistral, "sliding_window", nullptr)).window, 0);
}

TEST(ModelFilesConfig, WindowsByLayer) {
  const auto windows = [](const Json& json) {
    const DecoderConfig c = config_of(json);
    std::vector<int64_t> all;
    for (size_t i = 0; i < static_cast<size_t>(c.layers); ++i) all.push_back(window_of(c, i));
    return all;
  };
  const auto last = [](size_t count) {
    std::vector<int64_t> all(24);
    std::fill(all.end() - static_cast<ptrdiff_t>(count), all.end(), 32768);
    return all;
  };
  Json qwen = with(kQwen25, "use_sliding_window", true);
  EXPECT_EQ(windows(qwen), last(3)) << "max_window_layers is 21";
  EXPECT_EQ(windows(with(qwen, "max_window_layers", 24)), last(0));
  EXPECT_EQ(windows(with(qwen, "max_window_layers", 28)), last(0));
  EXPECT_EQ(windows(with(qwen, "max_window_layers", 0)), last(24));
  EXPECT_EQ(windows(kQwen25), last(0));
  EXPECT_EQ(windows(with(kMistral, "max_window_layers", 4)), std::vector<int64_t>(32, 4096));
  Json types = Json::array();
  for (int i = 0; i < 24; ++i) types.push_back("full_attention");
  EXPECT_EQ(config_of(with(qwen, "layer_types", types)).window, 0);
  types[3] = "sliding_attention";
  std::vector<int64_t> fourth(24);
  fourth[3] = 32768;
  EXPECT_EQ(windows(with(qwen, "layer_types", types)), fourth);
  EXPECT_EQ(windows(with(kQwen25, "layer_types", types)), last(0)) << "use_sliding_window is false";
  types.push_back("full_attention");
  EXPECT_THAT(config_of_hugging_face(with(qwen, "layer_types", types).dump()).status().message(),
              HasSubstr("layer_types are 25, num_hidden_layers is 24"));
  types.erase(24);
  types[3] = "linear_attention";
  EXPECT_EQ(config_of_hugging_face(with(qwen, "layer_types", types).dump()).status().code(), Code::kUnsupported);
}

TEST(ModelFilesConfig, RopeInBothSpellings) {
  Json newer = kLlama32;
  newer["rope_parameters"] = newer["rope_scaling"];
  newer["rope_parameters"]["rope_theta"] = 123.0;
  newer.erase("rope_scaling");
  newer.erase("rope_theta");
  EXPECT_EQ(config_of(newer).rope_scaling, config_of(kLlama32).rope_scaling);
  EXPECT_EQ(config_of(newer).rope_theta, 123);

  Json yarn = with(kQwen25, "rope_scaling", {{"type", "yarn"}, {"factor", 4.0}});
  EXPECT_EQ(config_of(yarn).rope_scaling,
            (RopeScaling{.kind = RopeScalingKind::kYarn, .factor = 4, .original_context = 32768}));
  yarn["rope_scaling"].update({{"mscale", 1.0}, {"mscale_all_dim", 0.5}, {"beta_fast", 24}});
  EXPECT_NEAR(config_of(yarn).rope_scaling.attention_factor, (0.1 * std::log(4) + 1) / (0.05 * std::log(4) + 1), 1e-12);
  EXPECT_EQ(config_of(yarn).rope_scaling.beta_fast, 24);
  EXPECT_EQ(config_of(with(kQwen25, "rope_scaling", {{"type", "default"}})).rope_scaling.kind, RopeScalingKind::kNone);
  EXPECT_EQ(config_of(with(kLlama32, "partial_rotary_factor", 0.5)).rope_dims, 32);
}

TEST(ModelFilesConfig, Biases) {
  const auto biases = [](const Json& json) {
    const DecoderConfig c = config_of(json);
    return std::vector<bool>{c.qkv_bias, c.o_bias, c.mlp_bias};
  };
  const Json both = {{"attention_bias", true}, {"mlp_bias", true}};
  const auto with_both = [&](Json json) {
    json.update(both);
    return json;
  };
  EXPECT_EQ(biases(kLlama32), (std::vector{false, false, false}));
  EXPECT_EQ(biases(with_both(kLlama32)), (std::vector{true, true, true}));
  EXPECT_EQ(biases(with_both(kMistral)), (std::vector{false, false, false})) << "its class has none";
  EXPECT_EQ(biases(with_both(kQwen25)), (std::vector{false, false, false})) << "its own are always there";
  Json qwen3 = with(with_both(kQwen25), "architectures", {"Qwen3ForCausalLM"});
  EXPECT_EQ(biases(qwen3), (std::vector{true, true, false}));
}

TEST(ModelFilesConfig, DynamicScalingIsThatOfItsContext) {
  const DecoderConfig c = config_of(with(kLlama32, "rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}));
  EXPECT_EQ(c.rope_scaling.kind, RopeScalingKind::kDynamic);
  EXPECT_EQ(c.rope_scaling.original_context, 131072);
  const DecoderConfig stretched =
      config_of(with(kLlama32, "rope_scaling",
                     {{"rope_type", "dynamic"}, {"factor", 2.0}, {"original_max_position_embeddings", 4096}}));
  EXPECT_EQ(stretched.context, 4096) << "longer texts are turned by their length";
}

TEST(ModelFilesConfig, Refusals) {
  const auto refused = [](const Json& json, Code code, const char* what) {
    const Result<DecoderConfig> config = config_of_hugging_face(json.dump());
    ASSERT_FALSE(config.ok()) << what;
    EXPECT_THAT(config.status().message(), HasSubstr(what));
    EXPECT_EQ(config.status().code(), code) << config.status().message();
  };
  refused(with(kLlama32, "architectures", {"GemmaForCausalLM"}), Code::kUnsupported,
          "architecture \"GemmaForCausalLM\"");
  refused(with(kLlama32, "hidden_act", "gelu"), Code::kUnsupported, "hidden_act \"gelu\"");
  refused(with(kLlama32, "quantization_config", {{"bits", 4}}), Code::kUnsupported, "quantised");
  refused(with(kLlama32, "hidden_size", nullptr), Code::kInvalidArgument, "\"hidden_size\" is missing");
  refused(with(kLlama32, "hidden_size", 2048.5), Code::kInvalidArgument, "\"hidden_size\" must be a whole number");
  refused(with(kLlama32, "hidden_size", UINT64_MAX), Code::kInvalidArgument, "must be a whole number");
  refused(with(kLlama32, "hidden_size", -1), Code::kInvalidArgument, "width is -1");
  refused(with(kLlama32, "num_attention_heads", 0), Code::kInvalidArgument, "\"num_attention_heads\" must be positive");
  refused(with(kQwen25, "hidden_size", 897), Code::kInvalidArgument, "hidden_size (897) is not a multiple");
  refused(with(kLlama32, "rope_theta", "high"), Code::kInvalidArgument, "\"rope_theta\" must be a number");
  refused(with(kLlama32, "tie_word_embeddings", 1), Code::kInvalidArgument, "true or false");
  refused(with(kLlama32, "rope_scaling", {{"type", "dynamic"}, {"factor", 2}, {"alpha", 1000}}), Code::kUnsupported,
          "RoPE scaling \"dynamic\" with alpha");
  refused(with(kLlama32, "rope_scaling", {{"type", "longrope"}, {"factor", 2}}), Code::kUnsupported,
          "RoPE scaling \"longrope\"");
  refused(with(kLlama32, "rope_scaling", {{"type", "linear"}}), Code::kInvalidArgument,
          "\"rope_scaling.factor\" is missing");
  refused(with(kLlama32, "rope_scaling", {{"type", "llama3"}, {"factor", 2}}), Code::kInvalidArgument,
          "original_max_position_embeddings\" is missing");
  refused(with(kLlama32, "rope_scaling", 4), Code::kInvalidArgument, "\"rope_scaling\" must be an object");
  refused(with(kLlama32, "rope_scaling", {{"type", "yarn"}, {"factor", 2}, {"truncate", false}}), Code::kUnsupported,
          "truncate");
  refused(with(kLlama32, "rope_parameters", {{"full_attention", Json::object()}}), Code::kUnsupported,
          "differ between");
  refused(with(kLlama32, "partial_rotary_factor", 2), Code::kInvalidArgument, "partial_rotary_factor");
  EXPECT_EQ(config_of_hugging_face("{").status().code(), Code::kDataLoss);
  EXPECT_THAT(config_of_hugging_face(R"({"a": 1, "a": 2})").status().message(), HasSubstr("\"a\" is there twice"));
}

TEST(ModelFilesConfig, Neighbours) {
  EXPECT_THAT(*stops_of_hugging_face(kLlama32.dump()), ::testing::ElementsAre(128001, 128008, 128009));
  EXPECT_THAT(*stops_of_hugging_face(R"({"eos_token_id": 2})"), ::testing::ElementsAre(2));
  EXPECT_THAT(*stops_of_hugging_face("{}"), ::testing::IsEmpty());
  EXPECT_FALSE(stops_of_hugging_face(R"({"eos_token_id": "2"})").ok());
  EXPECT_FALSE(stops_of_hugging_face(R"({"eos_token_id": [-1]})").ok());
  EXPECT_EQ(chat_template_of_hugging_face(Json{{"chat_template", "{{ x }}"}}), "{{ x }}");
  EXPECT_EQ(chat_template_of_hugging_face(Json::parse(R"({"chat_template": [{"name": "tool_use", "template": "t"},
                                                         {"name": "default", "template": "d"}]})")),
            "d");
  EXPECT_EQ(chat_template_of_hugging_face(Json::object()), "");
  EXPECT_EQ(chat_template_of_hugging_face(Json()), "") << "no such file";
  EXPECT_THAT(*weight_map_of_hugging_face(R"({"weight_map": {"a": "1.safetensors"}})"),
              ::testing::ElementsAre(::testing::Pair("a", "1.safetensors")));
  for (const char* outside : {"../a.safetensors", "/etc/passwd", "", ".", "a/b"})
    EXPECT_FALSE(weight_map_of_hugging_face(Json{{"weight_map", {{"a", outside}}}}.dump()).ok()) << outside;
}

class ModelFilesCheckpoint : public ModelFolder {};

TEST_F(ModelFilesCheckpoint, Refusals) {
  const synthetic::SyntheticModel m = *synthetic::synthetic_model("tiny");
  const auto refused = [&](Code code, const std::string& what) {
    const Result<ModelFile> model = open_model(file("c"));
    ASSERT_FALSE(model.ok()) << what;
    EXPECT_THAT(model.status().message(), HasSubstr(what));
    EXPECT_THAT(model.status().message(), ::testing::StartsWith(file("c") + ": "));
    EXPECT_EQ(model.status().code(), code) << model.status().message();
  };
  std::filesystem::create_directories(file("c"));
  refused(Code::kNotFound, "config.json: cannot open the file");
  put("c/config.json", hugging_face_config(m));
  refused(Code::kNotFound, "no .safetensors file in the folder");
  put_checkpoint(m, "c", 2);
  std::filesystem::remove(file("c/model-00002-of-00002.safetensors"));
  refused(Code::kNotFound, "model-00002-of-00002.safetensors: cannot open");
  std::filesystem::remove(file("c/model.safetensors.index.json"));
  refused(Code::kInvalidArgument, "is missing");
  put_checkpoint(m, "c", 2);
  std::filesystem::remove(file("c/model.safetensors.index.json"));
  refused(Code::kInvalidArgument, "2 .safetensors files and no model.safetensors.index.json");
  put("c/model.safetensors.index.json",
      R"({"weight_map": {"model.norm.weight": "model-00001-of-00002.safetensors",
                         "lm_head.weight": "model-00002-of-00002.safetensors",
                         "model.embed_tokens.weight": "model-00002-of-00002.safetensors"}})");
  refused(Code::kDataLoss, "tensor \"lm_head.weight\" is in model-00001-of-00002.safetensors, the index says");
  std::filesystem::copy_file(file("c/model-00001-of-00002.safetensors"), file("c/model-00002-of-00002.safetensors"),
                             std::filesystem::copy_options::overwrite_existing);
  put("c/model.safetensors.index.json", safetensors_index(m, 2));
  refused(Code::kDataLoss, "is in model-00001-of-00002.safetensors and in model-00002-of-00002.safetensors");
}

TEST_F(ModelFilesCheckpoint, WhatFollowsFromTheConfigIsIgnored) {
  synthetic::SyntheticModel m = *synthetic::synthetic_model("tiny");
  m.config.tied_embeddings = false;
  put_checkpoint(m, "c");
  m.config.tied_embeddings = true;
  put("c/config.json", hugging_face_config(m));
  const Result<ModelFile> model = open_model(file("c"));
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_FALSE(model->weights.output.present()) << "lm_head.weight of tied embeddings is a copy";
}

TEST_F(ModelFilesCheckpoint, ItsTokenizer) {
  const synthetic::SyntheticModel m = *synthetic::synthetic_model("tiny");
  put_checkpoint(m, "c");
  EXPECT_FALSE(open_model(file("c"))->vocabulary.has_value());
  put("c/chat_template.jinja", "{{ turns }}");
  put("c/tokenizer_config.json", "[]");
  EXPECT_THAT(open_vocabulary(file("c")).status().message(), HasSubstr("no tokenizer.json in the folder"));
  EXPECT_TRUE(open_model(file("c")).ok()) << "nothing is asked of its tokenizer_config.json";
  std::filesystem::remove(file("c/chat_template.jinja"));
  put("c/tokenizer.json", R"({"added_tokens": [{"id": 3, "content": "<|eot_id|>", "special": true},
    {"id": 4, "content": "<end>", "special": true}, {"id": 5, "content": "<stop>", "special": true}],
    "normalizer": null, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})");
  put("c/tokenizer_config.json", R"({"eos_token": "<end>", "chat_template": "{{ messages }}"})");
  put("c/generation_config.json", R"({"eos_token_id": [5, 4, 600]})");
  const Result<ModelFile> model = open_model(file("c"));
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  ASSERT_TRUE(model->vocabulary.has_value());
  EXPECT_EQ(model->vocabulary->tokens.size(), 6u);
  EXPECT_EQ(model->vocabulary->eos, 4);
  EXPECT_THAT(model->vocabulary->end_of_generation, ::testing::ElementsAre(4, 5, 3)) << "eos, the list, known texts";
  EXPECT_EQ(model->chat_template, "{{ messages }}");
  put("c/chat_template.jinja", "{{ turns }}");
  EXPECT_EQ(open_model(file("c"))->chat_template, "{{ turns }}") << "the one of its own file";
  put("c/chat_template.jinja", std::string((1 << 20) + 1, ' '));
  EXPECT_THAT(open_model(file("c")).status().message(), HasSubstr("chat_template.jinja: 1048577 bytes"));
  std::filesystem::remove(file("c/chat_template.jinja"));
  EXPECT_EQ(open_vocabulary(file("c/tokenizer.json"))->end_of_generation.size(), 3u);
  put("m.gguf", gguf_of(m));
  EXPECT_EQ(open_model(file("m.gguf"), {.tokenizer = file("c")})->vocabulary->tokens.size(), 6u);
  put("c/tokenizer.json", R"({"model": {"type": "WordPiece"}})");
  const std::string wrong = file("c") + ": tokenizer.json: a model WordPiece is not known, only BPE is";
  EXPECT_EQ(open_model(file("c")).status().message(), wrong) << "each file is named once";
  EXPECT_EQ(open_vocabulary(file("c")).status().message(), wrong);
  EXPECT_EQ(open_vocabulary(file("c/tokenizer.json")).status().message(), wrong);
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  for (const auto& [text, reason] : {std::pair<std::string, const char*>{"[]", "not a JSON object"},
                                     {"{\"bos_token\":" + deep + "}", "JSON nested more than 16 deep"}}) {
    put("c/tokenizer_config.json", text);
    const std::string damaged = file("c") + ": tokenizer_config.json: " + reason;
    EXPECT_EQ(open_vocabulary(file("c/tokenizer.json")).status().message(), damaged);
    EXPECT_EQ(open_model(file("c")).status().message(), damaged) << "for its template";
    put("c/chat_template.jinja", "{{ turns }}");
    EXPECT_EQ(open_model(file("c")).status().message(), damaged) << "for its vocabulary";
    std::filesystem::remove(file("c/chat_template.jinja"));
  }
  std::filesystem::remove(file("c/tokenizer_config.json"));
  for (const auto& [text, reason] : {std::pair{"[]", "not a JSON object"}, {"", "not JSON, or cut off"}}) {
    const std::string damaged = ": " + std::string(reason);
    const Status in_folder = open_vocabulary(put("c/tokenizer.json", text)).status();
    EXPECT_EQ(in_folder.message(), file("c") + ": tokenizer.json" + damaged);
    EXPECT_EQ(in_folder.code(), Code::kDataLoss);
    EXPECT_EQ(open_vocabulary(put("other.json", text)).status().message(), file("other.json") + damaged);
  }
  EXPECT_TRUE(open_vocabulary(put("gguf.json", gguf_of(m))).ok()) << "contents come before the name";
  EXPECT_EQ(open_vocabulary(put("other.json", R"({"model": {"type": "WordPiece"}})")).status().message(),
            file("other.json") + ": a model WordPiece is not known, only BPE is");
}

}  // namespace
}  // namespace hone::model
