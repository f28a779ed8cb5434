// The vocabularies of real models, and what their own tokenizers make of texts.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "engine/base/random.h"
#include "engine/model/files/model_file.h"
#include "engine/model/tokenizer/tokenizer.h"
#include "tests/engine/model/shared_files.h"
#include "tests/engine/model/tokenizer/random_text.h"

namespace hone::model {
namespace {

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// Each of them ends with the line.
std::vector<std::string> inputs(const std::string& path) {
  const std::string all = read(path);
  const std::string end_of_text = "\n__ggml_vocab_test__\n";
  std::vector<std::string> out;
  for (size_t at = 0, end; (end = all.find(end_of_text, at)) != std::string::npos; at = end + end_of_text.size())
    out.push_back(all.substr(at, end - at));
  return out;
}

class RealVocabularies : public ::testing::TestWithParam<const char*> {};

TEST_P(RealVocabularies, IdsAreThoseOfTheModelsOwnTokenizer) {
  const std::string name = std::string("vocab/ggml-vocab-") + GetParam() + ".gguf";
  HONE_SHARED_FILE(path, name);
  Result<Vocabulary> vocabulary = open_vocabulary(path);
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status().to_string();
  const Result<Tokenizer> tokenizer = Tokenizer::create(std::move(*vocabulary));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().to_string();

  const std::vector<std::string> texts = inputs(path + ".inp");
  std::ifstream expected(path + ".out");
  size_t count = 0;
  for (std::string line; std::getline(expected, line); ++count) {
    ASSERT_LT(count, texts.size());
    std::istringstream numbers(line);
    std::vector<int32_t> ids;
    for (int32_t id; numbers >> id;) ids.push_back(id);
    const Result<std::vector<int32_t>> got = tokenizer->encode(texts[count], {.add_bos = false});
    ASSERT_TRUE(got.ok()) << got.status().to_string();
    EXPECT_EQ(*got, ids) << "'" << texts[count] << "'";
    EXPECT_EQ(tokenizer->decode(*got), texts[count]);
  }
  EXPECT_EQ(count, texts.size());
  EXPECT_GE(count, 40u);
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
    EXPECT_EQ(tokenizer.decode(*ids), text);
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
