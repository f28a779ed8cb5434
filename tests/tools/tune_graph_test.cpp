// hone tune --graph: from a file to a stored decision that the next engine finds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tools/needs_code.h"

namespace hone::cli_test {
namespace {

using Json = nlohmann::json;
using testing::AnyOf;
using testing::Contains;
using testing::HasSubstr;

// A layer with a cache, as small as one can be; its weights have no files.
constexpr const char* kLayer = R"(graph @small {
  symbol s in 1..16
  position p in 0..48 step s
  input %x : f32[s, 64]
  state %k0 : f32[64, 2, 16]
  state %v0 : f32[64, 2, 16]
  %norm = constant "norm" : f32[64]
  %h = rms_norm(%x, %norm) {eps = 1e-05} : f32[s, 64]
  %wq = constant "wq" : f32[64, 64]
  %q = matmul(%h, %wq) {layout = "nt"} : f32[s, 64]
  %wk = constant "wk" : f32[32, 64]
  %k = matmul(%h, %wk) {layout = "nt"} : f32[s, 32]
  %wv = constant "wv" : f32[32, 64]
  %v = matmul(%h, %wv) {layout = "nt"} : f32[s, 32]
  %qh = reshape(%q) : f32[s, 4, 16]
  %kh = reshape(%k) : f32[s, 2, 16]
  %vh = reshape(%v) : f32[s, 2, 16]
  %keys = kv_append(%k0, %kh) : f32[p + s, 2, 16]
  %values = kv_append(%v0, %vh) : f32[p + s, 2, 16]
  %a = attention(%qh, %keys, %values) {causal = true} : f32[s, 4, 16]
  %rows = reshape(%a) : f32[s, 64]
  %wo = constant "wo" : f32[64, 64]
  %o = matmul(%rows, %wo) {layout = "nt"} : f32[s, 64]
  %out = add(%x, %o) : f32[s, 64]
  output %out
})";

class TuneGraph : public NeedsCode {
 protected:
  Outcome tune(std::vector<std::string> more) const {
    std::vector<std::string> args = {"tune", "--graph", write("small.graph", kLayer), "--seed", "7", "--json"};
    args.insert(args.end(), more.begin(), more.end());
    return hone(args);
  }
};

TEST_F(TuneGraph, DecidesForEachNumberOfTokensAndKeepsItAll) {
  const Outcome out = tune({"--tokens", "1,8", "--position", "20", "--budget", "3s", "--threads", "1"});
  ASSERT_EQ(out.code, 0) << out.err;
  const std::vector<std::string> lines = lines_of(out.out);
  ASSERT_EQ(lines.size(), 2u) << out.out;
  const char* const calls[] = {"tokens=1,position=20", "tokens=8,position=0"};
  for (size_t i = 0; i < 2; ++i) {
    const Json j = Json::parse(lines[i]);
    EXPECT_THAT(j["problem"].get<std::string>(), HasSubstr(calls[i]));
    EXPECT_THAT(j["problem"].get<std::string>(), HasSubstr("graph:small/"));
    EXPECT_THAT(j["decision"].get<std::string>(), AnyOf("new", "kept", "tie"));
    EXPECT_GT(j["default_ns"].get<double>(), 0);
    EXPECT_GT(j["enumerated"].get<int>(), 4);
    EXPECT_TRUE(j["outcomes"].empty()) << "no plan computes anything else: " << j["outcomes"];
    EXPECT_THAT(j["inert"].get<std::vector<std::string>>(), Contains("gate_up=separate"));
    EXPECT_EQ(j["threads"], 1);
  }
  const Outcome ls = hone({"db", "ls", "-o", "json"});
  ASSERT_EQ(ls.code, 0) << ls.err;
  EXPECT_THAT(ls.out, HasSubstr("graph:small/"));
  EXPECT_EQ(hone({"db", "verify"}).code, 0);
  const Outcome gc = hone({"db", "gc", "--dry-run"});
  EXPECT_EQ(gc.code, 0) << gc.err;
  EXPECT_EQ(gc.out.find("graph:small"), std::string::npos) << "a decision that is in use goes: " << gc.out;
}

// StableHLO, whose sums are of another order than the plan's; and what was decided is what compile and exec use.
TEST_F(TuneGraph, WhatWasDecidedIsWhatRuns) {
  const std::string mlp = std::string(HONE_EXAMPLES) + "/mlp.mlir";
  const Json before = Json::parse(hone({"compile", mlp, "--json"}).out);
  EXPECT_EQ(before["policy_reason"], "default");
  const Outcome out = hone({"tune", "--graph", mlp, "--tokens", "1", "--budget", "1s", "--threads", "1", "--json"});
  ASSERT_EQ(out.code, 0) << out.err;
  const Json decided = Json::parse(lines_of(out.out).at(0));
  const Json after = Json::parse(hone({"compile", mlp, "--threads", "1", "--json"}).out);
  EXPECT_EQ(after["policy_reason"], "exact");
  EXPECT_EQ(after["policy"], decided["policy"]);
  EXPECT_EQ(hone({"exec", mlp, "--random", "1", "--check"}).code, 0);
}

TEST_F(TuneGraph, OnePolicyAgainstTheDefault) {
  const Outcome out = tune({"--tokens", "2", "--budget", "1s", "--threads", "1", "--policy", "qkv=separate keys=rows"});
  ASSERT_EQ(out.code, 0) << out.err;
  const Json j = Json::parse(lines_of(out.out).at(0));
  EXPECT_EQ(j["enumerated"], 2);
  EXPECT_EQ(j["measured"], 2);
  EXPECT_THAT(j["policy"].get<std::string>(), AnyOf("default", "qkv=separate keys=rows"));
}

TEST_F(TuneGraph, WhatCannotBeIsOneLine) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {{{"--tokens", "17"}, "s"},
                                                                    {{"--tokens", "0"}, "--tokens"},
                                                                    {{"--tokens", "1,,2"}, "--tokens"},
                                                                    {{"--tokens", "1", "--position", "5000"}, "5000"},
                                                                    {{"--policy", "qkv=maybe"}, "maybe"},
                                                                    {{"--threads", "x"}, "x"}};
  for (const auto& [more, named] : cases) {
    const Outcome out = tune(more);
    EXPECT_NE(out.code, 0) << named;
    EXPECT_THAT(out.err, HasSubstr(named));
    EXPECT_EQ(out.out, "") << named;
  }
  const Outcome both = tune({"matmul:f32:m=1,n=2,k=3"});
  EXPECT_EQ(both.code, 2) << both.err;
  EXPECT_EQ(hone({"tune", "--tokens", "1"}).code, 2) << "without a graph";
  EXPECT_NE(hone({"tune", "--graph", file("absent.graph")}).code, 0);
}

}  // namespace
}  // namespace hone::cli_test
