// Files that are cut off, damaged or made to mislead: one line that says what is wrong, nothing read beyond the end.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "engine/base/guarded_buffer.h"
#include "engine/base/random.h"
#include "engine/model/files/formats_internal.h"
#include "engine/model/files/hugging_face_internal.h"
#include "tests/engine/model/files/files_testing.h"
#include "tools/synthetic/gguf_writer.h"
#include "tools/synthetic/vocabulary.h"

namespace hone::model {
namespace {

using synthetic::GgufWriter;
using ::testing::HasSubstr;
using ::testing::Not;

synthetic::SyntheticModel smallest(bool with_vocabulary) {
  synthetic::SyntheticModel m;
  DecoderConfig& c = m.config;
  c.architecture = "llama";
  c.name = "smallest";
  c.layers = 1, c.width = 4, c.heads = 2, c.kv_heads = 1, c.head_dim = c.rope_dims = 2, c.ff = 3, c.context = 8;
  c.vocabulary = with_vocabulary ? 354 : 8;
  c.rope_style = RopeStyle::kInterleaved;
  if (with_vocabulary) m.vocabulary = synthetic::made_up_vocabulary(TokenizerKind::kSentencePiece, 354);
  m.chat_template = "{{ messages }}";
  return m;
}

std::string legacy_of(const synthetic::SyntheticModel& m) {
  return written([&](const synthetic::Sink& sink) { return write_llama2c(m, sink); });
}
std::string tensors_of(const synthetic::SyntheticModel& m) {
  return written([&](const synthetic::Sink& sink) { return write_safetensors(m, 0, 1, sink); });
}

void expect_one_line(const Status& status) {
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), Not(HasSubstr("\n")));
  EXPECT_FALSE(status.message().empty());
}

// The spans lie in memory that can be read, and have the sizes that their shapes make.
void expect_sound(const Weight& w) {
  size_t bytes = static_cast<size_t>(dtype_bytes(w.dtype));
  for (const int64_t n : w.shape) bytes *= static_cast<size_t>(n);
  ASSERT_EQ(w.data.size(), bytes) << w.name;
  volatile std::byte touched = w.data.front();
  touched = w.data.back();
  (void)touched;
}

using Reader = Status (*)(std::span<const std::byte>);

Status read_gguf(std::span<const std::byte> bytes) {
  const Result<ModelFile> model = model_of_gguf(bytes);
  if (!model.ok()) return model.status();
  EXPECT_TRUE(validate(model->config).ok());
  expect_sound(model->weights.embedding);
  for (const LayerWeights& layer : model->weights.layers) expect_sound(layer.down);
  return {};
}
Status read_safetensors(std::span<const std::byte> bytes) {
  const Result<std::vector<Weight>> tensors = tensors_of_safetensors(bytes);
  if (!tensors.ok()) return tensors.status();
  for (const Weight& w : *tensors) expect_sound(w);
  return {};
}
Status read_llama2c(std::span<const std::byte> bytes) {
  const Result<ModelFile> model = model_of_llama2c(bytes);
  if (!model.ok()) return model.status();
  expect_sound(model->weights.embedding);
  expect_sound(model->weights.layers.back().up);
  return {};
}
Status read_tokenizer(std::span<const std::byte> bytes) { return vocabulary_of_llama2c(bytes, 354).status(); }

struct Format {
  const char* name;
  Reader read;
  std::string bytes;
};
std::vector<Format> formats() {
  return {{"gguf", read_gguf, gguf_of(smallest(true))},
          {"gguf without tokenizer", read_gguf, gguf_of(smallest(false))},
          {"safetensors", read_safetensors, tensors_of(smallest(false))},
          {"llama2.c", read_llama2c, legacy_of(smallest(false))},
          {"tokenizer.bin", read_tokenizer, synthetic::llama2c_tokenizer(*smallest(true).vocabulary)}};
}

TEST(ModelFilesHostile, CutOffAnywhere) {
  for (const Format& format : formats()) {
    SCOPED_TRACE(format.name);
    const auto size = static_cast<int64_t>(format.bytes.size());
    Result<GuardedBuffer> guarded = GuardedBuffer::create(size);
    ASSERT_TRUE(guarded.ok());
    for (int64_t length = 0; length <= size; ++length) {
      // It ends where the guard page begins.
      std::byte* const begin = guarded->data() + (size - length);
      std::memcpy(begin, format.bytes.data(), static_cast<size_t>(length));
      const Status status = format.read({begin, static_cast<size_t>(length)});
      if (length == size) {
        EXPECT_TRUE(status.ok()) << status.to_string();
      } else {
        ASSERT_NO_FATAL_FAILURE(expect_one_line(status)) << length;
        ASSERT_EQ(status.code(), Code::kDataLoss) << length << ": " << status.message();
      }
    }
  }
}

TEST(ModelFilesHostile, DamagedAnywhere) {
  Random random(7);
  for (const Format& format : formats()) {
    SCOPED_TRACE(format.name);
    Result<GuardedBuffer> guarded = GuardedBuffer::create(static_cast<int64_t>(format.bytes.size()));
    ASSERT_TRUE(guarded.ok());
    const std::span<std::byte> bytes = guarded->as<std::byte>();
    std::memcpy(bytes.data(), format.bytes.data(), bytes.size());
    for (std::byte& byte : bytes) {
      const std::byte kept = byte;
      for (const int flip : {1 << random.below(8), 0xff, static_cast<int>(random.between(1, 255))}) {
        byte = kept ^ static_cast<std::byte>(flip);
        if (const Status status = format.read(bytes); !status.ok()) expect_one_line(status);
      }
      byte = kept;
    }
  }
}

// ---- GGUF ----

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

void expect_gguf(const std::string& bytes, Code code, const std::string& what) {
  const Result<ModelFile> model = model_of_gguf(bytes_of(bytes));
  ASSERT_FALSE(model.ok()) << what;
  EXPECT_THAT(model.status().message(), HasSubstr(what));
  EXPECT_EQ(model.status().code(), code) << model.status().message();
}

template <typename T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

TEST(ModelFilesHostile, GgufContainers) {
  const std::string good = gguf_of(smallest(false));
  const auto with = [&](size_t at, const std::string& bytes) {
    std::string changed = good;
    std::ranges::copy(bytes, changed.begin() + static_cast<ptrdiff_t>(at));
    return changed;
  };
  expect_gguf("", Code::kDataLoss, "the file ends in the header");
  expect_gguf(with(0, "GGML"), Code::kDataLoss, "does not begin with GGUF");
  expect_gguf(with(4, raw(uint32_t{1})), Code::kUnsupported, "GGUF version 1");
  expect_gguf(with(4, raw(uint32_t{4})), Code::kUnsupported, "GGUF version 4");
  expect_gguf(with(4, raw(uint32_t{3u << 24})), Code::kUnsupported, "big-endian");
  expect_gguf(with(8, raw(UINT64_MAX)), Code::kDataLoss, "tensors do not fit");
  expect_gguf(with(16, raw(UINT64_MAX)), Code::kDataLoss, "metadata pairs do not fit");
  expect_gguf(with(24, raw(UINT64_MAX)), Code::kDataLoss, "the key of metadata pair 1");
  EXPECT_TRUE(model_of_gguf(bytes_of(with(4, raw(uint32_t{2})))).ok()) << "version 2 is laid out as 3 is";
  EXPECT_EQ(model_of_gguf(bytes_of(with(4, raw(uint32_t{2}))))->format, "GGUF v2");

  const auto metadata = [](const std::function<void(GgufWriter&)>& fill) {
    GgufWriter w;
    fill(w);
    return w.header();
  };
  const auto twice = [](GgufWriter& w) { w.u32("a", 1), w.u32("a", 1); };
  expect_gguf(metadata(twice), Code::kDataLoss, "metadata \"a\" is there twice");
  const auto pair = [&](uint32_t type, const std::string& value) {
    return metadata([&](GgufWriter& w) { w.raw("a", type, value); });
  };
  expect_gguf(pair(13, raw(uint64_t{0})), Code::kDataLoss, "type 13 is none of GGUF's");
  expect_gguf(pair(9, raw(uint32_t{9}) + raw(uint64_t{1})), Code::kUnsupported, "an array of arrays");
  expect_gguf(pair(9, raw(uint32_t{10}) + raw(UINT64_MAX)), Code::kDataLoss,
              "metadata \"a\": the file ends in its value");
  expect_gguf(pair(9, raw(uint32_t{10}) + raw(uint64_t{1} << 61)), Code::kDataLoss, "the file ends in its value");
  expect_gguf(pair(9, raw(uint32_t{8}) + raw(UINT64_MAX)), Code::kDataLoss, "the file ends in its string");
  expect_gguf(pair(8, raw(UINT64_MAX)), Code::kDataLoss, "the file ends in its string");
  for (const uint32_t alignment : {0u, 4u, 24u, 1u << 31})
    expect_gguf(metadata([&](GgufWriter& w) { w.u32("general.alignment", alignment); }), Code::kDataLoss,
                "\"general.alignment\"");
}

TEST(ModelFilesHostile, GgufTensors) {
  struct Case {
    std::vector<uint64_t> sizes;
    uint32_t type;
    uint64_t offset;
    Code code;
    const char* what;
  };
  const uint64_t huge = uint64_t{1} << 32;
  const Case cases[] = {
      {{}, 0, 0, Code::kDataLoss, "tensor \"t\": rank 0"},
      {{1, 1, 1, 1, 1}, 0, 0, Code::kDataLoss, "rank 5"},
      {{0}, 0, 0, Code::kDataLoss, "dimension 1 of size 0"},
      {{huge, huge}, 0, 0, Code::kDataLoss, "dimension 1 of size 4294967296 does not fit"},
      {{16, huge << 28}, 0, 0, Code::kDataLoss, "dimension 2 of size"},
      {{UINT64_MAX}, 0, 0, Code::kDataLoss, "does not fit into the file"},
      {{32}, 2, 0, Code::kUnsupported, "tensor \"t\": element type Q4_0; F32, F16 and BF16 are read"},
      {{32}, 14, 0, Code::kUnsupported, "element type Q6_K"},
      {{32}, 77, 0, Code::kUnsupported, "element type number 77"},
      {{4}, 0, 8, Code::kDataLoss, "offset 8 is not a multiple of the alignment 32"},
      {{4}, 0, 96, Code::kDataLoss, "16 bytes at offset 96 are outside the file's 96 bytes of data"},
      {{4}, 0, UINT64_MAX - 31, Code::kDataLoss, "are outside the file's"},
      {{17}, 0, 32, Code::kDataLoss, "68 bytes at offset 32 are outside"},
  };
  for (const Case& c : cases) {
    GgufWriter w;
    w.raw_tensor("t", c.sizes, c.type, c.offset);
    expect_gguf(w.header() + std::string(96, 'x'), c.code, c.what);
  }
  GgufWriter twice;
  twice.raw_tensor("t", {4}, 0, 0);
  twice.raw_tensor("t", {4}, 0, 32);
  expect_gguf(twice.header() + std::string(96, 'x'), Code::kDataLoss, "tensor \"t\" is there twice");
  GgufWriter overlap;
  overlap.raw_tensor("b", {4}, 0, 32);
  overlap.raw_tensor("a", {9}, 0, 0);
  expect_gguf(overlap.header() + std::string(96, 'x'), Code::kDataLoss, "tensors \"a\" and \"b\" overlap");
}

// What is said of a geometry, one line each on top of a good one.
TEST(ModelFilesHostile, GgufGeometries) {
  const auto geometry = [](const std::function<void(synthetic::SyntheticModel&)>& change) {
    synthetic::SyntheticModel m = smallest(false);
    change(m);
    return gguf_of(m);
  };
  const auto change = [&](auto field, int64_t value, const char* what) {
    expect_gguf(geometry([&](synthetic::SyntheticModel& m) { m.config.*field = value; }), Code::kInvalidArgument, what);
  };
  change(&DecoderConfig::context, 0, "context is 0");
  change(&DecoderConfig::rope_dims, 1, "rope_dims is 1, it must be even");
  change(&DecoderConfig::rope_dims, 4, "rope_dims is 4, it must be 1 to 2");
  expect_gguf(geometry([](auto& m) { m.config.norm_eps = 0; }), Code::kInvalidArgument, "layer_norm_rms_epsilon");
  expect_gguf(geometry([](auto& m) { m.config.norm_eps = NAN; }), Code::kInvalidArgument, "norm_eps is nan");
  expect_gguf(geometry([](auto& m) { m.config.rope_theta = -1; }), Code::kInvalidArgument, "rope_theta is -1");
  expect_gguf(geometry([](auto& m) { m.config.heads = 3, m.config.kv_heads = 2; }), Code::kInvalidArgument,
              "heads (3) must be a multiple of kv_heads (2)");
  expect_gguf(geometry([](auto& m) { m.config.architecture = "gemma2"; }), Code::kUnsupported,
              "architecture \"gemma2\"");
  expect_gguf(geometry([](auto& m) { m.config.architecture = "qwen2"; }), Code::kInvalidArgument,
              "tensor \"blk.0.attn_q.bias\" is missing");
  expect_gguf(geometry([](auto& m) { m.config.architecture = "qwen3"; }), Code::kInvalidArgument,
              "tensor \"blk.0.attn_q_norm.weight\" is missing");
  expect_gguf(geometry([](auto& m) { m.config.qk_norm = true; }), Code::kUnsupported,
              "tensor \"blk.0.attn_k_norm.weight\" has no place");
  expect_gguf(geometry([](auto& m) { m.config.rope_factors = {1, 2}; }), Code::kInvalidArgument, "2 rope_factors");
  expect_gguf(geometry([](auto& m) { m.config.rope_factors = {0}; }), Code::kInvalidArgument, "rope_factors is 0");
  using Scaling = RopeScaling;
  expect_gguf(
      geometry([](auto& m) { m.config.rope_scaling = Scaling{.kind = RopeScalingKind::kLinear, .factor = -2}; }),
      Code::kInvalidArgument, "rope_scaling.factor is -2");
}

// Pairs and tensors that a good file of the same name would not have. The good one's header is written again with more
// in it, and its data put behind.
TEST(ModelFilesHostile, GgufThatIsNoLlamaDecoder) {
  const auto refused = [](const std::function<void(GgufWriter&)>& more, Code code, const char* what) {
    GgufWriter w;
    w.text("general.architecture", "llama");
    more(w);
    expect_gguf(w.header(), code, what);
  };
  const auto key = [](const char* name, uint32_t value) { return [=](GgufWriter& w) { w.u32(name, value); }; };
  const auto real = [](const char* name, float value) { return [=](GgufWriter& w) { w.f32(name, value); }; };
  refused(key("llama.expert_count", 8), Code::kUnsupported, "metadata \"llama.expert_count\" is 8");
  refused(real("llama.logit_scale", 0.5), Code::kUnsupported, "llama.logit_scale");
  refused(real("llama.attn_logit_softcapping", 50), Code::kUnsupported, "softcapping");
  refused([](GgufWriter& w) { w.flag("llama.attention.causal", false); }, Code::kUnsupported, "not causal");
  refused([](GgufWriter& w) { w.text("general.type", "adapter"); }, Code::kUnsupported, "type \"adapter\"");
  refused(key("llama.expert_count", 0), Code::kInvalidArgument, "\"llama.block_count\" is missing");
  refused([](GgufWriter& w) { w.text("llama.block_count", "many"); }, Code::kInvalidArgument,
          "metadata \"llama.block_count\" is not an integer");
  refused([](GgufWriter& w) { w.i32s("llama.block_count", {1, 2}); }, Code::kUnsupported, "differs between layers");
  refused([](GgufWriter& w) { w.raw("llama.block_count", 10, raw(UINT64_MAX)); }, Code::kInvalidArgument,
          "not an integer");

  const auto scaling = [&](const std::function<void(GgufWriter&)>& more, const char* what) {
    refused(
        [&](GgufWriter& w) {
          for (const char* name :
               {"block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count"})
            w.u32(std::string("llama.") + name, 2);
          w.f32("llama.attention.layer_norm_rms_epsilon", 1e-5F);
          more(w);
        },
        Code::kUnsupported, what);
  };
  scaling([](GgufWriter& w) { w.text("llama.rope.scaling.type", "longrope"); }, "is \"longrope\"");
  scaling([](GgufWriter& w) { w.u32("llama.attention.sliding_window", 4), w.f32("llama.rope.freq_base_swa", 1e6F); },
          "\"llama.rope.freq_base_swa\": RoPE that differs between layers");
  scaling([](GgufWriter& w) { w.f32("llama.rope.scaling.attn_factor", 2); }, "attn_factor\" without yarn");
  scaling(
      [](GgufWriter& w) {
        w.text("llama.rope.scaling.type", "yarn");
        w.f32("llama.rope.scaling.yarn_ext_factor", 0.5);
      },
      "yarn_ext_factor\" is 0.5");
}

TEST(ModelFilesHostile, GgufVocabularies) {
  const auto refused = [](const std::function<void(GgufWriter&)>& fill, const char* what) {
    GgufWriter w;
    fill(w);
    const std::string bytes = w.header();
    const Result<GgufFile> file = GgufFile::parse(bytes_of(bytes));
    ASSERT_TRUE(file.ok());
    const auto vocabulary = vocabulary_of_gguf(*file);
    ASSERT_FALSE(vocabulary.ok()) << what;
    EXPECT_THAT(vocabulary.status().message(), HasSubstr(what));
  };
  const auto pieces = [](GgufWriter& w) {
    w.text("tokenizer.ggml.model", "llama");
    w.texts("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "a"});
  };
  refused([](GgufWriter& w) { w.text("tokenizer.ggml.model", "bert"); }, "tokenizer \"bert\"");
  refused([](GgufWriter& w) { w.text("tokenizer.ggml.model", "llama"); }, "\"tokenizer.ggml.tokens\" is missing");
  refused([](GgufWriter& w) { w.text("tokenizer.ggml.model", "gpt2"); }, "\"tokenizer.ggml.merges\" is missing");
  refused([&](GgufWriter& w) { pieces(w), w.f32s("tokenizer.ggml.scores", {1, 2}); }, "4 tokens, but 2 of");
  refused([&](GgufWriter& w) { pieces(w), w.i32s("tokenizer.ggml.token_type", {1}); }, "4 tokens, but 1 of");
  refused(
      [&](GgufWriter& w) {
        pieces(w), w.i32s("tokenizer.ggml.token_type", {1, 1, 1, 7});
      },
      "token 3 has the type 7");
  refused([&](GgufWriter& w) { pieces(w), w.u32("tokenizer.ggml.bos_token_id", 4); }, "is 4, there are 4 tokens");
  refused([&](GgufWriter& w) { pieces(w), w.i32s("tokenizer.ggml.scores", {1, 1, 1, 1}); }, "not an array of f32");
  refused([&](GgufWriter& w) { pieces(w), w.u32("tokenizer.ggml.add_bos_token", 1); }, "not a truth value");
}

TEST(ModelFilesHostile, GgufDefaultsAndEndsOfGeneration) {
  GgufWriter w;
  w.text("tokenizer.ggml.model", "gpt2");
  w.text("tokenizer.ggml.pre", "llama-bpe");
  w.texts("tokenizer.ggml.tokens", {"a", "b", "ab", "<|begin_of_text|>", "<|eot_id|>", "<|end_of_text|>"});
  w.texts("tokenizer.ggml.merges", {"a b"});
  w.u32("tokenizer.ggml.eos_token_id", 5);
  const std::string bytes = w.header();
  const Result<GgufFile> file = GgufFile::parse(bytes_of(bytes));
  ASSERT_TRUE(file.ok());
  const auto v = vocabulary_of_gguf(*file);
  ASSERT_TRUE(v.ok()) << v.status().to_string();
  const Vocabulary& vocabulary = **v;
  EXPECT_EQ(vocabulary.bos, -1);
  EXPECT_EQ(vocabulary.unknown, -1);
  EXPECT_TRUE(vocabulary.add_bos);
  EXPECT_EQ(vocabulary.end_of_generation, (std::vector<int32_t>{5, 4}));
  EXPECT_EQ(vocabulary.tokens[4].kind, TokenKind::kControl);
  EXPECT_EQ(vocabulary.tokens[3].kind, TokenKind::kNormal);
}

TEST(ModelFilesHostile, GgufEndsByTextUnlessTheyAreText) {
  const auto ends = [](const char* model, const std::vector<std::string>& texts, const std::vector<int32_t>& kinds) {
    GgufWriter w;
    w.text("tokenizer.ggml.model", model);
    w.texts("tokenizer.ggml.tokens", texts);
    w.i32s("tokenizer.ggml.token_type", kinds);
    w.texts("tokenizer.ggml.merges", {});
    w.i32s("tokenizer.ggml.eos_token_id", {0});
    w.u32("tokenizer.ggml.fim_pad_token_id", 1);
    const std::string bytes = w.header();
    const Result<GgufFile> file = GgufFile::parse(bytes_of(bytes));
    EXPECT_TRUE(file.ok());
    const auto v = vocabulary_of_gguf(*file);
    EXPECT_TRUE(v.ok()) << v.status().to_string();
    return (*v)->end_of_generation;
  };
  using Ids = std::vector<int32_t>;
  const std::vector<std::string> texts = {
      "a", "b", "</s>", "<EOT>", "<|im_end|>", "<|eom_id|>", "<|file_sep|>", "<end_of_turn>", "[EOT]"};
  EXPECT_EQ(ends("gpt2", texts, {1, 1, 1, 1, 1, 3, 4, 3, 4}), (Ids{0, 1, 4, 5, 6, 7, 8}))
      << "</s> and <EOT> are made of bytes here";
  EXPECT_EQ(ends("gpt2", texts, {1, 1, 3, 4, 1, 3, 4, 3, 4}), (Ids{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(ends("llama", texts, {1, 1, 1, 1, 1, 1, 1, 1, 1}), (Ids{0, 1, 2, 3, 4, 5, 6, 7, 8}));
}

// As llama.cpp, which adds one for these names where the file does not say.
TEST(ModelFilesHostile, GgufBosByTheNameOfThePreTokenizer) {
  const auto adds_bos = [](const char* pre, std::optional<bool> said) {
    GgufWriter w;
    w.text("tokenizer.ggml.model", "gpt2");
    w.text("tokenizer.ggml.pre", pre);
    w.texts("tokenizer.ggml.tokens", {"a", "b", "ab", "<s>"});
    w.texts("tokenizer.ggml.merges", {"a b"});
    w.u32("tokenizer.ggml.bos_token_id", 3);
    if (said) w.flag("tokenizer.ggml.add_bos_token", *said);
    const std::string bytes = w.header();
    const Result<GgufFile> file = GgufFile::parse(bytes_of(bytes));
    EXPECT_TRUE(file.ok());
    const auto v = vocabulary_of_gguf(*file);
    EXPECT_TRUE(v.ok()) << v.status().to_string();
    return (*v)->add_bos;
  };
  for (const char* pre : {"llama3", "llama-v3", "llama-bpe", "falcon3", "pixtral", "tekken"}) {
    EXPECT_TRUE(adds_bos(pre, std::nullopt)) << pre;
    EXPECT_FALSE(adds_bos(pre, false)) << pre;
  }
  for (const char* pre :
       {"default", "gpt-2", "smaug-bpe", "qwen2", "deepseek-r1-qwen", "smollm", "deepseek-coder", "?"})
    EXPECT_FALSE(adds_bos(pre, std::nullopt)) << pre;
  EXPECT_TRUE(adds_bos("qwen2", true));
}

// ---- safetensors ----

TEST(ModelFilesHostile, SafetensorsHeaders) {
  const auto refused = [](const std::string& header, size_t data, Code code, const char* what) {
    const std::string bytes = raw(uint64_t{header.size()}) + header + std::string(data, 'x');
    const Result<std::vector<Weight>> tensors = tensors_of_safetensors(bytes_of(bytes));
    ASSERT_FALSE(tensors.ok()) << what;
    EXPECT_THAT(tensors.status().message(), HasSubstr(what));
    EXPECT_EQ(tensors.status().code(), code) << tensors.status().message();
  };
  const auto one = [](const std::string& fields) { return fmt::format("{{\"t\":{{{}}}}}", fields); };
  refused("", 0, Code::kDataLoss, "not JSON");
  refused("[]", 0, Code::kDataLoss, "not a JSON object");
  refused("{\"t\":1}", 0, Code::kDataLoss, "tensor \"t\": not an object");
  refused(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4]},"t":{"dtype":"F32","shape":[1],"data_offsets":[4,8])"),
          8, Code::kDataLoss, "\"t\" is there twice");
  refused(one(R"("dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4])"), 4, Code::kDataLoss, "twice");
  refused(one(R"("dtype":"I64","shape":[1],"data_offsets":[0,8])"), 8, Code::kUnsupported, "element type I64");
  refused(one(R"("shape":[1],"data_offsets":[0,8])"), 8, Code::kDataLoss, "it has no dtype");
  refused(one(R"("dtype":"F32","data_offsets":[0,8])"), 8, Code::kDataLoss, "it has no shape");
  refused(one(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), 4, Code::kDataLoss, "dimension 0");
  refused(one(R"("dtype":"F32","shape":[1.5],"data_offsets":[0,4])"), 4, Code::kDataLoss, "dimension 0");
  refused(one(R"("dtype":"F32","shape":[0],"data_offsets":[0,0])"), 0, Code::kDataLoss, "dimension 0");
  refused(one(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])"), 8, Code::kDataLoss,
          "dimension 0");
  refused(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), 4, Code::kDataLoss,
          "span 4 bytes, its shape takes 8");
  refused(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,8])"), 4, Code::kDataLoss, "not two places");
  refused(one(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), 4, Code::kDataLoss, "not two places");
  refused(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,8])"), 8, Code::kDataLoss, "not two places");
  refused(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551616])"), 4, Code::kDataLoss, "not two");
  refused(one(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"), 8, Code::kDataLoss,
          "begins at 4 of the data, where 0");
  refused(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), 8, Code::kDataLoss,
          "8 bytes of data, the tensors take 4");
  refused(
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
      12, Code::kDataLoss, "tensor \"b\" begins at 4 of the data, where 8 is free");
  refused(std::string(100'000, '['), 0, Code::kDataLoss, "not JSON");
  refused(fmt::format("{{\"t\":{:[>50000}{:]>50000}}}", "", ""), 0, Code::kUnsupported, "nested more than 16");
  refused(std::string((16 << 20) + 1, ' '), 0, Code::kUnsupported, "16777217 bytes of JSON, more than 16777216");
}

TEST(ModelFilesHostile, Llama2cGeometries) {
  const std::string good = legacy_of(smallest(false));
  const auto refused = [&](size_t field, int32_t value, const char* what) {
    std::string bytes = good;
    std::memcpy(bytes.data() + 4 * field, &value, sizeof value);
    const Result<ModelFile> model = model_of_llama2c(bytes_of(bytes));
    ASSERT_FALSE(model.ok());
    EXPECT_THAT(model.status().message(), HasSubstr(what));
  };
  refused(0, 0, "width is 0");
  refused(0, 0x616b3432, "version 3 of llama2.c's format");
  refused(0, 5, "dim (5) is not a multiple of n_heads (2)");
  refused(1, -1, "ff is -1");
  refused(2, INT32_MAX, "layers is 2147483647");
  refused(2, 2, "its geometry makes them");
  refused(3, 0, "n_heads (0)");
  refused(5, INT32_MIN, "vocabulary is 2147483648");
  refused(5, 8, "its geometry makes them");
  refused(6, INT32_MAX, "its geometry makes them");
}

}  // namespace
}  // namespace hone::model
