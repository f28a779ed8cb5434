// One synthetic model in every format is one model. The writers have tables of names and orders of their own, and the
// order of rows for RoPE is undone here by its definition.
#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "engine/base/random.h"
#include "engine/model/files/identity_internal.h"
#include "engine/model/tokenizer/tokenizer.h"
#include "tests/engine/model/files/files_testing.h"
#include "tools/synthetic/vocabulary.h"

namespace hone::model {
namespace {

using ::testing::HasSubstr;
using L = LayerWeights;

struct Named {
  Weight L::*weight;
  bool turned;  // its rows are in RoPE's order
};
constexpr Named kRoles[] = {
    {&L::attention_norm, false}, {&L::q, true},        {&L::k, true},         {&L::v, false},      {&L::q_bias, true},
    {&L::k_bias, true},          {&L::v_bias, false},  {&L::q_norm, false},   {&L::k_norm, false}, {&L::o, false},
    {&L::o_bias, false},         {&L::ff_norm, false}, {&L::gate, false},     {&L::up, false},     {&L::down, false},
    {&L::gate_bias, false},      {&L::up_bias, false}, {&L::down_bias, false}};

// Rows as RoPE in halves has them, of rows as RoPE of neighbours has them: pair j is rows 2j, 2j + 1 there, and
// j, j + d/2 here.
std::vector<float> in_halves(const Weight& w, int64_t head_dim) {
  const std::vector<float> all = values(w);
  const size_t columns = w.shape.size() == 1 ? 1 : static_cast<size_t>(w.shape[1]);
  std::vector<float> out(all.size());
  for (int64_t row = 0; row < w.shape[0]; ++row) {
    const int64_t head = row / head_dim, pair = row % head_dim / 2, second = row % 2;
    const int64_t to = head * head_dim + pair + second * head_dim / 2;
    std::copy_n(all.begin() + row * static_cast<int64_t>(columns), columns,
                out.begin() + to * static_cast<int64_t>(columns));
  }
  return out;
}

void expect_same_weights(const ModelFile& a, const ModelFile& b) {
  EXPECT_EQ(values(a.weights.embedding), values(b.weights.embedding));
  EXPECT_EQ(values(a.weights.output_norm), values(b.weights.output_norm));
  EXPECT_EQ(values(a.weights.output), values(b.weights.output));
  ASSERT_EQ(a.weights.layers.size(), b.weights.layers.size());
  for (size_t i = 0; i < a.weights.layers.size(); ++i)
    for (const Named& role : kRoles) {
      const Weight &wa = a.weights.layers[i].*role.weight, &wb = b.weights.layers[i].*role.weight;
      ASSERT_EQ(wa.shape, wb.shape);
      if (!wa.present()) continue;
      const auto in_order = [&](const ModelFile& m, const Weight& w) {
        const bool neighbours = role.turned && m.config.rope_style == RopeStyle::kInterleaved;
        return neighbours ? in_halves(w, m.config.head_dim) : values(w);
      };
      EXPECT_EQ(in_order(a, wa), in_order(b, wb)) << wa.name << ", " << wb.name;
    }
}

void expect_same_config(const DecoderConfig& a, const DecoderConfig& b) {
  const auto sizes = [](const DecoderConfig& c) {
    return std::vector{c.layers, c.width,      c.heads,   c.kv_heads, c.head_dim,
                       c.ff,     c.vocabulary, c.context, c.window,   c.rope_dims};
  };
  EXPECT_EQ(a.architecture, b.architecture);
  EXPECT_EQ(sizes(a), sizes(b));
  EXPECT_NEAR(a.norm_eps, b.norm_eps, 1e-12);  // GGUF has f32
  EXPECT_NEAR(a.rope_theta, b.rope_theta, 1e-3);
  EXPECT_EQ(a.sliding, b.sliding);
  EXPECT_EQ(a.qkv_bias, b.qkv_bias);
  EXPECT_EQ(a.o_bias, b.o_bias);
  EXPECT_EQ(a.mlp_bias, b.mlp_bias);
  EXPECT_EQ(a.qk_norm, b.qk_norm);
  EXPECT_EQ(a.tied_embeddings, b.tied_embeddings);
}

synthetic::SyntheticModel random_model(Random& random) {
  synthetic::SyntheticModel m;
  DecoderConfig& c = m.config;
  c.architecture = random.one_of<const char*>({"llama", "mistral", "qwen2", "qwen3"});
  const bool qwen = c.architecture.starts_with("qwen");
  c.rope_style = qwen ? RopeStyle::kHalf : RopeStyle::kInterleaved;
  c.layers = random.between(1, 3);
  c.kv_heads = random.between(1, 3);
  c.heads = c.kv_heads * random.between(1, 3);
  c.head_dim = c.rope_dims = 2 * random.between(1, 6);
  c.width = random.chance(50) ? c.heads * c.head_dim : random.between(1, 40);
  c.ff = random.between(1, 50);
  c.vocabulary = random.between(300, 400);
  c.context = random.between(1, 100);
  c.tied_embeddings = random.chance(50);
  const bool may_have_bias = c.architecture == "llama" || c.architecture == "qwen3";
  c.o_bias = may_have_bias && random.chance(50);
  c.qkv_bias = c.architecture == "qwen2" || c.o_bias;
  c.mlp_bias = c.architecture == "llama" && random.chance(50);
  c.qk_norm = c.architecture == "qwen3";
  c.window = c.architecture == "llama" || random.chance(50) ? 0 : random.between(1, 50);
  if (c.window > 0 && c.layers > 1 && random.chance(50))
    for (int64_t i = 0; i < c.layers; ++i) c.sliding.push_back((i + c.layers) % 2 == 0);
  c.rope_theta = random.chance(50) ? 10000 : 1e6;
  m.dtype = random.one_of({DType::kF32, DType::kF16, DType::kBf16});
  m.seed = random.next();
  return m;
}

class ModelFilesFormats : public ModelFolder {};

TEST_F(ModelFilesFormats, GgufAndSafetensorsAreTheSameModel) {
  Random random(20261130);
  for (int i = 0; i < 40; ++i) {
    const synthetic::SyntheticModel m = random_model(random);
    SCOPED_TRACE(hugging_face_config(m));
    const Result<ModelFile> gguf = open_model(put("m.gguf", gguf_of(m)));
    ASSERT_TRUE(gguf.ok()) << gguf.status().to_string();
    std::filesystem::remove_all(file("checkpoint"));
    const Result<ModelFile> tensors =
        open_model(put_checkpoint(m, "checkpoint", static_cast<int>(random.between(1, 3))));
    ASSERT_TRUE(tensors.ok()) << tensors.status().to_string();
    EXPECT_EQ(tensors->format, "safetensors");
    EXPECT_EQ(tensors->config.rope_style, RopeStyle::kHalf);
    EXPECT_EQ(gguf->config.rope_style, m.config.rope_style);
    expect_same_config(gguf->config, m.config);
    expect_same_config(gguf->config, tensors->config);
    expect_same_weights(*gguf, *tensors);
    EXPECT_EQ(gguf->weights.embedding.dtype, m.dtype);
    EXPECT_EQ(tensors->weights.layers[0].attention_norm.dtype, m.dtype);
    EXPECT_EQ(gguf->weights.layers[0].attention_norm.dtype, DType::kF32);
  }
}

TEST_F(ModelFilesFormats, Llama2cIsTheSameModelAsGguf) {
  for (const bool tied : {false, true}) {
    synthetic::SyntheticModel m = *synthetic::synthetic_model("tiny");
    m.config.tied_embeddings = tied;
    const Result<ModelFile> gguf = open_model(put("m.gguf", gguf_of(m)));
    put("tok512.bin", synthetic::llama2c_tokenizer(*m.vocabulary));
    const Result<ModelFile> legacy =
        open_model(put("m.bin", written([&](const synthetic::Sink& sink) { return write_llama2c(m, sink); })));
    ASSERT_TRUE(gguf.ok()) << gguf.status().to_string();
    ASSERT_TRUE(legacy.ok()) << legacy.status().to_string();
    expect_same_config(gguf->config, legacy->config);
    expect_same_weights(*gguf, *legacy);
    EXPECT_EQ(gguf->weights.layers[1].q.shape, (std::vector<int64_t>{64, 64}));
    EXPECT_TRUE(same(gguf->weights.layers[1].q, legacy->weights.layers[1].q)) << "both are in the order of neighbours";
    ASSERT_TRUE(legacy->vocabulary.has_value() && gguf->vocabulary.has_value());
    for (size_t i = 0; i < 512; ++i) {
      EXPECT_EQ(gguf->vocabulary->tokens[i].text, legacy->vocabulary->tokens[i].text);
      EXPECT_EQ(gguf->vocabulary->tokens[i].kind, legacy->vocabulary->tokens[i].kind);
    }
  }
}

TEST_F(ModelFilesFormats, MadeUpVocabulariesAreTokenizers) {
  for (const synthetic::Geometry& geometry : synthetic::geometries()) {
    SCOPED_TRACE(geometry.name);
    const synthetic::SyntheticModel m = *synthetic::synthetic_model(geometry.name);
    EXPECT_EQ(static_cast<int64_t>(m.vocabulary->tokens.size()), m.config.vocabulary);
    const Result<Tokenizer> tokenizer = Tokenizer::create(*m.vocabulary);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().to_string();
    const Result<std::vector<int32_t>> ids = tokenizer->encode("the cat sat on the mat and then it sat there");
    ASSERT_TRUE(ids.ok()) << ids.status().to_string();
    EXPECT_LT(ids->size(), 40u) << "merges apply: 44 letters are fewer tokens";
  }
}

TEST_F(ModelFilesFormats, ScalingsOfRope) {
  const auto scaling_of = [&](const char* architecture, const RopeScaling& scaling) {
    synthetic::SyntheticModel m = *synthetic::synthetic_model("tiny");
    m.config.architecture = architecture;
    m.config.rope_scaling = scaling;
    const Result<ModelFile> gguf = open_model(put("m.gguf", gguf_of(m)));
    const Result<ModelFile> tensors = open_model(put_checkpoint(m, "checkpoint"));
    EXPECT_TRUE(gguf.ok()) << gguf.status().to_string();
    EXPECT_TRUE(tensors.ok()) << tensors.status().to_string();
    return std::pair(gguf->config, tensors->config);
  };
  const auto [linear_gguf, linear] = scaling_of("llama", {.kind = RopeScalingKind::kLinear, .factor = 4});
  EXPECT_EQ(linear.rope_scaling, (RopeScaling{.kind = RopeScalingKind::kLinear, .factor = 4}));
  EXPECT_EQ(linear_gguf.rope_scaling, linear.rope_scaling);

  const RopeScaling yarn{
      .kind = RopeScalingKind::kYarn, .factor = 8, .original_context = 128, .beta_fast = 16, .beta_slow = 2};
  const auto [yarn_gguf, yarn_json] = scaling_of("mistral", yarn);
  EXPECT_EQ(yarn_json.rope_scaling, yarn);
  EXPECT_EQ(yarn_gguf.rope_scaling, yarn);

  RopeScaling weighed = yarn;
  weighed.attention_factor = 1.5;
  const auto [weighed_gguf, weighed_json] = scaling_of("mistral", weighed);
  EXPECT_EQ(weighed_json.rope_scaling, weighed);
  EXPECT_NEAR(weighed_gguf.rope_scaling.attention_factor, 1.5, 1e-6);

  const RopeScaling llama3{.kind = RopeScalingKind::kLlama3,
                           .factor = 8,
                           .original_context = 64,
                           .low_freq_factor = 1,
                           .high_freq_factor = 4};
  const auto [llama3_gguf, llama3_json] = scaling_of("llama", llama3);
  EXPECT_EQ(llama3_json.rope_scaling, llama3);
  EXPECT_EQ(llama3_gguf.rope_scaling.kind, RopeScalingKind::kNone) << "GGUF has divisors instead";
  ASSERT_EQ(llama3_gguf.rope_factors.size(), 8u);
  EXPECT_EQ(llama3_gguf.rope_factors[0], 1) << "wavelength 6.3: below 64 / 4, stays";
  EXPECT_EQ(llama3_gguf.rope_factors[7], 8) << "wavelength 19869: beyond 64, divided";

  const RopeScaling dynamic{.kind = RopeScalingKind::kDynamic, .factor = 2, .original_context = 64};
  const auto [dynamic_gguf, dynamic_json] = scaling_of("llama", dynamic);
  EXPECT_EQ(dynamic_json.rope_scaling, dynamic);
  EXPECT_EQ(dynamic_json.context, 64);
  EXPECT_EQ(dynamic_gguf.rope_scaling.kind, RopeScalingKind::kNone) << "GGUF has no key for it";
}

TEST_F(ModelFilesFormats, OneFileOfACheckpointStandsForItsFolder) {
  const synthetic::SyntheticModel m = *synthetic::synthetic_model("tiny");
  const std::string folder = put_checkpoint(m, "checkpoint", 3);
  const Result<ModelFile> whole = open_model(folder);
  const Result<ModelFile> shard = open_model(folder + "/model-00002-of-00003.safetensors");
  ASSERT_TRUE(whole.ok()) << whole.status().to_string();
  ASSERT_TRUE(shard.ok()) << shard.status().to_string();
  expect_same_weights(*whole, *shard);
  EXPECT_EQ(whole->identity, shard->identity);
  EXPECT_EQ(whole->weight_bytes, shard->weight_bytes);
}

TEST_F(ModelFilesFormats, TensorsThatAreNotAlignedAreCopied) {
  synthetic::SyntheticModel m = *synthetic::synthetic_model("tiny");
  const std::string folder = put_checkpoint(m, "checkpoint");
  std::string bytes = written([&](const synthetic::Sink& sink) { return write_safetensors(m, 0, 1, sink); });
  uint64_t size = 0;
  std::memcpy(&size, bytes.data(), sizeof size);
  bytes.insert(8 + size, " ");
  ++size;
  std::memcpy(bytes.data(), &size, sizeof size);
  const Result<ModelFile> aligned = open_model(folder);
  std::filesystem::copy(folder, file("other"));
  put("other/model.safetensors", bytes);
  const Result<ModelFile> odd = open_model(file("other"));
  ASSERT_TRUE(aligned.ok() && odd.ok()) << odd.status().to_string();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(odd->weights.embedding.data.data()) % sizeof(float), 0u);
  expect_same_weights(*aligned, *odd);
}

TEST_F(ModelFilesFormats, IdentityIsThatOfTheContents) {
  synthetic::SyntheticModel m = *synthetic::synthetic_model("tiny");
  const std::string bytes = gguf_of(m);
  const std::string path = put("m.gguf", bytes);
  const auto time = std::filesystem::last_write_time(path);
  const std::string identity = open_model(path)->identity;
  EXPECT_EQ(identity.size(), 64u);
  m.seed = 2;
  put("m.gguf", gguf_of(m));
  std::filesystem::last_write_time(path, time);
  EXPECT_NE(open_model(path)->identity, identity);
  put("m.gguf", bytes);
  std::filesystem::last_write_time(path, time);
  EXPECT_NE(open_model(path)->identity, identity) << "it was written to, whatever its time says";
  EXPECT_EQ(open_model(path)->identity, open_model(path)->identity);
  std::filesystem::copy_file(path, file("copy.gguf"));
  EXPECT_NE(open_model(file("copy.gguf"))->identity, open_model(path)->identity);
}

// A byte that identity_of() does not read, and the time set back as tools do that restore files.
TEST_F(ModelFilesFormats, IdentityIsNotFooledByATimeThatIsSetBack) {
  const std::string path = put("large", std::string(4 << 20, 'x'));
  const auto time = std::filesystem::last_write_time(path);
  const auto identity = [&] { return identity_of("format", {MappedFile::open(path).value()}); };
  const std::string before = identity();
  EXPECT_EQ(identity(), before);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // times of change come in ticks of the kernel's clock
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp((1 << 20) + (20 << 10)).put('y');
  std::filesystem::last_write_time(path, time);
  ASSERT_EQ(std::filesystem::last_write_time(path), time);
  EXPECT_NE(identity(), before);
}

TEST_F(ModelFilesFormats, ADamagedTokenizerBesideAModelIsSaid) {
  const synthetic::SyntheticModel m = *synthetic::synthetic_model("tiny");
  const std::string path = put("m.bin", written([&](const synthetic::Sink& sink) { return write_llama2c(m, sink); }));
  EXPECT_FALSE(open_model(path)->vocabulary.has_value());
  const std::string good = synthetic::llama2c_tokenizer(*m.vocabulary);
  put("tokenizer.bin", good);
  EXPECT_TRUE(open_model(path)->vocabulary.has_value());
  put("tok512.bin", good.substr(0, good.size() - 1));
  const Result<ModelFile> damaged = open_model(path);
  ASSERT_FALSE(damaged.ok());
  EXPECT_EQ(damaged.status().code(), Code::kDataLoss);
  EXPECT_THAT(damaged.status().message(), HasSubstr(file("tok512.bin") + ": token 511 is cut off"));
  EXPECT_EQ(open_vocabulary(path).status().message(), damaged.status().message()) << "also alone";
  std::filesystem::remove(file("tok512.bin"));
  put("tokenizer.bin", good.substr(0, good.size() - 1));
  EXPECT_EQ(open_model(path).status().code(), Code::kDataLoss);
  // Whole, and another model's.
  put("tokenizer.bin", synthetic::llama2c_tokenizer(synthetic::made_up_vocabulary(TokenizerKind::kSentencePiece, 600)));
  const Result<ModelFile> alone = open_model(path);
  ASSERT_TRUE(alone.ok()) << alone.status().to_string();
  EXPECT_FALSE(alone->vocabulary.has_value());
}

TEST_F(ModelFilesFormats, AGivenTokenizerReplacesTheFilesOwn) {
  synthetic::SyntheticModel m = *synthetic::synthetic_model("tiny");
  const std::string path = put("m.gguf", gguf_of(m));
  m.vocabulary = synthetic::made_up_vocabulary(TokenizerKind::kByteLevel, 300, "gpt-2");
  const std::string other = put("other.gguf", gguf_of(m));
  const Result<ModelFile> model = open_model(path, {.tokenizer = other});
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_EQ(model->vocabulary->tokens.size(), 300u);
  EXPECT_EQ(model->vocabulary->kind, TokenizerKind::kByteLevel);
  m.vocabulary = synthetic::made_up_vocabulary(TokenizerKind::kByteLevel, 600, "gpt-2");
  const Result<ModelFile> large = open_model(path, {.tokenizer = put("large.gguf", gguf_of(m))});
  EXPECT_EQ(large.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(large.status().message(), HasSubstr("the tokenizer has 600 tokens, the model 512"));
  EXPECT_EQ(open_model(path, {.tokenizer = file("none.bin")}).status().code(), Code::kNotFound);
}

TEST_F(ModelFilesFormats, DamageOfAGivenTokenizerIsNoMisfit) {
  const std::string path = put("m.gguf", gguf_of(*synthetic::synthetic_model("tiny")));
  const std::string model = R"("model": {"type": "BPE", "vocab": {"a": 0}, "merges": []})";
  const std::string damaged =
      put("damaged.json", R"({"normalizer": {"type": "Sequence", "normalizers": 5}, )" + model + "}");
  const Status status = open_model(path, {.tokenizer = damaged}).status();
  EXPECT_EQ(status.code(), Code::kDataLoss);
  EXPECT_EQ(status.message(), damaged + ": a Sequence without normalizers");
  EXPECT_EQ(
      open_model(path, {.tokenizer = put("wordpiece.json", R"({"model": {"type": "WordPiece"}})")}).status().code(),
      Code::kUnsupported);
}

}  // namespace
}  // namespace hone::model
