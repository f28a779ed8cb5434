// hone bench --model and hone tune --model, on a small trained decoder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tests/engine/model/shared_files.h"
#include "tests/tools/needs_code.h"
#include "tools/hone/model_speed.h"

namespace hone::cli_test {
namespace {

using Json = nlohmann::json;
using cli::ModelCall;
using cli::ModelDemand;
using testing::ContainsRegex;
using testing::HasSubstr;

// ---- what a call has to do ----

// Two layers, grouped heads; every number small enough to count by hand.
model::DecoderConfig tiny() {
  model::DecoderConfig c;
  c.layers = 2, c.width = 8, c.heads = 4, c.kv_heads = 2, c.head_dim = 2, c.ff = 16, c.vocabulary = 10;
  return c;
}

TEST(ModelDemand, CountsMatmulsScoresAndBytes) {
  const double layer = 8 * (8 + 2 * 4) + 8 * 8 + 3 * 8 * 16, output = 8 * 10;
  const ModelDemand one = cli::demand_of(tiny(), 4, {.tokens = 1, .position = 0});
  EXPECT_EQ(one.flops, 2 * (2 * layer + output));
  EXPECT_EQ(one.scores, 2 * 4 * 8 * 1);
  EXPECT_EQ(one.bytes, (2 * layer + output) * 4 + 2 * 2 * 4 * 4 * 1);
  // Rows at positions 5, 6 and 7 see 6, 7 and 8 keys; the projection is for one of them.
  const ModelDemand three = cli::demand_of(tiny(), 2, {.tokens = 3, .position = 5});
  EXPECT_EQ(three.flops, 2 * (2 * layer * 3 + output));
  EXPECT_EQ(three.scores, 2 * 4 * 8 * (6 + 7 + 8));
  EXPECT_EQ(three.bytes, (2 * layer + output) * 2 + 2 * 2 * 4 * 4 * 8);
}

TEST(ModelDemand, AWindowHidesOlderKeys) {
  model::DecoderConfig c = tiny();
  c.window = 4;
  const ModelDemand one = cli::demand_of(c, 4, {.tokens = 1, .position = 100});
  const ModelDemand open = cli::demand_of(tiny(), 4, {.tokens = 1, .position = 3});
  EXPECT_EQ(one.scores, open.scores);
  c.sliding = {true, false};  // the second layer sees all 101
  const ModelDemand mixed = cli::demand_of(c, 4, {.tokens = 1, .position = 100});
  EXPECT_EQ(mixed.scores - one.scores, 4 * 8 * (101 - 4));
}

TEST(ModelWork, IsCutIntoCalls) {
  const std::vector<ModelCall> calls = cli::calls_of({.prompt = 5, .generate = 2, .depth = 3}, 2);
  const std::vector<std::pair<int64_t, int64_t>> wanted = {{2, 3}, {2, 5}, {1, 7}, {1, 8}, {1, 9}};
  ASSERT_EQ(calls.size(), wanted.size());
  for (size_t i = 0; i < calls.size(); ++i)
    EXPECT_EQ(std::pair(calls[i].tokens, calls[i].position), wanted[i]) << "call " << i;
  EXPECT_EQ((cli::ModelWork{.generate = 128, .depth = 512}.name()), "tg128 @ d512");
}

// ---- the commands ----

class Model : public NeedsCode {
 protected:
  void SetUp() override {
    NeedsCode::SetUp();
    if (IsSkipped()) return;
    if (file_.empty()) GTEST_SKIP() << "no models/stories260K.gguf beside the source tree";
  }
  const std::string file_ = test_files::shared_file("models/stories260K.gguf");
};

TEST_F(Model, BenchPrintsTheColumnsOfLlamaBench) {
  const Outcome out = hone({"bench", "--model", file_, "-p", "16,40", "-n", "4", "-d", "0,8", "-r", "2", "--threads",
                            "1", "--plan", "default", "--json"});
  ASSERT_EQ(out.code, 0) << out.err;
  const Json rows = Json::parse(out.out)["test"];
  ASSERT_EQ(rows.size(), 6u) << out.out;
  const std::vector<std::string> tests = {"16/0/0", "40/0/0", "0/4/0", "16/0/8", "40/0/8", "0/4/8"};
  std::vector<std::string> seen;
  for (const Json& row : rows) {
    seen.push_back(std::to_string(row["n_prompt"].get<int>()) + "/" + std::to_string(row["n_gen"].get<int>()) + "/" +
                   std::to_string(row["n_depth"].get<int>()));
    EXPECT_EQ(row["model_filename"], file_);
    EXPECT_EQ(row["n_threads"], 1);
    EXPECT_EQ(row["samples_ns"].size(), 2u);
    const double tokens = row["n_prompt"].get<double>() + row["n_gen"].get<double>();
    EXPECT_NEAR(row["avg_ns"].get<double>(),
                (row["samples_ns"][0].get<double>() + row["samples_ns"][1].get<double>()) / 2, 1);
    EXPECT_GT(row["avg_ts"].get<double>(), 0);
    EXPECT_LE(row["avg_ts"].get<double>(),
              tokens * 1e9 / row["samples_ns"][0].get<double>() + tokens * 1e9 / row["samples_ns"][1].get<double>());
    EXPECT_GT(row["model_n_params"].get<int64_t>(), 200000);
    EXPECT_GT(row["peak_rss"].get<int64_t>(), row["model_size"].get<int64_t>());
  }
  EXPECT_THAT(seen, testing::UnorderedElementsAreArray(tests));
}

TEST_F(Model, BenchForPeople) {
  const Outcome out = hone({"bench", "--model", file_, "-p", "8", "-n", "0", "-r", "1", "--threads", "1"});
  ASSERT_EQ(out.code, 0) << out.err;
  EXPECT_THAT(out.out, ContainsRegex("\\| model +\\| size +\\| params +\\| backend +\\| threads +\\|"));
  EXPECT_THAT(out.out, ContainsRegex("\\| pp8 +\\|"));
  EXPECT_THAT(out.err, HasSubstr("hone tune --model"));  // nothing is tuned here
}

TEST_F(Model, TuneDecidesTheProblemsOfThePlansAndMeasuresTheWhole) {
  const Outcome out = hone({"tune", "--model", file_, "-p", "16", "-n", "4", "--threads", "1", "--budget", "5s",
                            "--codegen", "asmjit,llvm", "--seed", "3", "--json"});
  ASSERT_EQ(out.code, 0) << out.err;
  int problems = 0, decided = 0;
  std::vector<std::string> tests;
  std::set<std::string> plans_kept, plans_taken_back;
  size_t works_kept = 0, works_taken_back = 0;
  for (const std::string& line : lines_of(out.out)) {
    const Json row = Json::parse(line);
    if (row.contains("problem")) {
      ++problems;
      decided += row["decision"].is_string() ? 1 : 0;
      continue;
    }
    if (row.contains("plan")) {
      const bool kept = row["whole"] == "kept";
      EXPECT_EQ(row["why"].is_null(), kept) << line;
      if (!kept) {
        EXPECT_LT(row["speedup_ci95"][1].get<double>(), 1) << line;
      }
      (kept ? plans_kept : plans_taken_back).insert(row["plan"].get<std::string>() + row["test"].get<std::string>());
      continue;
    }
    works_kept += row["kept"].get<size_t>();
    works_taken_back += row["taken_back"].get<size_t>();
    tests.push_back(row["test"]);
    EXPECT_GT(row["default_ns"].get<double>(), 0);
    EXPECT_GT(row["expected_speedup"].get<double>(), 0);
    const double lo = row["speedup_ci95"][0].get<double>(), hi = row["speedup_ci95"][1].get<double>();
    EXPECT_LE(lo, row["speedup"].get<double>());
    EXPECT_GE(hi, row["speedup"].get<double>());
  }
  EXPECT_THAT(tests, testing::ElementsAre("pp16", "tg4 @ d16"));
  // Joined projections, output, gate and up, down and the vocabulary; at 16 rows and at one; attention.
  EXPECT_GE(problems, 8);
  EXPECT_GT(decided, 0);
  EXPECT_EQ(works_kept, plans_kept.size());
  EXPECT_EQ(works_taken_back, plans_taken_back.size());

  // Another process plans with what was decided.
  const Outcome after =
      hone({"bench", "--model", file_, "-p", "16", "-n", "0", "-b", "16", "-r", "1", "--threads", "1", "--json"});
  ASSERT_EQ(after.code, 0) << after.err;
  int64_t exact = 0;
  const Json rows = Json::parse(after.out)["test"];
  for (const Json& row : rows) exact = std::max(exact, row["plans_exact"].get<int64_t>());
  EXPECT_GT(exact, 0) << after.out;
}

TEST_F(Model, WhatCannotBeIsAUsageError) {
  struct Case {
    std::vector<std::string> args;
    const char* says;
  };
  const std::vector<Case> cases = {
      {{"bench", "--model", file_, "-p", "0", "-n", "0"}, "-p and -n are both 0"},
      {{"bench", "--model", file_, "-p", "5x"}, "-p takes numbers of tokens from 0 to 16777216"},
      {{"bench", "--model", file_, "-p", "16777216"}, "the most is 4194304"},
      {{"bench", "--model", file_, "-o", "gbench"}, "unknown output format 'gbench'"},
      {{"bench", "-p", "5"}, "--model"},
      {{"bench", "--model", file_, "--compare", "all"}, "--compare"},
      {{"bench", "--model", file_, "--plan", "mc(4)"}, "tuned, default or both"},
      {{"tune", "--model", file_, "matmul:f32:m=1,n=4,k=4,b=nt"}, "problem"},
      {{"tune", "--model", file_, "-n", "0"}, "-n"},
  };
  for (const Case& c : cases) {
    const Outcome out = hone(c.args);
    EXPECT_EQ(out.code, 2) << testing::PrintToString(c.args) << out.err;
    EXPECT_THAT(out.err, HasSubstr(c.says));
  }
  const Outcome missing = hone({"bench", "--model", "no_such_model.gguf"});
  EXPECT_NE(missing.code, 0);
  EXPECT_THAT(missing.err, HasSubstr("no_such_model.gguf"));
}

}  // namespace
}  // namespace hone::cli_test
