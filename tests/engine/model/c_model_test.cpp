// Models through the C API: what the C++ API gives, and nothing that a NULL can break.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "hone/model.h"
#include "tests/engine/model/shared_files.h"

namespace hone {
namespace {

using ::testing::HasSubstr;

class ModelCApi : public ::testing::Test {
 protected:
  void SetUp() override {
    hone_engine_options options = {};
    options.no_database = 1;
    options.threads = 1;
    ASSERT_EQ(hone_engine_create(&options, &engine), HONE_OK) << hone_last_error();
  }
  void TearDown() override {
    hone_sequence_destroy(sequence);
    hone_sampler_destroy(sampler);
    hone_text_stream_destroy(stream);
    hone_model_destroy(model);
    hone_engine_destroy(engine);
  }
  hone_engine* engine = nullptr;
  hone_model* model = nullptr;
  hone_sequence* sequence = nullptr;
  hone_sampler* sampler = nullptr;
  hone_text_stream* stream = nullptr;
};

TEST_F(ModelCApi, ContinuesAText) {
  HONE_SHARED_FILE(path, "models/stories260K.gguf");
  ASSERT_EQ(hone_model_load(engine, path.c_str(), nullptr, &model), HONE_OK) << hone_last_error();
  const hone_model_info* info = hone_model_get_info(model);
  ASSERT_NE(info, nullptr);
  EXPECT_STREQ(info->architecture, "llama");
  EXPECT_EQ(info->vocabulary, 512);
  EXPECT_EQ(info->tokenizer, 1);
  EXPECT_STREQ(info->numerics, "ordered");

  const std::string prompt = "Once upon a time";
  size_t count = 0;
  ASSERT_EQ(hone_model_tokenize(model, prompt.data(), prompt.size(), nullptr, nullptr, 0, &count), HONE_OK);
  ASSERT_EQ(count, 5u);
  std::vector<int32_t> ids(4, -7);
  const hone_tokenize_options without{.bos = -1};
  ASSERT_EQ(hone_model_tokenize(model, prompt.data(), prompt.size(), &without, ids.data(), 3, &count), HONE_OK);
  EXPECT_EQ(count, 4u);
  EXPECT_EQ(ids, (std::vector<int32_t>{403, 407, 261, -7}));
  ids.resize(5);
  ASSERT_EQ(hone_model_tokenize(model, prompt.data(), prompt.size(), nullptr, ids.data(), 5, &count), HONE_OK);

  ASSERT_EQ(hone_sequence_create(model, &sequence), HONE_OK) << hone_last_error();
  ASSERT_EQ(hone_sampler_create(nullptr, &sampler), HONE_OK);
  ASSERT_EQ(hone_text_stream_create(model, 0, 0, &stream), HONE_OK);
  int32_t id = 0;
  EXPECT_EQ(hone_sampler_sample(sampler, sequence, &id), HONE_FAILED_PRECONDITION);
  EXPECT_EQ(hone_sequence_logits(sequence, &count), nullptr);
  ASSERT_EQ(hone_sequence_prefill(sequence, ids.data(), ids.size()), HONE_OK) << hone_last_error();
  std::string text;
  for (int i = 0; i < 12; ++i) {
    ASSERT_EQ(hone_sampler_sample(sampler, sequence, &id), HONE_OK) << hone_last_error();
    EXPECT_EQ(hone_model_ends_generation(model, id), 0);
    const char* piece = nullptr;
    size_t length = 0;
    ASSERT_EQ(hone_text_stream_push(stream, id, &piece, &length), HONE_OK);
    EXPECT_EQ(std::strlen(piece), length);
    text += piece;
    ASSERT_EQ(hone_sequence_decode(sequence, id), HONE_OK) << hone_last_error();
  }
  EXPECT_EQ(text, ", there was a little girl named Lily. She");
  EXPECT_EQ(hone_sequence_position(sequence), 17);
  for (const int from_start : {0, 1}) {
    hone_text_stream* other = nullptr;
    const char* piece = nullptr;
    ASSERT_EQ(hone_text_stream_create(model, 0, from_start, &other), HONE_OK);
    ASSERT_EQ(hone_text_stream_push(other, 286, &piece, nullptr), HONE_OK);
    EXPECT_STREQ(piece, from_start != 0 ? "was" : " was");
    hone_text_stream_destroy(other);
  }
  ASSERT_NE(hone_sequence_logits(sequence, &count), nullptr);
  EXPECT_EQ(count, 512u);
  EXPECT_EQ(hone_sequence_truncate(sequence, 18), HONE_INVALID_ARGUMENT);
  EXPECT_EQ(hone_sequence_truncate(sequence, 0), HONE_OK);
  EXPECT_EQ(hone_sequence_decode(sequence, 512), HONE_INVALID_ARGUMENT);
  EXPECT_EQ(hone_model_ends_generation(model, 2), 1);
}

TEST_F(ModelCApi, OptionsHaveTheDefaultsOfCpp) {
  hone_sampler_options options;
  ASSERT_EQ(hone_sampler_options_init(&options), HONE_OK);
  EXPECT_EQ(options.temperature, 0);
  EXPECT_EQ(options.top_k, 40);
  options.top_p = 7;
  EXPECT_EQ(hone_sampler_create(&options, &sampler), HONE_INVALID_ARGUMENT);
  EXPECT_EQ(sampler, nullptr);
  EXPECT_THAT(hone_last_error(), HasSubstr("top_p"));
}

// Whoever has to change these numbers appends to the struct and raises SOVERSION in engine/CMakeLists.txt.
TEST_F(ModelCApi, LayoutsAreThoseOfTheSoversion) {
  if (sizeof(void*) != 8) GTEST_SKIP() << "the numbers are of 64-bit pointers";
  EXPECT_EQ(offsetof(hone_model_options, numerics), 32u);
  EXPECT_EQ(sizeof(hone_model_options), 40u);
  EXPECT_EQ(offsetof(hone_model_info, plans_exact), 160u);
  EXPECT_EQ(offsetof(hone_model_info, numerics), 216u);
  EXPECT_EQ(sizeof(hone_model_info), 224u);
  EXPECT_EQ(sizeof(hone_tokenize_options), 8u);
  EXPECT_EQ(sizeof(hone_sampler_options), 56u);
}

TEST_F(ModelCApi, NullIsAnErrorAndNoCrash) {
  size_t count = 0;
  int32_t id = 0;
  const char* text = nullptr;
  EXPECT_EQ(hone_model_load(nullptr, "x", nullptr, &model), HONE_INVALID_ARGUMENT);
  EXPECT_EQ(hone_model_load(engine, nullptr, nullptr, &model), HONE_INVALID_ARGUMENT);
  EXPECT_EQ(hone_model_load(engine, "/nowhere", nullptr, nullptr), HONE_INVALID_ARGUMENT);
  EXPECT_EQ(hone_model_load(engine, "/nowhere", nullptr, &model), HONE_NOT_FOUND);
  EXPECT_EQ(hone_model_get_info(nullptr), nullptr);
  EXPECT_EQ(hone_model_tokenize(nullptr, "x", 1, nullptr, &id, 1, &count), HONE_INVALID_ARGUMENT);
  EXPECT_EQ(hone_model_ends_generation(nullptr, 1), 0);
  EXPECT_EQ(hone_text_stream_create(nullptr, 0, 0, &stream), HONE_INVALID_ARGUMENT);
  EXPECT_EQ(hone_text_stream_push(nullptr, 1, &text, nullptr), HONE_INVALID_ARGUMENT);
  EXPECT_EQ(hone_text_stream_finish(nullptr, &text, nullptr), HONE_INVALID_ARGUMENT);
  EXPECT_EQ(hone_sequence_create(nullptr, &sequence), HONE_INVALID_ARGUMENT);
  EXPECT_EQ(hone_sequence_prefill(nullptr, &id, 1), HONE_INVALID_ARGUMENT);
  EXPECT_EQ(hone_sequence_decode(nullptr, 1), HONE_INVALID_ARGUMENT);
  EXPECT_EQ(hone_sequence_logits(nullptr, &count), nullptr);
  EXPECT_EQ(hone_sequence_position(nullptr), 0);
  EXPECT_EQ(hone_sequence_truncate(nullptr, 0), HONE_INVALID_ARGUMENT);
  EXPECT_EQ(hone_sampler_options_init(nullptr), HONE_INVALID_ARGUMENT);
  EXPECT_EQ(hone_sampler_create(nullptr, nullptr), HONE_INVALID_ARGUMENT);
  EXPECT_EQ(hone_sampler_accept(nullptr, &id, 1), HONE_INVALID_ARGUMENT);
  EXPECT_EQ(hone_sampler_sample(nullptr, nullptr, &id), HONE_INVALID_ARGUMENT);
}

// What was in an output before a call that fails is not taken for its result.
TEST_F(ModelCApi, AnErrorLeavesNothingInOutputs) {
  size_t count = 7;
  int32_t id = 7;
  const char* text = "old";
  EXPECT_NE(hone_text_stream_push(nullptr, 1, &text, &count), HONE_OK);
  EXPECT_EQ(text, nullptr);
  EXPECT_EQ(count, 0u);
  text = "old", count = 7;
  EXPECT_NE(hone_text_stream_finish(nullptr, &text, &count), HONE_OK);
  EXPECT_EQ(text, nullptr);
  EXPECT_EQ(count, 0u);
  EXPECT_NE(hone_text_stream_push(nullptr, 1, nullptr, nullptr), HONE_OK);
  count = 7;
  EXPECT_NE(hone_model_tokenize(nullptr, "x", 1, nullptr, &id, 1, &count), HONE_OK);
  EXPECT_EQ(count, 0u);
  count = 7;
  EXPECT_EQ(hone_sequence_logits(nullptr, &count), nullptr);
  EXPECT_EQ(count, 0u);
  EXPECT_NE(hone_sampler_sample(nullptr, nullptr, &id), HONE_OK);
  EXPECT_EQ(id, -1);
  model = reinterpret_cast<hone_model*>(&count);
  EXPECT_NE(hone_model_load(nullptr, "x", nullptr, &model), HONE_OK);
  EXPECT_EQ(model, nullptr);
  stream = reinterpret_cast<hone_text_stream*>(&count);
  EXPECT_NE(hone_text_stream_create(nullptr, 0, 0, &stream), HONE_OK);
  EXPECT_EQ(stream, nullptr);
  sequence = reinterpret_cast<hone_sequence*>(&count);
  EXPECT_NE(hone_sequence_create(nullptr, &sequence), HONE_OK);
  EXPECT_EQ(sequence, nullptr);
  hone_sampler_options options;
  ASSERT_EQ(hone_sampler_options_init(&options), HONE_OK);
  options.top_p = 7;
  sampler = reinterpret_cast<hone_sampler*>(&count);
  EXPECT_NE(hone_sampler_create(&options, &sampler), HONE_OK);
  EXPECT_EQ(sampler, nullptr);
}

}  // namespace
}  // namespace hone
