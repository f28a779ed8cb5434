// Real files through open_model and open_vocabulary.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/model/files/files_testing.h"
#include "tests/engine/model/shared_files.h"

namespace hone::model {
namespace {

using ::testing::HasSubstr;

TEST(ModelFilesOpen, StoriesGeometryFromGguf) {
  HONE_SHARED_FILE(path, "models/stories260K.gguf");
  const Result<ModelFile> model = open_model(path);
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  const DecoderConfig& c = model->config;
  EXPECT_EQ(model->format, "GGUF v3");
  EXPECT_EQ(c.architecture, "llama");
  EXPECT_EQ(c.name, "stories260K");
  EXPECT_THAT(
      (std::vector{c.layers, c.width, c.ff, c.heads, c.kv_heads, c.head_dim, c.rope_dims, c.vocabulary, c.context}),
      ::testing::ElementsAre(5, 64, 172, 8, 4, 8, 8, 512, 512));
  EXPECT_EQ(c.rope_style, RopeStyle::kInterleaved);
  EXPECT_TRUE(c.tied_embeddings);
  EXPECT_FALSE(c.qkv_bias || c.qk_norm || model->weights.output.present());
  EXPECT_FLOAT_EQ(static_cast<float>(c.norm_eps), 1e-5F);
  EXPECT_EQ(model->weight_bytes, 260032 * 4);
  ASSERT_TRUE(model->vocabulary.has_value());
  EXPECT_EQ(model->vocabulary->end_of_generation, std::vector<int32_t>{2});
}

// Two conversions of one checkpoint.
TEST(ModelFilesOpen, StoriesAreTheSameInBothFormats) {
  HONE_SHARED_FILE(gguf_path, "models/stories260K.gguf");
  HONE_SHARED_FILE(bin_path, "models/stories260K.bin");
  const Result<ModelFile> gguf = open_model(gguf_path), bin = open_model(bin_path);
  ASSERT_TRUE(gguf.ok()) << gguf.status().to_string();
  ASSERT_TRUE(bin.ok()) << bin.status().to_string();
  EXPECT_EQ(bin->format, "llama2.c");
  EXPECT_TRUE(same(gguf->weights.embedding, bin->weights.embedding));
  EXPECT_TRUE(same(gguf->weights.output_norm, bin->weights.output_norm));
  ASSERT_EQ(gguf->weights.layers.size(), bin->weights.layers.size());
  using L = LayerWeights;
  for (size_t i = 0; i < gguf->weights.layers.size(); ++i)
    for (Weight L::*role : {&L::attention_norm, &L::q, &L::k, &L::v, &L::o, &L::ff_norm, &L::gate, &L::up, &L::down})
      EXPECT_TRUE(same(gguf->weights.layers[i].*role, bin->weights.layers[i].*role))
          << i << " " << (gguf->weights.layers[i].*role).name;
  ASSERT_TRUE(bin->vocabulary.has_value());
  const Vocabulary &a = *gguf->vocabulary, &b = *bin->vocabulary;
  ASSERT_EQ(a.tokens.size(), b.tokens.size());
  for (size_t i = 0; i < a.tokens.size(); ++i) {
    EXPECT_EQ(a.tokens[i].text, b.tokens[i].text) << i;
    EXPECT_EQ(a.tokens[i].score, b.tokens[i].score) << i;
    EXPECT_EQ(a.tokens[i].kind, b.tokens[i].kind) << i;
  }
  EXPECT_EQ(b.bos, a.bos);
  EXPECT_EQ(b.eos, a.eos);
  EXPECT_EQ(b.unknown, a.unknown);
  EXPECT_NE(gguf->identity, bin->identity);
  EXPECT_EQ(gguf->identity, open_model(gguf_path)->identity);
}

struct Known {
  const char* file;
  TokenizerKind kind;
  size_t tokens, merges;
  const char* pre_tokenizer;
  int32_t bos, eos;
  bool add_bos;
};

void PrintTo(const Known& known, std::ostream* out) { *out << known.file; }

class ModelFilesVocabulary : public ::testing::TestWithParam<Known> {};

TEST_P(ModelFilesVocabulary, IsReadFromAFileWithoutWeights) {
  const Known& known = GetParam();
  HONE_SHARED_FILE(path, known.file);
  const Result<Vocabulary> v = open_vocabulary(path);
  ASSERT_TRUE(v.ok()) << v.status().to_string();
  EXPECT_EQ(v->kind, known.kind);
  EXPECT_EQ(v->tokens.size(), known.tokens);
  EXPECT_EQ(v->merges.size(), known.merges);
  EXPECT_EQ(v->pre_tokenizer, known.pre_tokenizer);
  EXPECT_EQ(v->bos, known.bos);
  EXPECT_EQ(v->eos, known.eos);
  EXPECT_EQ(v->add_bos, known.add_bos);
  EXPECT_EQ(v->add_space_prefix, known.kind == TokenizerKind::kSentencePiece);
  const Result<ModelFile> model = open_model(path);
  ASSERT_FALSE(model.ok());
  const bool gpt2 = known.pre_tokenizer == std::string_view("gpt-2");
  EXPECT_THAT(model.status().message(),
              HasSubstr(gpt2 ? "architecture \"gpt2\"" : "tensor \"token_embd.weight\" is missing"));
}

INSTANTIATE_TEST_SUITE_P(Shared, ModelFilesVocabulary,
                         ::testing::Values(Known{"vocab/ggml-vocab-llama-spm.gguf", TokenizerKind::kSentencePiece,
                                                 32000, 0, "", 1, 2, true},
                                           Known{"vocab/ggml-vocab-llama-bpe.gguf", TokenizerKind::kByteLevel, 128256,
                                                 280147, "llama-bpe", 128000, 128001, true},
                                           Known{"vocab/ggml-vocab-qwen2.gguf", TokenizerKind::kByteLevel, 151936,
                                                 151387, "qwen2", 151643, 151643, false},
                                           Known{"vocab/ggml-vocab-gpt-2.gguf", TokenizerKind::kByteLevel, 50257, 50000,
                                                 "gpt-2", 50256, 50256, false}));

TEST(ModelFilesOpen, WhatIsNoModelIsSaidInOneLine) {
  const Result<ModelFile> none = open_model("/no/such/file.gguf");
  EXPECT_EQ(none.status().code(), Code::kNotFound);
  EXPECT_THAT(none.status().message(), HasSubstr("/no/such/file.gguf: "));
  const Result<ModelFile> device = open_model("/dev/null");
  EXPECT_EQ(device.status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace hone::model
