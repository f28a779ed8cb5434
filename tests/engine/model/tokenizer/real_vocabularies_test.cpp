// The vocabularies of real models, and what their own tokenizers make of texts.
#include <gtest/gtest.h>

#include "engine/base/random.h"
#include "engine/model/files/model_file.h"
#include "engine/model/tokenizer/normal_form_internal.h"
#include "engine/model/tokenizer/tokenizer.h"
#include "tests/engine/model/shared_files.h"
#include "tests/engine/model/tokenizer/random_text.h"
#include "tests/engine/model/tokenizer/real_texts.h"

namespace hone::model {
namespace {

class RealVocabularies : public ::testing::TestWithParam<const char*> {};

TEST_P(RealVocabularies, IdsAreThoseOfTheModelsOwnTokenizer) {
  const std::string name = std::string("vocab/ggml-vocab-") + GetParam() + ".gguf";
  HONE_SHARED_FILE(path, name);
  Result<Vocabulary> vocabulary = open_vocabulary(path);
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status().to_string();
  const Result<Tokenizer> tokenizer = Tokenizer::create(std::move(*vocabulary));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().to_string();

  testing::each_real_text(path, [&](const std::string& text, const std::vector<int32_t>& ids) {
    const Result<std::vector<int32_t>> got = tokenizer->encode(text, {.add_bos = false});
    ASSERT_TRUE(got.ok()) << got.status().to_string();
    EXPECT_EQ(*got, ids) << "'" << text << "'";
    EXPECT_EQ(tokenizer->decode(*got), text);
  });
}

TEST_P(RealVocabularies, AnyTextComesBack) {
  const std::string name = std::string("vocab/ggml-vocab-") + GetParam() + ".gguf";
  HONE_SHARED_FILE(path, name);
  const Tokenizer tokenizer = Tokenizer::create(open_vocabulary(path).value()).value();
  Random random(20261130);
  for (int i = 0; i < 300; ++i) {
    const std::string text = testing::random_text(random, 200);
    const Result<std::vector<int32_t>> ids = tokenizer.encode(text, {.add_bos = false});
    ASSERT_TRUE(ids.ok()) << ids.status().to_string();
    std::string form_c;
    append_form_c(text, form_c);
    EXPECT_EQ(tokenizer.decode(*ids), GetParam() == std::string_view("qwen2") ? form_c : text);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, RealVocabularies, ::testing::Values("gpt-2", "llama-bpe", "llama-spm", "qwen2"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace hone::model
