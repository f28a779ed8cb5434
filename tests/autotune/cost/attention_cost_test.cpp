// Facts that the order of measuring attention must show.
#include "autotune/cost/attention_cost.h"

#include <gtest/gtest.h>

namespace hone::autotune {
namespace {

op::Problem problem(std::string_view text) {
  Result<op::Problem> p = op::parse_problem(text);
  EXPECT_TRUE(p.ok()) << text << ": " << p.status().message();
  return *p;
}

CostMachine machine() { return {.cpus = 2, .caches = {.l1d = 48 << 10, .l2 = 2 << 20, .l3_share = 4 << 20}}; }

double cost(const op::Problem& p, attention::AttentionProgram t, int threads = 1) {
  return estimated_ns(p, {op::canonical(p, t), "asmjit", threads}, machine());
}

attention::AttentionProgram start(const op::Problem& p) {
  return std::get<attention::AttentionProgram>(
      op::default_program(p, {.isa = Isa::kAvx512, .caches = machine().caches, .numerics = ""}));
}

TEST(AttentionCost, TallTilesBeatFlatOnesInPrefill) {
  const op::Problem p = problem("attention:f32:b=1,hq=8,hkv=2,q=512,kv=512,d=128");
  attention::AttentionProgram tall = start(p), flat = tall;
  tall.mr = tall.vr = 14, tall.nr = tall.vn = 32, tall.tile_rows = 28;
  flat.mr = flat.vr = 2, flat.nr = flat.vn = 32, flat.tile_rows = 28;
  EXPECT_LT(cost(p, tall), cost(p, flat));
}

TEST(AttentionCost, TransposingForFewRowsIsDear) {
  const op::Problem p = problem("attention:f32:b=1,hq=8,hkv=8,q=512,kv=512,d=128");
  attention::AttentionProgram many = start(p), few = many;
  many.bq = 256, few.bq = 8;
  EXPECT_LT(cost(p, many), cost(p, few));
}

TEST(AttentionCost, CausalCostsLessAndThreadsHelp) {
  const op::Problem full = problem("attention:f32:b=1,hq=8,hkv=8,q=1024,kv=1024,d=64");
  const op::Problem causal = problem("attention:f32:b=1,hq=8,hkv=8,q=1024,kv=1024,d=64:causal");
  const attention::AttentionProgram t = start(full);
  EXPECT_LT(cost(causal, t), 0.75 * cost(full, t))
      << estimate(std::get<attention::AttentionProblem>(causal), t, 1, machine()).breakdown() << "\n"
      << estimate(std::get<attention::AttentionProblem>(full), t, 1, machine()).breakdown();
  EXPECT_LT(cost(full, t, 2), 0.6 * cost(full, t, 1));
}

TEST(AttentionCost, OneHeadIsSharedOutOnlyWhenKeysAreSplit) {
  const op::Problem p = problem("attention:f32:b=1,hq=1,hkv=1,q=1,kv=32768,d=128");
  attention::AttentionProgram whole = start(p), split = whole;
  split.algorithm = attention::Algorithm::kSplit, split.splits = 2;
  EXPECT_LT(cost(p, split, 2), cost(p, whole, 2));
}

TEST(AttentionCost, LongDecodeTakesWhatReadingTakes) {
  const op::Problem p = problem("attention:f32:b=1,hq=32,hkv=8,q=1,kv=32768,d=128");
  const double reading = op::streamed_bytes(p) / machine().dram_gbs_1t;
  EXPECT_GE(cost(p, start(p)), reading);
  EXPECT_LE(cost(p, start(p)), 2 * reading);
}

}  // namespace
}  // namespace hone::autotune
