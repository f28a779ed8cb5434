// A trained model from its file, against what an independent engine answered; and how sequences behave.
#include "hone/model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "kernels/matmul/program.h"
#include "tests/engine/database_util.h"
#include "tests/engine/model/answers.h"
#include "tests/engine/model/shared_files.h"

namespace hone {
namespace {

using namespace model_testing;
using ::testing::HasSubstr;

void expect_as_expected(const Model& model, const Json& cases) {
  for (const Json& c : cases) {
    SCOPED_TRACE(c["prompt"]);
    const Result<std::vector<int32_t>> prompt = model.tokenize(c["prompt"].get<std::string>());
    ASSERT_TRUE(prompt.ok()) << prompt.status().message();
    EXPECT_EQ(*prompt, c["prompt_tokens"].get<std::vector<int32_t>>());
    const Result<Answer> run = greedy(model, *prompt, c["greedy_tokens"].size(), 512);
    ASSERT_TRUE(run.ok()) << run.status().message();
    EXPECT_EQ(run->tokens, c["greedy_tokens"].get<std::vector<int32_t>>());
    expect_top5(run->first, c["top5_logits_after_prompt"]);
    expect_top5(run->last, c["top5_logits_last"]);
    double sum = 0;
    for (const float l : run->first) sum += static_cast<double>(l);
    EXPECT_NEAR(sum, c["sum_logits_after_prompt"].get<double>(), 0.1);
  }
}

TEST(ModelStories, GgufAnswersAsTheIndependentEngine) {
  HONE_SHARED_FILE(path, "models/stories260K.gguf");
  HONE_SHARED_FILE(expected, "models/stories260K.expected.json");
  for (const int threads : {1, 2}) {
    const Result<Model> model = Model::load(default_engine(threads), path);
    ASSERT_TRUE(model.ok()) << model.status().message();
    expect_as_expected(*model, expected_cases(expected));
  }
}

TEST(ModelStories, Llama2cAnswersTheSame) {
  HONE_SHARED_FILE(path, "models/stories260K.bin");
  HONE_SHARED_FILE(expected, "models/stories260K.expected.json");
  const Result<Model> model = Model::load(default_engine(1), path);
  ASSERT_TRUE(model.ok()) << model.status().message();
  expect_as_expected(*model, expected_cases(expected));
}

TEST(ModelStories, ChunksOfThePromptLeaveTheBits) {
  HONE_SHARED_FILE(path, "models/stories260K.gguf");
  const Result<Model> model = Model::load(default_engine(2), path, {.max_batch = 100});
  ASSERT_TRUE(model.ok()) << model.status().message();
  const auto prompt = model->tokenize(
      "Once upon a time, there was a little girl named Lily. She loved to play outside in "
      "the park. One day, she saw a big, red ball. She wanted to play with it, but it was "
      "too high. Lily was sad and didn't know what to do. She said, \"I want to play with "
      "your ball, but I can't find it.\"");
  ASSERT_TRUE(prompt.ok());
  ASSERT_GT(prompt->size(), 100u);
  const Result<Answer> whole = greedy(*model, *prompt, 8, 512);
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  for (const size_t chunk : {1, 7, 64}) {
    const Result<Answer> cut = greedy(*model, *prompt, 8, chunk);
    ASSERT_TRUE(cut.ok());
    EXPECT_EQ(cut->first, whole->first) << chunk;
    EXPECT_EQ(cut->last, whole->last) << chunk;
    EXPECT_EQ(cut->tokens, whole->tokens) << chunk;
  }
}

class ModelTuned : public testing_api::DatabaseTest {};

TEST_F(ModelTuned, TunedPlansLeaveTheBits) {
  HONE_SHARED_FILE(path, "models/stories260K.gguf");
  const auto program = [](int64_t mr, int64_t nr) {
    matmul::TransformProgram p{.isa = Isa::kAvx2, .lanes = 8, .mr = mr, .nr = nr, .mc = mr * 8, .nc = nr * 4, .kc = 64};
    p.panel = 16;
    return matmul::to_string(p);
  };
  store("matmul:f32:m=1,n=128,k=64,b=packed", program(1, 16));
  store("matmul:f32:m=1,n=64,k=172,b=packed:+residual", program(1, 16), 2);
  const Result<Model> tuned = Model::load(engine(), path), plain = Model::load(default_engine(1), path);
  ASSERT_TRUE(tuned.ok() && plain.ok()) << tuned.status().message() << plain.status().message();
  EXPECT_EQ(plain->info().plans.exact, 0);
  EXPECT_EQ(tuned->info().plans.exact, 3) << "the second problem also with the rows of the last layer";
  const std::vector<int32_t> prompt = {1, 403, 407, 261, 378};
  const Result<Answer> a = greedy(*tuned, prompt, 40, 3), b = greedy(*plain, prompt, 40, 5);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->tokens, b->tokens);
  EXPECT_EQ(a->first, b->first);
  EXPECT_EQ(a->last, b->last);
}

// ---- sequences ----

class ModelSequence : public ::testing::Test {
 protected:
  void SetUp() override {
    HONE_SHARED_FILE(path, "models/stories260K.gguf");
    Result<Model> loaded = Model::load(default_engine(1), path, {.context = 16, .max_batch = 8});
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    model.emplace(*std::move(loaded));
    Result<Sequence> made = model->sequence();
    ASSERT_TRUE(made.ok()) << made.status().message();
    sequence.emplace(std::move(made).value());
  }
  std::optional<Model> model;
  std::optional<Sequence> sequence;
};

TEST_F(ModelSequence, TruncateForgets) {
  const std::vector<int32_t> prompt = {1, 403, 407};
  const auto first = sequence->prefill(prompt);
  ASSERT_TRUE(first.ok());
  const std::vector<float> want(first->begin(), first->end());
  ASSERT_TRUE(sequence->decode(9).ok());
  ASSERT_TRUE(sequence->decode(10).ok());
  EXPECT_EQ(sequence->position(), 5);
  ASSERT_TRUE(sequence->truncate(2).ok());
  EXPECT_TRUE(sequence->logits().empty());
  const auto again = sequence->decode(407);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(std::vector<float>(again->begin(), again->end()), want);
  EXPECT_EQ(sequence->truncate(4).code(), Code::kInvalidArgument);
}

TEST_F(ModelSequence, AFullContextIsAnErrorThatChangesNothing) {
  ASSERT_TRUE(sequence->prefill(std::vector<int32_t>(10, 5)).ok());
  const std::vector<float> before(sequence->logits().begin(), sequence->logits().end());
  ASSERT_EQ(before.size(), 512u);
  const auto over = sequence->prefill(std::vector<int32_t>(7, 5));
  ASSERT_FALSE(over.ok());
  EXPECT_EQ(over.status().code(), Code::kResourceExhausted);
  EXPECT_THAT(over.status().message(), HasSubstr("room for 6 more and not for 7"));
  EXPECT_EQ(sequence->position(), 10);
  EXPECT_EQ(std::vector<float>(sequence->logits().begin(), sequence->logits().end()), before);
  ASSERT_TRUE(sequence->prefill(std::vector<int32_t>(6, 5)).ok());
  EXPECT_EQ(sequence->decode(5).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(sequence->position(), 16);
  EXPECT_EQ(sequence->context(), 16);
}

TEST_F(ModelSequence, IdsOutsideTheVocabularyAreNamed) {
  for (const int32_t id : {-1, 512}) {
    const auto refused = sequence->prefill(std::vector<int32_t>{3, id});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(refused.status().message(), HasSubstr("token " + std::to_string(id)));
  }
  EXPECT_EQ(sequence->prefill({}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(sequence->position(), 0);
}

TEST_F(ModelSequence, TwoOfOneModelKnowNothingOfEachOther) {
  Result<Sequence> other = model->sequence();
  ASSERT_TRUE(other.ok());
  ASSERT_TRUE(other->prefill(std::vector<int32_t>{7, 8, 9}).ok());
  const auto a = sequence->prefill(std::vector<int32_t>{1, 403});
  ASSERT_TRUE(a.ok());
  const std::vector<float> want(a->begin(), a->end());
  ASSERT_TRUE(other->truncate(0).ok());
  const auto b = other->prefill(std::vector<int32_t>{1, 403});
  ASSERT_TRUE(b.ok());
  EXPECT_EQ(std::vector<float>(b->begin(), b->end()), want);
}

TEST_F(ModelSequence, InfoSaysWhatTheModelIs) {
  const ModelInfo& info = model->info();
  EXPECT_EQ(info.parameters, 260032);
  EXPECT_EQ(info.weights, "f32");
  EXPECT_EQ(info.context, 16);
  EXPECT_EQ(info.model_context, 512);
  EXPECT_EQ(info.max_batch, 8);
  EXPECT_EQ(info.sequence_bytes, 5 * 2 * 16 * 32 * 4);
  EXPECT_TRUE(info.tokenizer);
  // Projections (gate and up are two: 172 columns) once for 1 token and once for 8, attention twice. What follows the
  // last attention sees one row, whatever the tokens: four projections of plans of their own, and the output's.
  EXPECT_EQ(info.plans.by_default, 2 * 5 + 2 + 4 + 1);
}

TEST(ModelLoad, ExpectedNumbersOfTokensAreLoweredToTheBatch) {
  HONE_SHARED_FILE(path, "models/stories260K.gguf");
  const auto problems = [&, path = path](const std::vector<int64_t>& expected) {
    const Result<Model> loaded =
        Model::load(default_engine(1), path, {.context = 16, .max_batch = 8, .expected_tokens = expected});
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    return loaded->info().plans.by_default;
  };
  EXPECT_EQ(problems({1, 1000}), problems({1, 8}));
  EXPECT_EQ(problems({1000}), problems({8}));
  EXPECT_LT(problems({1}), problems({1, 8}));
}

// What only Tokenizer::create() finds: the message names the file that the tokenizer is from.
TEST(ModelLoad, ATokenizerThatCannotBeNamesItsFile) {
  HONE_SHARED_FILE(path, "models/stories260K.gguf");
  const std::string tokenizer = ::testing::TempDir() + "/hone_model_" + std::to_string(getpid()) + "_tokenizer.json";
  std::ofstream(tokenizer) << R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated"},
      {"type": "ByteLevel", "add_prefix_space": false}]}})";
  const Result<Model> model = Model::load(default_engine(1), path, {.tokenizer = tokenizer});
  std::filesystem::remove(tokenizer);
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.status().code(), Code::kUnsupported);
  EXPECT_THAT(model.status().message(), ::testing::StartsWith(tokenizer + ": the tokenizer's pattern"));
}

TEST(ModelLoad, OptionsAreChecked) {
  for (const ModelOptions& o : std::vector<ModelOptions>{
           {.context = -1}, {.context = int64_t{1} << 40}, {.max_batch = 0}, {.expected_tokens = {0}}}) {
    const Result<Model> model = Model::load(default_engine(1), "nothing", o);
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(model.status().code(), Code::kInvalidArgument);
  }
  EXPECT_EQ(Model::load(default_engine(1), "/nowhere/nothing.gguf").status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace hone
