// The precompiled kernel has the bits of the scalar chain, for every layout and every tail, however it is divided.
#include "kernels/matmul/fallback.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "kernels/math/array_math.h"
#include "kernels/matmul/guarded_operands.h"
#include "kernels/matmul/trial.h"
#include "tests/kernels/matmul/reference_testing.h"

namespace hone::matmul {
namespace {

// Runs both on the same operands and compares every bit of C, padding (NaN) included.
void expect_same_bits(const MatmulProblem& p, int64_t width, unsigned seed) {
  TestMatmul want(p, width, seed), got(p, width, seed);
  ordered_f32(p, want.operands(), want.packed);
  fallback_matmul(p, got.operands(), got.packed);
  const Comparison compared = compare_bits(p, got.c.data(), want.c.data());
  EXPECT_TRUE(compared.ok()) << to_string(p) << " width " << width << " seed " << seed << ": " << compared.text;
  for (size_t i = 0; i < got.c.size(); ++i) {
    ASSERT_EQ(std::isnan(got.c[i]), std::isnan(want.c[i])) << to_string(p) << " element " << i << " of C";
  }
}

TEST(MatmulFallback, ShapesAroundTheTile) {
  unsigned seed = 1;
  for (int64_t m : {1, 3, 4, 5, 63, 64, 65, 130})
    for (int64_t n : {1, 15, 16, 17, 33})
      for (int64_t k : {0, 1, 7, 255, 256, 257, 600})
        for (BLayout b : {BLayout::kNn, BLayout::kNt, BLayout::kPacked})
          expect_same_bits({.m = m, .n = n, .k = k, .b = b}, 8 << (seed % 3), seed), ++seed;
}

TEST(MatmulFallback, StridesBatchesScalarsAndChains) {
  unsigned seed = 1;
  for (const char* text : {
           "matmul:f32:m=20,n=108,k=36,lda=64,ldb=112,ldc=120",  // case m2
           "matmul:f32:m=16,n=513,k=1,ldb=16896",                // case m3
           "matmul:f32:m=9,n=48,k=16,ldb=624,ldc=624",           // case m18
           "matmul:f32:m=5,n=7,k=9,batch=3,sa=0,b=nt",           // case m11
           "matmul:f32:m=5,n=7,k=9,batch=3,b=packed",
           "matmul:f32:m=5,n=7,k=9,batch=3,sb=0,b=packed",
           "matmul:f32:m=5,n=17,k=9,ldc=40,batch=2,sc=20",
           "matmul:f32:m=6,n=18,k=40,alpha=0.5,beta=0.3",  // case m4
           "matmul:f32:m=6,n=18,k=0,beta=0.3:+bias",       // case m5
           "matmul:f32:m=6,n=18,k=40,alpha=0,beta=-1",
           "matmul:f32:m=6,n=18,k=40:+bias+gelu_tanh*gate+residual",
           "matmul:f32:m=6,n=18,k=40,b=nt:+silu+gelu_erf+relu",
           "matmul:f32:m=70,n=96,k=300:+swiglu",
           "matmul:f32:m=5,n=64,k=40,ldc=37,batch=2,b=nt,alpha=0.5:+bias+swiglu*gate+residual",
           "matmul:f32:m=5,n=64,k=40,b=packed:+bias+swiglu+relu",
           "matmul:f32:m=5,n=64,k=0:+bias+swiglu",
           "matmul:f32:m=5,n=64,k=9,alpha=0:+bias+swiglu",
           "matmul:f32:m=70,n=19,k=40,beta=1:*row_scale+bias",
           "matmul:f32:m=70,n=96,k=30,alpha=2:*row_scale+bias+swiglu",
           "matmul:f32:m=0,n=18,k=40",
           "matmul:f32:m=6,n=0,k=40:+bias",
       }) {
    expect_same_bits(*parse_problem(text), 16, seed++);
  }
}

// Case m12: buffers end at guard pages, gaps hold NaN.
TEST(MatmulFallbackProperty, RandomProblemsInGuardedMemory) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const MatmulProblem p = random_problem(seed, {70, 40, 300});
    GuardedOperands t(p, static_cast<int64_t>(8) << seed % 3, seed);
    ASSERT_TRUE(check_overlap(p, t.operands(), t.packed()).ok()) << to_string(p);
    fallback_matmul(p, t.operands(), t.packed());
    const Comparison compared = t.compare_with_reference();
    ASSERT_TRUE(compared.ok()) << to_string(p) << " seed " << seed << ": " << compared.text;
  }
}

// A CPU without AVX2 gives the same bits.
TEST(MatmulFallback, PortableVersionHasTheSameBits) {
  math::pretend_no_avx2_for_testing(true);
  unsigned seed = 1;
  for (int64_t m : {1, 5, 65})
    for (int64_t n : {1, 16, 19})
      for (BLayout b : {BLayout::kNn, BLayout::kNt, BLayout::kPacked}) {
        expect_same_bits({.m = m, .n = n, .k = 300, .b = b, .epilogue = {EpilogueOp::kGeluTanh}}, 8, seed);
        ++seed;
      }
  math::pretend_no_avx2_for_testing(false);
}

// Case m1: a NaN stays in its row, also where zero padding meets it.
TEST(MatmulFallback, NanStaysInItsRow) {
  for (int64_t k : {33, 40, 63}) {
    TestMatmul t({.m = 5, .n = 19, .k = k, .b = BLayout::kPacked}, 8, 3);
    for (int64_t q = 0; q < k; ++q) t.a[static_cast<size_t>(2 * k + q)] = NAN;
    fallback_matmul(t.problem, t.operands(), t.packed);
    for (int64_t i = 0; i < 5 * 19; ++i) EXPECT_EQ(std::isnan(t.c[static_cast<size_t>(i)]), i / 19 == 2) << i;
  }
}

// Case m17: with alpha = 0 neither A nor B is read.
TEST(MatmulFallback, AlphaZeroReadsNeitherAnorB) {
  TestMatmul t(*parse_problem("matmul:f32:m=3,n=5,k=8,alpha=0:+bias"), 8, 3);
  MatmulOperands o = t.operands();
  o.a = nullptr, o.b = nullptr;
  fallback_matmul(t.problem, o, t.packed);
  for (size_t i = 0; i < 15; ++i) EXPECT_EQ(t.c[i], t.bias[i % 5]);
}

TEST(MatmulFallback, PartsGiveTheWhole) {
  const MatmulProblem p = *parse_problem("matmul:f32:m=70,n=50,k=300,b=nt,batch=2:+bias+silu");
  TestMatmul whole(p, 8, 9), parts(p, 8, 9);
  fallback_matmul(p, whole.operands(), whole.packed);
  EXPECT_EQ(fallback_strips(p), 4);
  for (int64_t item : {1, 0})
    for (int64_t row = 0; row < 70; row += 33)
      for (int64_t strip : {3, 0, 2, 1})
        fallback_matmul(p, parts.operands(), parts.packed,
                        {item, row, std::min<int64_t>(row + 33, 70), strip, strip + 1});
  const Comparison compared = compare_bits(p, parts.c.data(), whole.c.data());
  EXPECT_TRUE(compared.ok()) << compared.text;
}

TEST(MatmulFallback, PartsOfPairedColumnsGiveTheWhole) {
  const MatmulProblem p = *parse_problem("matmul:f32:m=9,n=96,k=30,b=nt:+bias+swiglu");
  TestMatmul whole(p, 8, 9), parts(p, 8, 9);
  fallback_matmul(p, whole.operands(), whole.packed);
  EXPECT_EQ(fallback_strips(p), 3) << "of 48 columns of C";
  for (int64_t strip : {2, 0, 1}) fallback_matmul(p, parts.operands(), parts.packed, {0, 0, 9, strip, strip + 1});
  const Comparison compared = compare_bits(p, parts.c.data(), whole.c.data());
  EXPECT_TRUE(compared.ok()) << compared.text;
}

TEST(MatmulFallback, WeightsOf16BitsInEveryLayout) {
  for (const char* dtype : {"bf16", "f16"}) {
    for (const char* rest :
         {"m=1,n=40,k=300,b=packed", "m=7,n=33,k=19,b=packed", "m=5,n=17,k=9,b=nt,ldb=11", "m=6,n=17,k=9,ldb=20",
          "m=2,n=16,k=5,batch=3,b=packed", "m=3,n=64,k=21,b=packed:+bias+swiglu", "m=2,n=3,k=0,b=packed:+relu"}) {
      const MatmulProblem p = *parse_problem(fmt::format("matmul:{}:{}", dtype, rest));
      const GuardedOperands operands(p, 8, 3, 30);
      fallback_matmul(p, operands.operands(), operands.packed());
      const Comparison compared = operands.compare_with_reference();
      EXPECT_TRUE(compared.ok()) << to_string(p) << ": " << compared.text;
    }
  }
}

TEST(MatmulFallback, Packs16BitsAsTheReference) {
  for (const char* text : {"matmul:bf16:m=1,n=37,k=70,b=nt,ldb=73", "matmul:f16:m=1,n=37,k=19,ldb=41",
                           "matmul:bf16:m=1,n=8,k=1,b=nt", "matmul:bf16:m=1,n=97,k=33,b=nt"}) {
    const MatmulProblem p = *parse_problem(text);
    const GuardedOperands operands(p, 0, 4, 30);
    const auto* b = static_cast<const uint16_t*>(operands.operands().b);
    for (const int64_t width : {8, 16, 48}) {
      const PackedB packed{.width = width};
      std::vector<uint16_t> got(static_cast<size_t>(packed.elements(p.n, p.k)), 0xffff);
      for (int64_t q = packed.panels(p.n); q-- > 0;) fallback_pack_b(p, b, got.data(), packed, q, q + 1);
      EXPECT_EQ(got, pack_b_reference(p, b, width)) << text << " width " << width;
    }
  }
}

TEST(MatmulFallback, PacksAsTheReference) {
  for (const char* text :
       {"matmul:f32:m=1,n=37,k=19,b=nt,ldb=23", "matmul:f32:m=1,n=37,k=19,ldb=41", "matmul:f32:m=1,n=8,k=1,b=nt"}) {
    const MatmulProblem p = *parse_problem(text);
    const TestMatmul t(p, 8, 4);
    for (const int64_t width : {8, 16, 48}) {
      const PackedB packed{.width = width};
      const std::vector<float> want = pack_b_reference(p, t.b.data(), width);
      std::vector<float> got(static_cast<size_t>(packed.elements(p.n, p.k)), -1.0f);
      for (int64_t q = packed.panels(p.n); q-- > 0;) fallback_pack_b(p, t.b.data(), got.data(), packed, q, q + 1);
      EXPECT_EQ(got, want) << text << " width " << width;
    }
  }
}

}  // namespace
}  // namespace hone::matmul
