// The precompiled attention gives the bits of its classes, on CPUs with and without AVX2, in parts in any order.
#include "kernels/attention/fallback.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/math/array_math.h"
#include "tests/kernels/attention/attention_testing.h"

namespace hone::attention {
namespace {

void run_all(const TestSequence& t, FallbackClass numerics) {
  fallback_attention(t.problem(), t.sequence(), numerics, 0, fallback_parts(t.problem(), t.sequence()));
}

void expect_bits(TestSequence& t, uint64_t seed) {
  run_all(t, FallbackClass::kOnline);
  const Comparison online = t.compare_with_class("online(256)");
  EXPECT_TRUE(online.ok()) << to_string(t.problem()) << " seed " << seed << " online: " << online.text;
  t.reset();
  run_all(t, FallbackClass::kOrdered);
  const Comparison ordered = t.compare_with_class("ordered");
  EXPECT_TRUE(ordered.ok()) << to_string(t.problem()) << " seed " << seed << " ordered: " << ordered.text;
}

TEST(AttentionFallbackProperty, RandomProblemsInGuardedMemory) {
  for (uint64_t seed = 1; seed <= 250; ++seed) {
    const bool large = seed % 25 == 0;
    TestSequence t(random_problem(seed, {large ? 9 : 80, large ? 40 : 100, large ? 576 : 40}), seed);
    expect_bits(t, seed);
    if (HasFailure()) return;
  }
}

// Several blocks of keys, several parts of rows, rows whose keys begin and end anywhere in a block.
TEST(AttentionFallback, ManyBlocks) {
  uint64_t seed = 1;
  for (const char* text : {"attention:f32:b=1,hq=2,hkv=1,q=70,kv=600,d=9,dv=17:causal:lse",
                           "attention:f32:b=1,hq=1,hkv=1,q=300,kv=270,d=8:causal:window=40:lse",
                           "attention:f32:b=1,hq=1,hkv=1,q=40,kv=520,d=300,page=100:window=300:mask",
                           "attention:f32:b=1,hq=3,hkv=1,q=1,kv=1025,d=16,k=blocked:boolmask:softcap=30"}) {
    const AttentionProblem p = parse_problem(text).value();
    TestSequence t(p, seed);
    expect_bits(t, seed++);
  }
}

TEST(AttentionFallback, PortableVersionHasTheSameBits) {
  math::pretend_no_avx2_for_testing(true);
  for (uint64_t seed = 1; seed <= 25; ++seed) {
    TestSequence t(random_problem(seed, {12, 40, 20}), seed);
    expect_bits(t, seed);
  }
  math::pretend_no_avx2_for_testing(false);
}

TEST(AttentionFallback, PartsGiveTheWhole) {
  TestSequence t(parse_problem("attention:f32:b=1,hq=4,hkv=2,q=70,kv=90,d=16:causal:lse").value(), 5);
  const int64_t parts = fallback_parts(t.problem(), t.sequence());
  EXPECT_EQ(parts, 12);
  for (int64_t part = parts; part-- > 0;)
    fallback_attention(t.problem(), t.sequence(), FallbackClass::kOnline, part, part + 1);
  EXPECT_EQ(t.compare_with_class("online(256)").text, "");
}

TEST(AttentionFallback, NothingToDo) {
  TestSequence no_rows(parse_problem("attention:f32:b=1,hq=4,hkv=2,q=0,kv=90,d=16").value(), 5);
  EXPECT_EQ(fallback_parts(no_rows.problem(), no_rows.sequence()), 0);
  TestSequence no_keys(parse_problem("attention:f32:b=1,hq=4,hkv=2,q=3,kv=0,d=16:lse").value(), 5);
  expect_bits(no_keys, 5);
}

}  // namespace
}  // namespace hone::attention
