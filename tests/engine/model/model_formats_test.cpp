// One model in several formats and element types answers the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>

#include "engine/base/machine.h"
#include "engine/model/files/model_file.h"
#include "engine/model/mapped_weights.h"
#include "engine/model/packed_store.h"
#include "tests/engine/model/answers.h"
#include "tests/engine/model/shared_files.h"
#include "tools/synthetic/model.h"

namespace hone {
namespace {

using namespace model_testing;

class ModelFormats : public ::testing::Test {
 protected:
  ModelFormats() {
    folder = std::filesystem::path(::testing::TempDir()) / ("hone_formats_" + std::to_string(getpid()));
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder / "hf");
  }
  ~ModelFormats() override { std::filesystem::remove_all(folder); }

  std::string file(const std::string& name) const { return (folder / name).string(); }
  void put(const std::string& name, const std::string& content) const {
    std::ofstream(file(name), std::ios::binary) << content;
  }
  std::string written(const std::string& name, const std::function<Status(const synthetic::Sink&)>& write) const {
    std::ofstream out(file(name), std::ios::binary);
    const Status status = write([&](std::string_view bytes) {
      out << bytes;
      return Status();
    });
    EXPECT_TRUE(status.ok()) << status.message();
    return file(name);
  }

  std::filesystem::path folder;
};

// A safetensors file in the making: tensors by name, f32.
class Tensors {
 public:
  // `heads`: rows in RoPE's order of neighbours become the order of halves.
  void add(const std::string& name, const model::Weight& w, int64_t heads = 0) {
    const size_t rows = static_cast<size_t>(w.shape[0]), row = w.data.size() / rows;
    header_[name] = {
        {"dtype", "F32"}, {"shape", w.shape}, {"data_offsets", {data_.size(), data_.size() + w.data.size()}}};
    const size_t dim = heads == 0 ? rows : rows / static_cast<size_t>(heads);
    for (size_t r = 0; r < rows; ++r) {
      const size_t in_head = r % dim, from = heads == 0 ? in_head : in_head % (dim / 2) * 2 + in_head / (dim / 2);
      data_.append(reinterpret_cast<const char*>(w.data.data()) + (r - in_head + from) * row, row);
    }
  }
  std::string text() const {
    std::string header = header_.dump();
    header.resize((header.size() + 7) / 8 * 8, ' ');
    const uint64_t length = header.size();
    return std::string(reinterpret_cast<const char*>(&length), 8) + header + data_;
  }

 private:
  Json header_ = Json::object();
  std::string data_;
};

std::string as_safetensors(const model::ModelFile& m) {
  const model::DecoderWeights& w = m.weights;
  Tensors tensors;
  tensors.add("model.embed_tokens.weight", w.embedding);
  tensors.add("model.norm.weight", w.output_norm);
  for (size_t i = 0; i < w.layers.size(); ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    const model::LayerWeights& l = w.layers[i];
    tensors.add(layer + "input_layernorm.weight", l.attention_norm);
    tensors.add(layer + "self_attn.q_proj.weight", l.q, m.config.heads);
    tensors.add(layer + "self_attn.k_proj.weight", l.k, m.config.kv_heads);
    tensors.add(layer + "self_attn.v_proj.weight", l.v);
    tensors.add(layer + "self_attn.o_proj.weight", l.o);
    tensors.add(layer + "post_attention_layernorm.weight", l.ff_norm);
    tensors.add(layer + "mlp.gate_proj.weight", l.gate);
    tensors.add(layer + "mlp.up_proj.weight", l.up);
    tensors.add(layer + "mlp.down_proj.weight", l.down);
  }
  return tensors.text();
}

TEST_F(ModelFormats, StoriesAsSafetensors) {
  HONE_SHARED_FILE(path, "models/stories260K.gguf");
  HONE_SHARED_FILE(expected, "models/stories260K.expected.json");
  const Result<model::ModelFile> stories = model::open_model(path);
  ASSERT_TRUE(stories.ok()) << stories.status().message();
  put("hf/model.safetensors", as_safetensors(*stories));
  const model::DecoderConfig& c = stories->config;
  put("hf/config.json", Json{{"architectures", {"LlamaForCausalLM"}},
                             {"model_type", "llama"},
                             {"hidden_act", "silu"},
                             {"hidden_size", c.width},
                             {"intermediate_size", c.ff},
                             {"num_hidden_layers", c.layers},
                             {"num_attention_heads", c.heads},
                             {"num_key_value_heads", c.kv_heads},
                             {"rms_norm_eps", c.norm_eps},
                             {"rope_theta", c.rope_theta},
                             {"max_position_embeddings", c.context},
                             {"vocab_size", c.vocabulary},
                             {"tie_word_embeddings", true}}
                            .dump());
  const Result<Model> model = Model::load(default_engine(2), file("hf"), {.tokenizer = path, .weight_cache = false});
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->info().format, "safetensors");
  for (const Json& one : expected_cases(expected)) {
    const auto answer = greedy(*model, one["prompt_tokens"].get<std::vector<int32_t>>(), 200, 512);
    ASSERT_TRUE(answer.ok()) << answer.status().message();
    EXPECT_EQ(answer->tokens, one["greedy_tokens"].get<std::vector<int32_t>>());
    expect_top5(answer->first, one["top5_logits_after_prompt"]);
    expect_top5(answer->last, one["top5_logits_last"]);
  }
}

// llama2.c has f32 only: the same elements, widened in the file. Weights of 16 bits are to have the bits of these.
TEST_F(ModelFormats, WeightsOf16BitsHaveTheBitsOfTheirWidenedOnes) {
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    Result<synthetic::SyntheticModel> tiny = synthetic::synthetic_model("tiny");
    ASSERT_TRUE(tiny.ok()) << tiny.status().message();
    tiny->dtype = dtype;
    const std::string narrow =
        written("narrow.gguf", [&](const synthetic::Sink& sink) { return write_gguf(*tiny, sink); });
    const std::string wide =
        written("wide.bin", [&](const synthetic::Sink& sink) { return write_llama2c(*tiny, sink); });
    const Result<Model> a = Model::load(default_engine(2), narrow, {.weight_cache = false});
    const Result<Model> b = Model::load(default_engine(1), wide, {.tokenizer = narrow, .weight_cache = false});
    ASSERT_TRUE(a.ok() && b.ok()) << a.status().message() << b.status().message();
    EXPECT_EQ(a->info().weights, dtype_name(dtype));
    EXPECT_EQ(b->info().weights, "f32");
    const std::vector<int32_t> prompt = {1, 5, 9, 30, 31, 32, 7};
    const Result<Answer> x = greedy(*a, prompt, 12, 4), y = greedy(*b, prompt, 12, 7);
    ASSERT_TRUE(x.ok() && y.ok());
    EXPECT_EQ(x->tokens, y->tokens);
    EXPECT_EQ(x->first, y->first);
    EXPECT_EQ(x->last, y->last);
  }
}

// ---- numerics ----

class ModelNumerics : public ModelFormats {
 protected:
  std::string tiny(DType dtype) const {
    synthetic::SyntheticModel model = synthetic::synthetic_model("tiny").value();
    model.dtype = dtype;
    return written(std::string(dtype_name(dtype)) + ".gguf",
                   [&](const synthetic::Sink& sink) { return write_gguf(model, sink); });
  }
  static bool has_dots() {
    const Result<Machine> machine = detect_machine();
    return machine.ok() && machine->supports(Isa::kAvx512) && machine->features.has(Feature::kAvx512Bf16) &&
           !default_engine(1).info().codegens.empty();
  }
  const std::vector<int32_t> prompt_ = {1, 5, 9, 30, 31, 32, 7, 8, 2, 4, 100, 20, 21, 3};
};

// Class `bf16`: the bits do not depend on how the prompt is cut, on threads, or on plans that were tuned.
TEST_F(ModelNumerics, Bf16IsAClassOfItsOwn) {
  if (!has_dots()) GTEST_SKIP() << "this CPU has no AVX512_BF16, or nothing generates code for it";
  const std::string path = tiny(DType::kBf16);
  const Result<Model> ordered = Model::load(default_engine(1), path, {.weight_cache = false});
  const Result<Model> dots = Model::load(default_engine(1), path, {.weight_cache = false, .numerics = "bf16"});
  const Result<Model> any = Model::load(default_engine(2), path, {.weight_cache = false, .numerics = "any"});
  ASSERT_TRUE(ordered.ok() && dots.ok() && any.ok()) << dots.status().message() << any.status().message();
  EXPECT_EQ(ordered->info().numerics, "ordered");
  EXPECT_EQ(dots->info().numerics, "bf16");
  EXPECT_EQ(any->info().numerics, "bf16");
  EXPECT_NEAR(static_cast<double>(dots->info().packed_bytes), static_cast<double>(ordered->info().packed_bytes),
              0.05 * static_cast<double>(ordered->info().packed_bytes));
  const Result<Answer> want = greedy(*dots, prompt_, 12, prompt_.size()), other = greedy(*ordered, prompt_, 12, 4);
  ASSERT_TRUE(want.ok() && other.ok());
  EXPECT_NE(want->first, other->first);
  for (size_t i = 0; i < want->first.size(); ++i) ASSERT_NEAR(want->first[i], other->first[i], 0.5) << i;
  for (const Model& model : {*dots, *any}) {
    for (const size_t chunk : {1, 3, 8}) {
      const Result<Answer> cut = greedy(model, prompt_, 12, chunk);
      ASSERT_TRUE(cut.ok());
      EXPECT_EQ(cut->first, want->first) << chunk;
      EXPECT_EQ(cut->last, want->last) << chunk;
      EXPECT_EQ(cut->tokens, want->tokens) << chunk;
    }
  }
}

TEST_F(ModelNumerics, WhatItCannotBeIsRefused) {
  const auto message = [&](DType dtype, const char* numerics) {
    return Model::load(default_engine(1), tiny(dtype), {.weight_cache = false, .numerics = numerics})
        .status()
        .message();
  };
  EXPECT_THAT(message(DType::kF16, "bf16"), testing::HasSubstr("is for weights of bf16, these are f16"));
  EXPECT_THAT(message(DType::kBf16, "f8"), testing::HasSubstr("no numerics class 'f8'"));
  EXPECT_EQ(message(DType::kF16, "any"), "");
  ASSERT_EQ(setenv("HONE_CPU", "zen3", 1), 0);
  const Result<Engine> zen3 = Engine::create({.use_database = false, .threads = 1});
  const std::string path = tiny(DType::kBf16);
  if (zen3.ok()) {
    const Status refused = Model::load(*zen3, path, {.weight_cache = false, .numerics = "bf16"}).status();
    EXPECT_EQ(refused.code(), Code::kUnsupported);
    EXPECT_THAT(refused.message(), testing::HasSubstr("numerics 'bf16' needs generated code"));
    const Result<Model> any = Model::load(*zen3, path, {.weight_cache = false, .numerics = "any"});
    ASSERT_TRUE(any.ok()) << any.status().message();
    EXPECT_EQ(any->info().numerics, "ordered");
  }
  unsetenv("HONE_CPU");
}

// ---- what a load leaves, and lets go ----

TEST_F(ModelFormats, TheSecondLoadFindsWhatTheFirstOnePacked) {
  const Result<synthetic::SyntheticModel> tiny = synthetic::synthetic_model("tiny");
  ASSERT_TRUE(tiny.ok());
  const std::string path = written("tiny.gguf", [&](const synthetic::Sink& sink) { return write_gguf(*tiny, sink); });
  const char* const before = std::getenv("HONE_WEIGHTS");
  const std::string kept = before == nullptr ? "" : before;
  setenv("HONE_WEIGHTS", file("weights").c_str(), 1);
  // Files by name, with what they are: one that is packed again is another, while the one that it replaces is there.
  const auto kept_files = [&] {
    std::map<std::string, ino_t> files;
    std::error_code error;
    for (const auto& at : std::filesystem::recursive_directory_iterator(file("weights"), error)) {
      struct stat facts = {};
      if (at.is_regular_file() && stat(at.path().c_str(), &facts) == 0) files[at.path().string()] = facts.st_ino;
    }
    return files;
  };
  const auto answer = [&](bool cache) {
    const Result<Model> loaded = Model::load(default_engine(1), path, {.weight_cache = cache});
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    const Result<Answer> a = greedy(*loaded, std::vector<int32_t>{1, 2, 3}, 6, 8);
    EXPECT_TRUE(a.ok());
    return a->last;
  };
  const std::vector<float> want = answer(false);
  EXPECT_TRUE(kept_files().empty());
  EXPECT_EQ(answer(true), want);
  const std::map<std::string, ino_t> first = kept_files();
  EXPECT_GT(first.size(), 5u);
  EXPECT_GT(model::stored_models(model::store_place()).bytes(), 100'000);
  EXPECT_EQ(answer(true), want);
  EXPECT_EQ(kept_files(), first);
  if (before == nullptr)
    unsetenv("HONE_WEIGHTS");
  else
    setenv("HONE_WEIGHTS", kept.c_str(), 1);
}

TEST_F(ModelFormats, OnlyPagesOfTheFileAreLetGo) {
  const Result<synthetic::SyntheticModel> tiny = synthetic::synthetic_model("tiny");
  ASSERT_TRUE(tiny.ok());
  const auto opened =
      model::open_model(written("tiny.gguf", [&](const synthetic::Sink& sink) { return write_gguf(*tiny, sink); }));
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const model::MappedWeights mapped(opened->weights);
  const auto table = opened->weights.embedding.data;
  const std::vector<std::byte> copy(table.begin(), table.end());
  EXPECT_TRUE(mapped.release(table));
  EXPECT_TRUE(std::equal(table.begin(), table.end(), copy.begin(), copy.end())) << "it is read again";
  EXPECT_FALSE(mapped.release(copy));
  EXPECT_TRUE(std::equal(table.begin(), table.end(), copy.begin(), copy.end()));
  EXPECT_FALSE(mapped.release({table.data() - 8, table.size()}));
}

}  // namespace
}  // namespace hone
