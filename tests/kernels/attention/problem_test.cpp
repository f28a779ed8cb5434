// Attention problems: texts, errors that show where they are, visible keys against the definition, counts.
#include "kernels/attention/problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernels/text/problem_text.h"
#include "tests/kernels/text/problem_properties.h"

namespace hone::attention {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

AttentionProblem parsed(std::string_view text) {
  Result<AttentionProblem> p = parse_problem(text);
  EXPECT_TRUE(p.ok()) << p.status().to_string();
  return p.ok() ? *p : AttentionProblem{};
}

TEST(AttentionProblemText, MinimalProblemIsDense) {
  const AttentionProblem p = parsed("attention:f32:b=1,hq=32,hkv=8,q=512,kv=512,d=128");
  EXPECT_EQ(p, (AttentionProblem{.heads = 32, .kv_heads = 8, .q = 512, .kv = 512, .d = 128}));
  EXPECT_EQ(p.group(), 4);
  EXPECT_EQ(p.value_dim(), 128);
  EXPECT_EQ(p.row_stride_o(), 128);
  EXPECT_EQ(p.scale_in_force(), static_cast<float>(1 / std::sqrt(128.0)));
}

TEST(AttentionProblemText, EveryKeyAndEveryOption) {
  const std::string text =
      "attention:f32:b=2,hq=6,hkv=3,q=5,kv=70,d=40,dv=24,ldq=48,ldk=41,ldv=32,ldo=25,page=7"
      ":causal:window=9:mask:softcap=30:scale=0.25:lse";
  const AttentionProblem p = parsed(text);
  EXPECT_EQ(p.batch, 2);
  EXPECT_EQ(p.heads, 6);
  EXPECT_EQ(p.kv_heads, 3);
  EXPECT_EQ(p.q, 5);
  EXPECT_EQ(p.kv, 70);
  EXPECT_EQ(p.d, 40);
  EXPECT_EQ(p.value_dim(), 24);
  EXPECT_EQ(p.row_stride_q(), 48);
  EXPECT_EQ(p.row_stride_k(), 41);
  EXPECT_EQ(p.row_stride_v(), 32);
  EXPECT_EQ(p.row_stride_o(), 25);
  EXPECT_EQ(p.page, 7);
  EXPECT_TRUE(p.causal);
  EXPECT_EQ(p.window, 9);
  EXPECT_EQ(p.mask, MaskKind::kAdditive);
  EXPECT_EQ(p.softcap, 30);
  EXPECT_EQ(p.scale_in_force(), 0.25F);
  EXPECT_TRUE(p.lse);
  EXPECT_EQ(to_string(p), text);
  EXPECT_EQ(family(p),
            "attention:f32:hq=6,hkv=3,d=40,dv=24,ldq=48,ldk=41,ldv=32,ldo=25,page=7"
            ":causal:window=9:mask:softcap=30:scale=0.25:lse");
}

TEST(AttentionProblemText, OptionsInAnyOrder) {
  EXPECT_EQ(to_string(parsed("attention:f32:d=8,kv=3,q=3,hkv=1,hq=1,b=1:lse:boolmask:causal")),
            "attention:f32:b=1,hq=1,hkv=1,q=3,kv=3,d=8:causal:boolmask:lse");
}

TEST(AttentionProblemText, WhatIsTheDefaultIsLeftOut) {
  EXPECT_EQ(to_string(parsed("attention:f32:b=1,hq=2,hkv=1,q=3,kv=4,d=64,dv=64,ldq=64,ldk=64,ldv=64,ldo=64,page=0,"
                             "k=rows,layout=bhsd:window=7:softcap=-0:scale=0.125")),
            "attention:f32:b=1,hq=2,hkv=1,q=3,kv=4,d=64");
  EXPECT_EQ(parsed("attention:f32:b=1,hq=2,hkv=1,q=3,kv=4,d=64:window=6").window, 6);
}

TEST(AttentionProblemText, BshdIsRowStrides) {
  EXPECT_EQ(to_string(parsed("attention:f32:b=1,hq=4,hkv=2,q=3,kv=4,d=8,dv=6,layout=bshd")),
            "attention:f32:b=1,hq=4,hkv=2,q=3,kv=4,d=8,dv=6,ldq=32,ldk=16,ldv=12,ldo=24");
  EXPECT_EQ(to_string(parsed("attention:f32:layout=bshd,k=blocked,b=1,hq=4,hkv=2,q=3,kv=4,d=8")),
            "attention:f32:b=1,hq=4,hkv=2,q=3,kv=4,d=8,ldq=32,ldv=16,ldo=32,k=blocked");
}

AttentionProblem random_problem(std::mt19937& random) {
  auto pick = [&](int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(random); };
  AttentionProblem p{.batch = pick(0, 3), .kv_heads = pick(1, 4), .q = pick(0, 12), .kv = pick(0, 12), .d = pick(1, 9)};
  p.heads = p.kv_heads * pick(1, 3);
  if (pick(0, 1)) p.dv = pick(1, 9);
  if (pick(0, 1)) p.k = KeyLayout::kBlocked;
  if (pick(0, 1)) p.page = p.k == KeyLayout::kBlocked ? 16 * pick(1, 3) : pick(1, 20);
  if (pick(0, 1)) p.ldq = p.d + pick(0, 5);
  if (pick(0, 1) && p.k == KeyLayout::kRows) p.ldk = p.d + pick(0, 5);
  if (pick(0, 1)) p.ldv = p.value_dim() + pick(0, 5);
  if (pick(0, 1)) p.ldo = p.value_dim() + pick(0, 5);
  p.causal = pick(0, 1);
  if (pick(0, 1)) p.window = pick(1, 30);
  p.mask = static_cast<MaskKind>(pick(0, 2));
  if (pick(0, 1)) p.softcap = std::uniform_real_distribution<float>(0.001F, 50)(random);
  if (pick(0, 1)) p.scale = std::uniform_real_distribution<float>(-2, 2)(random);
  p.lse = pick(0, 1);
  return p;
}

TEST(AttentionProblemProperty, RoundTrip) { text::expect_round_trips(random_problem, parse_problem); }

TEST(AttentionProblemFuzz, NeverCrashesAndAnswersInOneLine) {
  text::expect_answers_in_one_line(10000, "ateniof32:=,hqkvdpgcuslwm0189-+*{}.;\xc3\xa4 \n\t", random_problem,
                                   parse_problem, parse_problems);
}

TEST(AttentionProblemErrors, SayWhatAndWhere) {
  const std::string one = "attention:f32:b=1,hq=1,hkv=1,q=1,kv=1,d=1";  // 41 characters
  const text::Bad cases[] = {
      {"", "is empty", 1},
      {"attention:", "dtype '' is not supported by attention", 11, Code::kUnsupported},
      {"attention:f16:b=1", "dtype 'f16' is not supported by attention; dtypes: f32", 11, Code::kUnsupported},
      {"attention:f32:b=1,hq=1,hkv=1,q=1,kv=1", "key 'd' is missing", 38},
      {"attention:f32:b=1,hq=1,hq=1", "key 'hq' appears twice", 24},
      {"attention:f32:b=1,heads=1", "unknown key 'heads'", 19},
      {"attention:f32:b=1,hq=1-2", "expected ',' or ':', found '-'", 23},
      {"attention:f32:b=1-2,hq=1", "a range where one problem is wanted", 17},
      {one + ",layout=bsdh", "unknown layout 'bsdh' (bhsd or bshd)", 50},
      {one + ",ldq=2,layout=bshd", "layout=bshd gives ldq already", 56},
      {one + ",k=cols", "unknown layout 'cols' of K", 45},
      {one + ":", "expected an option, found the end", 43},
      {one + ":casual", "unknown option 'casual'", 43},
      {one + ":causal:causal", "option 'causal' appears twice", 50},
      {one + ":causal,", "expected ':', found ','", 49},
      {one + ":window", "expected '=' after 'window', found the end", 49},
      {one + ":window=0", "a window has at least 1 key", 50},
      {one + ":mask:boolmask", "there is one mask", 48},
      {one + ":softcap=x", "'x' is not a decimal number", 51},
      {one + ":softcap=-1", "softcap=-1 must be positive", 0},
      {one + ":scale=inf", "'inf' is not a decimal number", 49},
      // Case a13.
      {"attention:f32:b=1,hq=8,hkv=3,q=1,kv=1,d=1", "hq=8 is no multiple of hkv=3", 0},
      {"attention:f32:b=1,hq=0,hkv=1,q=1,kv=1,d=1", "hq=0 must be at least 1", 0},
      {"attention:f32:b=1,hq=1,hkv=0,q=1,kv=1,d=1", "hkv=0 must be at least 1", 0},
      {"attention:f32:b=1,hq=1,hkv=1,q=1,kv=1,d=0", "d=0 must be at least 1", 0},
      {"attention:f32:b=1,hq=1,hkv=1,q=1,kv=1,d=4,ldk=3", "ldk=3 is less than a row of K (d=4)", 0},
      {"attention:f32:b=1,hq=1,hkv=1,q=1,kv=1,d=4,dv=6,ldo=5", "ldo=5 is less than a row of O (dv=6)", 0},
      {one + ",k=blocked,ldk=1", "ldk=1 has no meaning with k=blocked", 0},
      {one + ",k=blocked,page=24", "page=24 with k=blocked must be a multiple of 16", 0},
      {"attention:f32:b=9223372036854775807,hq=1,hkv=1,q=0,kv=0,d=1", "is too large: at most", 0},
      {"attention:f32:b=1,hq=1,hkv=1,q=9223372036854775807,kv=1,d=1", "too large: the bytes of Q", 0},
      {"attention:f32:b=1,hq=1,hkv=1,q=1,kv=9223372036854775807,d=1", "too large: the bytes of K", 0},
      {"attention:f32:b=1,hq=1,hkv=1,q=4294967296,kv=4294967296,d=1", "too large: the bytes of the scores", 0},
      {"attention:f32:b=1,hq=4,hkv=1,q=1,kv=1,d=9223372036854775807,layout=bshd", "too large: a row stride", 68},
      {one + ",page=9223372036854775807", "too large: the bytes of", 0},
  };
  text::expect_refused(cases, problem_grammar(), parse_problem);
}

TEST(AttentionProblemRanges, InBatchRowsAndKeys) {
  const auto all = parse_problems("attention:f32:b={1,3},hq=2,hkv=1,q=1,kv=512-2048*2,d=64").value();
  std::vector<std::pair<int64_t, int64_t>> sizes;
  for (const AttentionProblem& p : all) sizes.emplace_back(p.batch, p.kv);
  EXPECT_THAT(sizes, ElementsAre(std::pair(1, 512), std::pair(1, 1024), std::pair(1, 2048), std::pair(3, 512),
                                 std::pair(3, 1024), std::pair(3, 2048)));
  const auto too_many = parse_problems("attention:f32:b=1-1000,hq=2,hkv=1,q=1-1000,kv=1,d=64");
  ASSERT_FALSE(too_many.ok());
  EXPECT_THAT(too_many.status().message(), HasSubstr("more than 100000 problems"));
}

bool visible_by_definition(const AttentionProblem& p, int64_t q, int64_t kv, int64_t i, int64_t j) {
  const int64_t position = i + kv - q;
  if (p.causal && j > position) return false;
  if (p.window > 0 && j <= position - p.window) return false;
  return p.window == 0 || p.causal || j < position + p.window;
}

TEST(AttentionProblemVisible, IsTheDefinition) {
  for (int64_t q = 0; q <= 9; ++q)
    for (int64_t kv = 0; kv <= 9; ++kv)
      for (int64_t window : {0, 1, 2, 3, 8, 30})
        for (bool causal : {false, true}) {
          const AttentionProblem p{.batch = 2,
                                   .heads = 6,
                                   .kv_heads = 3,
                                   .q = q,
                                   .kv = kv,
                                   .d = 4,
                                   .dv = 3,
                                   .causal = causal,
                                   .window = window};
          int64_t pairs = 0, keys = 0;
          std::vector<bool> seen(static_cast<size_t>(kv));
          for (int64_t i = 0; i < q; ++i) {
            const Visible v = visible_keys(p, q, kv, i);
            for (int64_t j = 0; j < kv; ++j) {
              const bool want = visible_by_definition(p, q, kv, i, j);
              ASSERT_EQ(j >= v.begin && j < v.end, want) << to_string(p) << " row " << i << " key " << j;
              pairs += want;
              if (want) seen[static_cast<size_t>(j)] = true;
            }
          }
          for (bool s : seen) keys += s;
          ASSERT_EQ(p.visible_pairs(), pairs) << to_string(p);
          ASSERT_EQ(p.flops(), 2.0 * 7 * static_cast<double>(pairs) * 12) << to_string(p);
          ASSERT_EQ(p.kv_bytes(), 4.0 * 7 * static_cast<double>(keys) * 6) << to_string(p);
        }
}

// Cases a2 and a3: the last row sits at the last key.
TEST(AttentionProblemVisible, CausalIsAlignedBottomRight) {
  const AttentionProblem more_keys{.q = 32, .kv = 1024, .d = 8, .causal = true};
  EXPECT_EQ(visible_keys(more_keys, 32, 1024, 0).end, 993);
  EXPECT_EQ(visible_keys(more_keys, 32, 1024, 31).end, 1024);
  const AttentionProblem more_rows{.q = 5, .kv = 2, .d = 8, .causal = true};
  EXPECT_EQ(visible_keys(more_rows, 5, 2, 2).end, 0);
  EXPECT_EQ(visible_keys(more_rows, 5, 2, 3).end, 1);
}

TEST(AttentionProblemVisible, LargeSizesDoNotOverflow) {
  const AttentionProblem p{.q = int64_t{1} << 30, .kv = int64_t{1} << 30, .d = 1, .causal = true};
  EXPECT_TRUE(validate(p).ok());
  EXPECT_EQ(p.visible_pairs(), (int64_t{1} << 59) + (int64_t{1} << 29));
  const AttentionProblem wide{.q = 3, .kv = 4, .d = 1, .window = kHuge};
  EXPECT_EQ(wide.visible_pairs(), 12);
  EXPECT_EQ(canonical(wide).window, 0);
}

}  // namespace
}  // namespace hone::attention
