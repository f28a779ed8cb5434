// The references against an independent softmax in long double, and the rows of the list of inputs that broke others.
#include "kernels/attention/reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/kernels/attention/attention_testing.h"

namespace hone::attention {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr const char* kClasses[] = {"ordered",     "online(16)",  "online(48)",    "online(256)",
                                    "split(16,2)", "split(32,3)", "split(256,13)", "split(16,2)"};

// Softmax by the book: no maximum is subtracted unless it is needed, nothing is skipped but what is not visible.
struct Book {
  std::vector<long double> o;
  long double lse;
};

Book by_the_book(TestSequence& t, int64_t h, int64_t i) {
  const AttentionProblem& p = t.problem();
  const Sequence& s = t.sequence();
  const int64_t g = h * p.kv_heads / p.heads, position = i + s.kv - s.q;
  std::vector<long double> score(static_cast<size_t>(s.kv), -INFINITY);
  long double top = -INFINITY;
  for (int64_t j = 0; j < s.kv; ++j) {
    if (p.causal && j > position) continue;
    if (p.window > 0 && j + p.window <= position) continue;
    if (p.window > 0 && !p.causal && j >= position + p.window) continue;
    long double dot = 0;
    for (int64_t c = 0; c < p.d; ++c) {
      dot += static_cast<long double>(s.query[h * s.q_head + i * p.row_stride_q() + c]) * t.key(g, j, c);
    }
    dot *= p.scale_in_force();
    if (p.softcap > 0) dot = p.softcap * std::tanh(dot / p.softcap);
    const int64_t at = h * s.mask_head + i * s.mask_row + j;
    if (p.mask == MaskKind::kAdditive) dot += static_cast<const float*>(s.mask)[at];
    if (p.mask == MaskKind::kBoolean && static_cast<const char*>(s.mask)[at] == 0) dot = -INFINITY;
    score[static_cast<size_t>(j)] = dot;
    if (!(dot <= top) && !std::isnan(top)) top = dot;
  }
  long double total = 0;
  Book b{std::vector<long double>(static_cast<size_t>(p.value_dim()), 0), -INFINITY};
  if (top == -INFINITY) return b;
  for (int64_t j = 0; j < s.kv; ++j) {
    const long double w = std::exp(score[static_cast<size_t>(j)] - top);
    total += w;
    if (w == 0) continue;
    for (int64_t c = 0; c < p.value_dim(); ++c) b.o[static_cast<size_t>(c)] += w * t.value(g, j, c);
  }
  for (long double& o : b.o) o /= total;
  b.lse = top + std::log(total);
  return b;
}

TEST(AttentionReferenceProperty, F64IsTheBook) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    TestSequence t(random_problem(seed, {20, 70, 40}), seed);
    const AttentionProblem& p = t.problem();
    SCOPED_TRACE(to_string(p) + " seed " + std::to_string(seed));
    const Reference r = reference_f64(p, t.sequence());
    size_t at = 0, row = 0;
    for (int64_t h = 0; h < p.heads; ++h)
      for (int64_t i = 0; i < p.q; ++i, ++row) {
        const Book b = by_the_book(t, h, i);
        for (int64_t c = 0; c < p.value_dim(); ++c, ++at) {
          const long double want = b.o[static_cast<size_t>(c)];
          ASSERT_EQ(std::isnan(r.value[at]), std::isnan(want)) << h << " " << i << " " << c;
          if (!std::isnan(want)) {
            ASSERT_NEAR(r.value[at], static_cast<double>(want), 1e-12) << h << " " << i << " " << c;
          }
        }
        if (p.lse && !std::isnan(b.lse) && !std::isinf(b.lse)) {
          ASSERT_NEAR(r.lse[row], static_cast<double>(b.lse), 1e-12 + 1e-15 * std::fabs(static_cast<double>(b.lse)));
        }
      }
  }
}

double worst_of(TestSequence& t, const char* numerics) {
  t.reset();
  class_f32(t.problem(), t.sequence(), numerics);
  const Comparison c = compare(t.problem(), t.sequence(), reference_f64(t.problem(), t.sequence()));
  EXPECT_TRUE(c.ok()) << to_string(t.problem()) << " " << numerics << ": " << c.text;
  return c.worst;
}

TEST(AttentionReferenceProperty, EveryClassIsWithinTheBound) {
  double worst = 0;
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    TestSequence t(random_problem(seed, {9, 270, seed % 20 == 0 ? 576 : 50}), seed);
    for (const char* numerics : kClasses) {
      worst = std::max(worst, worst_of(t, numerics));
      if (HasFailure()) FAIL() << "seed " << seed;
    }
  }
  // A bound that nothing comes near shows nothing.
  EXPECT_GT(worst, 0.02);
}

TEST(AttentionReferenceProperty, BitsOfAClassAreThoseOfItsParts) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    AttentionProblem p = random_problem(seed, {9, 90, 24});
    const TestSequence t(p, seed);
    const auto equal = [&](std::string_view one, std::string_view other) {
      class_f32(p, t.sequence(), one);
      return t.compare_with_class(other).text;
    };
    const std::string all = std::to_string((p.kv + 15) / 16 * 16 + 16);
    EXPECT_EQ(equal("ordered", "online(" + all + ")"), "") << seed;
    if (p.kv <= 16) {
      EXPECT_EQ(equal("online(16)", "ordered"), "") << seed;
    }
  }
}

TEST(AttentionReference, UnknownClassIsNanEverywhere) {
  for (const char* name : {"", "online", "online(0)", "online(17)", "online(16", "online(16)x", "split(16)",
                           "split(16,0)", "split(16,2", "Ordered"}) {
    TestSequence t(parse_problem("attention:f32:b=1,hq=1,hkv=1,q=2,kv=5,d=4").value(), 1);
    class_f32(t.problem(), t.sequence(), name);
    for (int i = 0; i < 8; ++i) EXPECT_TRUE(std::isnan(t.sequence().out[i])) << name;
  }
}

TEST(AttentionReference, ComparisonFindsWhatIsOutOfPlace) {
  TestSequence t(parse_problem("attention:f32:b=1,hq=2,hkv=1,q=3,kv=5,d=4:lse").value(), 3, 5, 1,
                 {.dense = true, .bad_key = false});
  const Reference r = reference_f64(t.problem(), t.sequence());
  class_f32(t.problem(), t.sequence(), "ordered");
  EXPECT_TRUE(compare(t.problem(), t.sequence(), r).ok());
  EXPECT_TRUE(t.compare_with_class("ordered").ok());
  const float right = t.sequence().out[7];
  for (const float wrong : {std::numeric_limits<float>::quiet_NaN(), kInf, -right, right + 1e-3F}) {
    t.sequence().out[7] = wrong;
    EXPECT_EQ(compare(t.problem(), t.sequence(), r).mismatches, 1) << wrong;
    EXPECT_EQ(t.compare_with_class("ordered").mismatches, 1) << wrong;
  }
  EXPECT_NE(t.compare_with_class("ordered").text.find("O[0][1,3]"), std::string::npos);
  t.sequence().out[7] = std::nextafter(right, 9.0F);
  EXPECT_TRUE(compare(t.problem(), t.sequence(), r).ok());
  EXPECT_EQ(t.compare_with_class("ordered").mismatches, 1);
  t.sequence().out[7] = right;
  t.sequence().lse[5] += 0.01F;
  EXPECT_EQ(compare(t.problem(), t.sequence(), r).mismatches, 1);
  EXPECT_NE(t.compare_with_class("ordered").text.find("lse[1][2]"), std::string::npos);
}

// ---- rows of the list ----

AttentionProblem problem_of(std::string_view text) { return parse_problem(text).value(); }

void expect_within_bounds(TestSequence& t) {
  for (const char* numerics : kClasses) worst_of(t, numerics);
}

float out(const TestSequence& t, int64_t h, int64_t i, int64_t c) {
  return t.sequence().out[h * t.sequence().o_head + i * t.problem().row_stride_o() + c];
}
float lse(const TestSequence& t, int64_t h, int64_t i) { return t.sequence().lse[h * t.sequence().lse_head + i]; }

// Case a1.
TEST(AttentionReference, A1FullyMaskedRowIsZerosAndMinusInfinity) {
  TestSequence t(problem_of("attention:f32:b=1,hq=2,hkv=1,q=3,kv=37,d=8:mask:lse"), 3, 37, 1,
                 {.dense = true, .bad_key = false});
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 37; ++j) t.mask()[i * 37 + j] = i == 1 ? -kInf : 0;
  for (const char* numerics : kClasses) {
    worst_of(t, numerics);
    for (int64_t h : {0, 1})
      for (int64_t i : {0, 1, 2}) {
        EXPECT_EQ(std::isinf(lse(t, h, i)), i == 1);
        for (int64_t c = 0; c < 8; ++c) {
          EXPECT_TRUE(std::isfinite(out(t, h, i, c)));
          if (i == 1) {
            EXPECT_EQ(out(t, h, i, c), 0);
          }
        }
      }
  }
}

// Case a2.
TEST(AttentionReference, A2RowsWithoutKeys) {
  TestSequence t(problem_of("attention:f32:b=1,hq=1,hkv=1,q=9,kv=4,d=8:causal:lse"), 9, 4, 1, {.bad_key = false});
  for (const char* numerics : kClasses) {
    worst_of(t, numerics);
    for (int64_t i = 0; i < 9; ++i) {
      EXPECT_EQ(lse(t, 0, i) == -kInf, i < 5);
      EXPECT_EQ(out(t, 0, i, 3) == 0, i < 5);
    }
  }
}

// Case a3, and a4 in its last row.
TEST(AttentionReference, A3BottomRightAndA4NanStaysNan) {
  TestSequence t(problem_of("attention:f32:b=1,hq=1,hkv=1,q=32,kv=1024,d=8:causal:lse"), 32, 1024, 1,
                 {.dense = true, .bad_key = false});
  for (int64_t c = 0; c < 8; ++c) t.query()[31 * 8 + c] = NAN;
  for (const char* numerics : {"ordered", "online(256)", "split(256,3)"}) {
    worst_of(t, numerics);
    for (int64_t i = 0; i < 32; ++i) {
      EXPECT_EQ(std::isnan(lse(t, 0, i)), i == 31);
      for (int64_t c = 0; c < 8; ++c) EXPECT_EQ(std::isnan(out(t, 0, i, c)), i == 31);
    }
  }
}

// Case a5.
TEST(AttentionReference, A5LowestFloatInTheMaskIsUniform) {
  TestSequence t(problem_of("attention:f32:b=1,hq=1,hkv=1,q=2,kv=40,d=8:mask"), 2, 40, 1,
                 {.dense = true, .bad_key = false});
  for (int64_t j = 0; j < 80; ++j) t.mask()[j] = std::numeric_limits<float>::lowest();
  for (const char* numerics : kClasses) {
    worst_of(t, numerics);
    for (int64_t c = 0; c < 8; ++c) {
      double mean = 0;
      for (int64_t j = 0; j < 40; ++j) mean += t.value(0, j, c) / 40;
      EXPECT_NEAR(out(t, 0, 1, c), mean, 1e-6);
    }
  }
}

// Case a6.
TEST(AttentionReference, A6FirstKeysHiddenIsFinite) {
  TestSequence t(problem_of("attention:f32:b=1,hq=1,hkv=1,q=16,kv=16,d=512:mask"), 16, 16, 1,
                 {.dense = true, .bad_key = false});
  for (int64_t i = 0; i < 16; ++i)
    for (int64_t j = 0; j < 16; ++j) t.mask()[i * 16 + j] = i < 14 || j < 14 ? -kInf : 0;
  for (const char* numerics : kClasses) {
    worst_of(t, numerics);
    for (int64_t i = 0; i < 16; ++i) EXPECT_TRUE(std::isfinite(out(t, 0, i, 500)));
  }
}

// Cases a7, a8, a9, a11, a13.
TEST(AttentionReference, A7ToA13WithinBounds) {
  for (const char* text :
       {"attention:f32:b=1,hq=4,hkv=4,q=3,kv=33,d=40", "attention:f32:b=1,hq=13,hkv=13,q=7,kv=7,d=37:causal:boolmask",
        "attention:f32:b=1,hq=2,hkv=1,q=9,kv=40,d=80:causal:softcap=30:mask",
        "attention:f32:b=1,hq=9,hkv=3,q=5,kv=20,d=88", "attention:f32:b=1,hq=14,hkv=2,q=2,kv=20,d=96",
        "attention:f32:b=1,hq=1,hkv=1,q=4,kv=9,d=224", "attention:f32:b=1,hq=2,hkv=1,q=3,kv=18,d=576,dv=512"}) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      TestSequence t(problem_of(text), seed);
      expect_within_bounds(t);
    }
  }
}

// Case a10: scores beyond what f16 holds.
TEST(AttentionReference, A10LargeScores) {
  TestSequence t(problem_of("attention:f32:b=1,hq=1,hkv=1,q=4,kv=50,d=64:scale=1:lse"), 4, 50, 1,
                 {.dense = true, .bad_key = false});
  for (int64_t c = 0; c < 4 * 64; ++c) t.query()[c] *= 1e5F;
  expect_within_bounds(t);
  EXPECT_GT(std::fabs(lse(t, 0, 0)), 65504);
}

// Case a12: runs of keys that are empty, and a row with one key.
TEST(AttentionReference, A12EmptySplitsChangeNothing) {
  TestSequence t(problem_of("attention:f32:b=1,hq=1,hkv=1,q=5,kv=40,d=8:causal:window=1:lse"), 5, 40, 1,
                 {.bad_key = false});
  for (const char* numerics : {"split(16,40)", "split(16,3)", "online(16)"}) {
    worst_of(t, numerics);
    for (int64_t i = 0; i < 5; ++i)
      for (int64_t c = 0; c < 8; ++c) EXPECT_EQ(out(t, 0, i, c), t.value(0, 35 + i, c)) << numerics;
  }
  TestSequence whole(problem_of("attention:f32:b=1,hq=1,hkv=1,q=2,kv=40,d=8:lse"), 2);
  class_f32(whole.problem(), whole.sequence(), "split(48,2)");
  EXPECT_EQ(whole.compare_with_class("split(48,7)").text, "");
  EXPECT_EQ(whole.compare_with_class("online(48)").text, "");
}

}  // namespace
}  // namespace hone::attention
