// Attention on the command line: tuned, stored, explained and benched like any other op.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/tools/needs_code.h"

namespace hone::cli_test {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

constexpr char kProblem[] = "attention:f32:b=1,hq=4,hkv=2,q=1,kv=600,d=16";
constexpr char kPrefill[] = "attention:f32:b=2,hq=2,hkv=2,q=40,kv=40,d=16:causal";

class HoneAttention : public NeedsCode {};

TEST_F(HoneAttention, IsTunedStoredExplainedAndBenched) {
  const Outcome tuned = hone({"tune", kProblem, kPrefill, "--budget", "3s", "--json"});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  std::istringstream lines(tuned.out);
  std::string line;
  std::getline(lines, line);
  const Json report = Json::parse(line);
  EXPECT_EQ(report["problem"], kProblem);
  EXPECT_EQ(report["winner"]["numerics"], "online(256)");
  EXPECT_EQ(report["order"], "analytical");
  EXPECT_EQ(report["rejected_wrong"], 0);
  EXPECT_EQ(report["crashed"], 0);

  const Json explained = Json::parse(hone({"explain", kProblem, "--json", "--ir", "--asm"}).out);
  EXPECT_EQ(explained["plan"]["numerics"], "online(256)");
  if (!report["decision"].is_null()) {
    EXPECT_EQ(explained["reason"], "exact");
  }
  EXPECT_THAT(explained["loop_ir"].get<std::string>(), HasSubstr("attention_f32_online"));
  EXPECT_FALSE(explained["asm"].get<std::string>().empty());

  const Outcome bench = hone({"bench", kProblem, "--seconds", "0.1", "--threads", "1", "--json"});
  ASSERT_EQ(bench.code, 0) << bench.err;
  const Json rows = Json::parse(bench.out);
  EXPECT_THAT(bench.out, HasSubstr("gflops"));
  const Outcome repeated = hone({"bench", kProblem, "--seconds", "0.1", "--threads", "1", "--plan",
                                 explained["plan"]["program"].get<std::string>(), "--json"});
  EXPECT_EQ(repeated.code, 0) << repeated.err;
  EXPECT_EQ(hone({"db", "verify"}).code, 0);
  EXPECT_EQ(hone({"db", "show", kProblem, "--json"}).code, 0);
}

TEST_F(HoneAttention, AClassIsChosenByItsName) {
  for (const char* numerics : {"ordered", "online(64)", "split(128,2)"}) {
    const Outcome o = hone({"explain", kProblem, "--numerics", numerics, "--json", "--ir"});
    ASSERT_EQ(o.code, 0) << o.err;
    EXPECT_EQ(Json::parse(o.out)["plan"]["numerics"], numerics);
  }
  const Outcome any = hone({"tune", kProblem, "--numerics", "any", "--budget", "1s", "--json"});
  ASSERT_EQ(any.code, 0) << any.err;
  EXPECT_EQ(Json::parse(hone({"explain", kProblem, "--json"}).out)["plan"]["numerics"], "online(256)")
      << "whoever allows nothing else gets the default class";
  for (const char* command : {"tune", "bench", "explain"}) {
    const Outcome wrong = hone({command, kProblem, "--numerics", "fast"});
    EXPECT_EQ(wrong.code, 2) << command << wrong.err;
    EXPECT_THAT(wrong.err, HasSubstr("numerics 'fast' is none of: default"));
  }
}

// A crash costs the candidate, not the tune, whatever the op.
TEST_F(HoneAttention, CandidatesThatCrashAreIsolated) {
  const Json info = Json::parse(hone({"info", "--json"}).out);
  std::string good;
  for (const Json& codegen : info["codegens"])
    if (good.empty() && !codegen["isa"].empty()) good = codegen["name"].get<std::string>();
  const Outcome o =
      hone({"tune", kProblem, "--codegen", good + ",fault-sigsegv,fault-wrong", "--budget", "2s", "--json"});
  ASSERT_EQ(o.code, 0) << o.err;
  const Json report = Json::parse(o.out);
  EXPECT_EQ(report["winner"]["codegen"], good);
  EXPECT_GT(report["crashed"].get<int>() + report["rejected_wrong"].get<int>(), 0) << o.out;
}

}  // namespace
}  // namespace hone::cli_test
