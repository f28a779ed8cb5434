// Inputs that broke other engines' attention, through the public API: every place that K and V may lie in, every way to
// execute. The id of the row is in the name of the test.
#include <gmock/gmock.h>

#include <cfloat>

#include "tests/engine/attention_util.h"

namespace hone {
namespace {

using ::testing::HasSubstr;
using testing_api::all_places;
using testing_api::AttentionOperands;
using testing_api::check;
using testing_api::EngineWith;
using testing_api::kNaN;

constexpr float kInf = std::numeric_limits<float>::infinity();

class EngineAttentionTraps : public ::testing::TestWithParam<std::string> {
 protected:
  EngineAttentionTraps() : engine_(GetParam()) {}
  // The interpreter runs a hundred times slower, LLVM compiles thirty times slower: fewer shapes, not other ones.
  bool slow() const { return GetParam() == "interp" || GetParam() == "llvm"; }

  // Each place in turn, with operands that `change` has had its hands on.
  template <typename Change>
  void everywhere(const AttentionSpec& spec, int64_t q, int64_t kv, Change change) {
    all_places(spec, [&](const AttentionSpec& placed, const std::string& name) {
      SCOPED_TRACE(name);
      AttentionOperands o(placed, q, kv);
      change(o);
      check(*engine_, placed, o);
    });
  }
  void everywhere(const AttentionSpec& spec, int64_t q, int64_t kv) {
    everywhere(spec, q, kv, [](AttentionOperands&) {});
  }

  EngineWith engine_;
};

INSTANTIATE_TEST_SUITE_P(, EngineAttentionTraps, ::testing::ValuesIn(testing_api::all_codegens()),
                         [](const auto& param) { return param.param; });

void expect_row(const AttentionOperands& o, int64_t heads, int64_t i, float out, float lse) {
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t c = 0; c < o.problem().value_dim(); ++c) EXPECT_EQ(o.out.at(h, i, c), out) << "row " << i;
    EXPECT_EQ(o.lse.at(h, i), lse);
  }
}

TEST_P(EngineAttentionTraps, a1_fully_masked_row_is_zeros) {
  const AttentionSpec spec{
      .heads = 4, .kv_heads = 2, .head_dim = 24, .mask = AttentionMask::kAdditive, .lse = true, .max_q = 0};
  AttentionOperands additive(spec, 5, 37);
  for (int64_t j = 0; j < 37; ++j) additive.mask_at(2, j) = -kInf;
  check(*engine_, spec, additive);
  expect_row(additive, 4, 2, 0, -kInf);
  for (float v : {additive.out.at(0, 1, 0), additive.out.at(3, 3, 23)}) EXPECT_FALSE(std::isnan(v));

  AttentionSpec boolean = spec;
  boolean.mask = AttentionMask::kBoolean;
  AttentionOperands bytes(boolean, 5, 37);
  std::ranges::fill(bytes.mask_bytes().subspan(2 * 37, 37), uint8_t{0});
  check(*engine_, boolean, bytes);
  expect_row(bytes, 4, 2, 0, -kInf);
}

TEST_P(EngineAttentionTraps, a1_no_keys_at_all) {
  const AttentionSpec spec{.heads = 2, .head_dim = 8, .lse = true, .max_q = 0};
  AttentionOperands o(spec, 3, 0);
  check(*engine_, spec, o);
  for (int64_t i = 0; i < 3; ++i) expect_row(o, 2, i, 0, -kInf);
}

TEST_P(EngineAttentionTraps, a2_more_rows_than_keys) {
  const AttentionSpec spec{.heads = 3, .head_dim = 16, .causal = true, .lse = true, .max_q = 0};
  everywhere(spec, 20, 9);
  AttentionOperands o(spec, 20, 9);
  check(*engine_, spec, o);
  for (int64_t i = 0; i < 11; ++i) expect_row(o, 3, i, 0, -kInf);
  EXPECT_EQ(o.out.at(0, 11, 0), *o.value_row(0, 0));  // the first row that sees a key
}

TEST_P(EngineAttentionTraps, a3_causal_is_aligned_at_the_last_key) {
  everywhere({.heads = 2, .kv_heads = 1, .head_dim = 32, .causal = true}, 32, slow() ? 300 : 1024);
}

TEST_P(EngineAttentionTraps, a4_nan_in_q_is_nan_in_o) {
  const AttentionSpec spec{.heads = 2, .head_dim = 16, .causal = true, .lse = true, .max_q = 0};
  everywhere(spec, 9, 40, [](AttentionOperands& o) { o.query.fill(kNaN); });
  AttentionOperands all(spec, 9, 40), one(spec, 9, 40);
  all.query.fill(kNaN);
  check(*engine_, spec, all);
  all.out.each([](float& v) { EXPECT_TRUE(std::isnan(v)); });
  for (int64_t p = 0; p < 16; ++p) one.query.at(1, 4, p) = kNaN;
  check(*engine_, spec, one);
  for (int64_t i = 0; i < 9; ++i)
    for (int64_t c = 0; c < 16; ++c) EXPECT_EQ(std::isnan(one.out.at(1, i, c)), i == 4);
}

TEST_P(EngineAttentionTraps, a5_mask_row_of_the_lowest_float_gives_uniform_weights) {
  const AttentionSpec spec{.heads = 1, .head_dim = 8, .mask = AttentionMask::kAdditive, .max_q = 0};
  AttentionOperands o(spec, 3, 20);
  for (int64_t j = 0; j < 20; ++j) o.mask_at(1, j) = -FLT_MAX;
  check(*engine_, spec, o);
  for (int64_t c = 0; c < 8; ++c) {
    double mean = 0;
    for (int64_t j = 0; j < 20; ++j) mean += o.value_row(0, j)[c] / 20.0;
    EXPECT_NEAR(o.out.at(0, 1, c), mean, 1e-6);
  }
}

TEST_P(EngineAttentionTraps, a6_first_rows_hidden_by_the_mask) {
  const AttentionSpec spec{.heads = 1, .head_dim = 512, .mask = AttentionMask::kAdditive, .max_q = 0};
  everywhere(spec, 17, 33, [](AttentionOperands& o) {
    for (int64_t i = 0; i < 14; ++i)
      for (int64_t j = 0; j < 33; ++j) o.mask_at(i, j) = -kInf;
  });
  AttentionOperands o(spec, 17, 33);
  check(*engine_, spec, o);
  o.out.each([](float& v) { EXPECT_TRUE(std::isfinite(v)); });
}

TEST_P(EngineAttentionTraps, a7_stride_0_k_and_v) {
  const AttentionSpec spec{.heads = 4, .head_dim = 16, .max_q = 0};
  for (int64_t kv : {1, 33, 65}) {
    AttentionOperands o(spec, 5, kv);
    o.sequence.k_head = o.sequence.v_head = 0;
    check(*engine_, spec, o);
  }
}

TEST_P(EngineAttentionTraps, a8_odd_heads_with_mask_and_causal) {
  const AttentionSpec spec{.heads = 13, .head_dim = 37, .causal = true, .mask = AttentionMask::kBoolean, .max_q = 0};
  everywhere(spec, 7, 7, [](AttentionOperands& o) {
    const uint8_t seen[] = {0, 1, 1, 0, 0, 1, 0};
    for (size_t i = 0; i < 49; ++i) o.mask_bytes()[i] = seen[i % 7];
  });
}

TEST_P(EngineAttentionTraps, a9_head_dimensions) {
  for (int64_t d : {40, 80, 88, 96, 224, 512, 576}) {
    if (slow() && d % 16 == 0 && d != 96) continue;
    const AttentionSpec spec{.heads = 2, .kv_heads = 1, .head_dim = d, .value_dim = d == 576 ? 512 : 0, .max_q = 0};
    Result<Attention> attention = engine_->prepare(spec);
    ASSERT_TRUE(attention.ok()) << attention.status().to_string();
    for (int64_t tokens = 2; tokens <= 9; ++tokens) {
      AttentionOperands o(spec, tokens, tokens);
      ASSERT_TRUE(attention->run(o.sequence).ok());
      testing_api::expect_result(o, "online(256)");
    }
  }
}

TEST_P(EngineAttentionTraps, a10_scores_beyond_65504) {
  everywhere({.heads = 2, .head_dim = 64}, 6, 50, [](AttentionOperands& o) {
    o.query.each([](float& v) { v *= 3000; });
    o.key.each([](float& v) { v *= 3000; });
  });
}

TEST_P(EngineAttentionTraps, a11_causal_softcap_random_mask_and_bias) {
  everywhere(
      {.heads = 4, .kv_heads = 2, .head_dim = 40, .causal = true, .mask = AttentionMask::kAdditive, .softcap = 30}, 19,
      70, [](AttentionOperands& o) {
        std::mt19937 random(7);
        o.mask.each([&](float& v) { v = random() % 10 < 7 ? -kInf : 4 * v; });
      });
}

TEST_P(EngineAttentionTraps, a12_split_keys_with_empty_runs) {
  for (int64_t kv : {1, 15, 17, 40, 200}) {
    const AttentionSpec spec{
        .heads = 4, .kv_heads = 2, .head_dim = 24, .causal = true, .lse = true, .numerics = "split(16,4)", .max_q = 0};
    if (GetParam() == "precompiled") {  // which has two classes only, and never gives another than was asked for
      const Status refused = engine_->prepare(spec)->plan(3, kv).status();
      EXPECT_EQ(refused.code(), Code::kUnsupported);
      EXPECT_THAT(refused.message(), HasSubstr("numerics 'split(16,4)' needs generated code"));
      continue;
    }
    everywhere(spec, 3, kv);  // of one key: rows that see none, and splits without keys
  }
}

TEST_P(EngineAttentionTraps, a13_query_heads_over_kv_heads) {
  everywhere({.heads = 9, .kv_heads = 3, .head_dim = 16, .causal = true}, 10, 21);
  everywhere({.heads = 14, .kv_heads = 2, .head_dim = 16}, 1, 21);
  const Result<Attention> refused = engine_->prepare({.heads = 8, .kv_heads = 3, .head_dim = 16});
  EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("hq=8 is no multiple of hkv=3"));
}

TEST_P(EngineAttentionTraps, window_softcap_and_strides) {
  for (HeadLayout layout : {HeadLayout::kHeadsFirst, HeadLayout::kRowsFirst}) {
    AttentionSpec spec{.heads = 4,
                       .kv_heads = 2,
                       .head_dim = 20,
                       .value_dim = 12,
                       .layout = layout,
                       .window = 9,
                       .scale = 0.3f,
                       .lse = true};
    everywhere(spec, 13, 40);
    spec.causal = true;
    everywhere(spec, 13, 40);
    spec.ldq = spec.layout == HeadLayout::kRowsFirst ? 4 * 20 + 5 : 27;
    spec.ldk = spec.ldv = 64, spec.ldo = 4 * 12 + 1;
    everywhere(spec, 13, 40);
  }
}

}  // namespace
}  // namespace hone
