// `hone bench --compare` of attention: rows of ours and of others, checked and in the same rounds; who has no attention
// says so, and what no peer can do is measured without them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/tools/needs_code.h"

namespace hone::cli_test {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class HoneCompare : public NeedsCode {
 protected:
  // What `hone bench` did, on problems that take microseconds.
  Outcome bench(const std::string& problem, const std::string& compare, const std::string& threads = "1") const {
    return run_hone(
        {"bench", problem, "--compare", compare, "--threads", threads, "--seconds", "0.05", "-r", "5", "-o", "jsonl"},
        {.env = {{"HONE_DB", file("none.db")}}});
  }
  // Is the peer built here?
  bool has(const std::string& peer) const { return bench("matmul:f32:m=1,n=16,k=16", peer).code == 0; }
};

std::map<std::string, Json> rows_of(const Outcome& outcome) {
  std::map<std::string, Json> rows;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) {
    const Json row = Json::parse(line);
    rows[row["impl"].get<std::string>() + "/" + std::to_string(row["threads"].get<int>())] = row;
  }
  return rows;
}

TEST_F(HoneCompare, AttentionWithOursWithoutAFusedKernel) {
  for (const std::string problem :
       {"attention:f32:b=1,hq=4,hkv=2,q=40,kv=50,d=16:causal", "attention:f32:b=2,hq=4,hkv=1,q=1,kv=300,d=16:lse",
        "attention:f32:b=1,hq=2,hkv=2,q=9,kv=64,d=16,k=blocked,page=16:window=20:mask:softcap=30"}) {
    const Outcome outcome = bench(problem, "hone-materialised", "1,2");
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const std::map<std::string, Json> rows = rows_of(outcome);
    ASSERT_EQ(rows.size(), 4U) << outcome.out;
    for (const auto& [name, row] : rows) EXPECT_GT(row["ns"], 0) << name;
    EXPECT_THAT(rows.at("hone-materialised/2")["plan"].get<std::string>(), HasSubstr("attention(materialised)"));
  }
}

TEST_F(HoneCompare, AttentionWithOneDnn) {
  if (!has("onednn")) GTEST_SKIP() << "peer onednn is not built: its -dev package was not found";
  for (const std::string problem :
       {"attention:f32:b=1,hq=4,hkv=2,q=70,kv=90,d=16:causal", "attention:f32:b=3,hq=4,hkv=2,q=1,kv=300,d=16,dv=24",
        "attention:f32:b=2,hq=4,hkv=2,q=33,kv=33,d=16,layout=bshd:causal",
        "attention:f32:b=1,hq=4,hkv=2,q=1,kv=100,d=16,k=blocked:scale=0.5"}) {
    const Outcome outcome = bench(problem, "onednn", "1,2");
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const std::map<std::string, Json> rows = rows_of(outcome);
    for (const std::string name : {"onednn/1", "onednn/2"}) {
      ASSERT_TRUE(rows.contains(name)) << outcome.out;
      EXPECT_EQ(rows.at(name)["why_not"], "") << problem;
      EXPECT_GT(rows.at(name)["ratio"], 0);
      EXPECT_THAT(rows.at(name)["plan"].get<std::string>(), HasSubstr("here: matmul, softmax, matmul"));
    }
  }
}

TEST_F(HoneCompare, WhatPeersLackIsSaid) {
  const std::map<std::string, std::string> lacks = {
      {"kv=0,d=16", "kv is at least 1"},      {"kv=40,d=16,page=16", "no pages"},   {"kv=40,d=16:window=8", "window"},
      {"kv=40,d=16:mask", "without a mask"},  {"kv=40,d=16:softcap=30", "softcap"}, {"kv=40,d=16:lse", "log-sum-exp"},
      {"kv=2,d=16:causal", "causal needs kv"}};
  for (const auto& [rest, why] : lacks) {
    const Outcome outcome = bench("attention:f32:b=1,hq=2,hkv=1,q=4," + rest, "all");
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    if (outcome.err.find("no peer is built") == std::string::npos) {
      EXPECT_THAT(outcome.err, HasSubstr(why));
    }
    EXPECT_THAT(outcome.out, Not(HasSubstr("onednn"))) << rest;
    EXPECT_TRUE(rows_of(outcome).contains("hone default/1")) << outcome.out;
  }
}

TEST_F(HoneCompare, WhoHasNoAttentionSaysSoWhenAsked) {
  if (!has("blis")) GTEST_SKIP() << "peer blis is not built: its -dev package was not found";
  const std::string problem = "attention:f32:b=1,hq=2,hkv=1,q=4,kv=9,d=16";
  const Outcome named = bench(problem, "blis");
  ASSERT_EQ(named.code, 0) << named.err;
  EXPECT_THAT(rows_of(named).at("blis/1")["why_not"].get<std::string>(), HasSubstr("blis has no attention"));
  EXPECT_FALSE(rows_of(bench(problem, "all")).contains("blis/1"));
}

TEST_F(HoneCompare, MaterialisedIsForAttention) {
  const Outcome outcome = bench("matmul:f32:m=1,n=16,k=16", "hone-materialised");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--compare hone-materialised is for attention"));
}

}  // namespace
}  // namespace hone::cli_test
