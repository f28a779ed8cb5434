// The references against values computed by hand, against each other within the bound, and the comparison helpers
// against results that are wrong on purpose.
#include "kernels/matmul/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/kernels/matmul/reference_testing.h"

namespace hone::matmul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

MatmulProblem problem(std::string_view text) { return *parse_problem(text); }

TEST(MatmulReference, SmallProductByHand) {
  const float a[] = {1, 2, 3, 4, 5, 6};    // 2 x 3
  const float nn[] = {1, -1, 2, 0, 0, 3};  // 3 x 2
  const float nt[] = {1, 2, 0, -1, 0, 3};  // the same, 2 x 3
  for (const char* layout : {"nn", "nt", "packed"}) {
    const MatmulProblem p = problem(std::string("matmul:f32:m=2,n=2,k=3,b=") + layout);
    const PackedB packed{4, 0};
    const std::vector<float> panels = pack_b_reference(problem("matmul:f32:m=2,n=2,k=3"), nn, 4);
    float c[4] = {kNan, kNan, kNan, kNan};
    const MatmulOperands o{a, p.b == BLayout::kNn ? nn : p.b == BLayout::kNt ? nt : panels.data(), c};
    EXPECT_THAT(reference_f64(p, o, packed).value, ElementsAre(5, 8, 14, 14)) << layout;
    ordered_f32(p, o, packed);
    EXPECT_THAT(c, ElementsAre(5, 8, 14, 14)) << layout;
  }
}

TEST(MatmulReference, PanelsArePaddedWithZeros) {
  const float b[] = {1, 2, 3, 4, 5, 6};  // 2 x 3
  EXPECT_THAT(pack_b_reference(problem("matmul:f32:m=1,n=3,k=2"), b, 2), ElementsAre(1, 2, 4, 5, 3, 0, 6, 0));
  EXPECT_THAT(pack_b_reference(problem("matmul:f32:m=1,n=2,k=3,b=nt"), b, 2), ElementsAre(1, 4, 2, 5, 3, 6));
}

// Case m4 and the order of operations: alpha, then beta, then the chain as written.
TEST(MatmulReference, ScalarsAndChainInOrder) {
  const float a[] = {2}, b[] = {3}, bias[] = {-10}, gate[] = {7}, residual[] = {100};
  const std::pair<const char*, float> cases[] = {
      {"matmul:f32:m=1,n=1,k=1,alpha=0.5,beta=0.25", 0.5f * 6 + 0.25f * 4},
      {"matmul:f32:m=1,n=1,k=1:+bias+relu*gate+residual", 100},
      {"matmul:f32:m=1,n=1,k=1:*gate+bias+relu", 32},
      {"matmul:f32:m=1,n=1,k=1:+relu+bias", -4},
      {"matmul:f32:m=1,n=1,k=1,alpha=-1,beta=1:+residual+bias*gate", (-6 + 4 + 100 - 10) * 7},
  };
  for (const auto& [text, want] : cases) {
    float c[] = {4};
    const MatmulOperands o{a, b, c, bias, gate, residual};
    EXPECT_EQ(reference_f64(problem(text), o).value[0], want) << text;
    ordered_f32(problem(text), o);
    EXPECT_EQ(c[0], want) << text;
  }
}

// Column 17 of C is made of columns 33 and 49 of B.
TEST(MatmulReference, SwigluMultipliesColumnsByHand) {
  const MatmulProblem p = problem("matmul:f32:m=1,n=64,k=1,alpha=0.5:+bias+swiglu*gate+residual");
  const float a[] = {2};
  std::vector<float> b(64, 0), bias(64, 0), gate(32, 1), residual(32, 0), c(32, kNan);
  b[33] = 3, bias[33] = -1;  // 0.5 * 6 - 1 = 2
  b[49] = -5, bias[49] = 9;  // 0.5 * -10 + 9 = 4
  gate[17] = 10, residual[17] = 7;
  const MatmulOperands o{a, b.data(), c.data(), bias.data(), gate.data(), residual.data()};
  const Reference reference = reference_f64(p, o);
  ASSERT_EQ(reference.value.size(), 32u);
  EXPECT_DOUBLE_EQ(reference.value[17], 2 / (1 + std::exp(-2.0)) * 4 * 10 + 7);
  ordered_f32(p, o);
  for (size_t j = 0; j < 32; ++j) {
    if (j != 17) {
      EXPECT_EQ(c[j], 0) << j;
    }
  }
  EXPECT_NEAR(c[17], 77.4637663, 1e-5);
  EXPECT_EQ(compare(p, c.data(), reference).text, "");
}

// Each row by its own factor, after beta and before bias; with swiglu gate and up columns alike.
TEST(MatmulReference, RowScaleMultipliesRowsByHand) {
  const float a[] = {2, 5}, b[] = {3}, bias[] = {-10}, row_scale[] = {4, -1};
  float c[] = {1, 2};
  const MatmulOperands o{.a = a, .b = b, .c = c, .bias = bias, .row_scale = row_scale};
  const MatmulProblem p = problem("matmul:f32:m=2,n=1,k=1,alpha=2,beta=1:*row_scale+bias");
  EXPECT_THAT(reference_f64(p, o).value, ElementsAre((12 + 1) * 4 - 10, -(30 + 2) - 10));
  ordered_f32(p, o);
  EXPECT_THAT(c, ElementsAre((12 + 1) * 4 - 10, -(30 + 2) - 10));

  const MatmulProblem pairs = problem("matmul:f32:m=2,n=32,k=1:*row_scale+bias+swiglu");
  std::vector<float> wide(32, 0), both(32, 0), made(32, kNan);
  wide[3] = 3, wide[19] = 1, both[3] = -22, both[19] = 1;  // of row 0: 6 * 4 - 22 = 2 and 2 * 4 + 1 = 9
  const MatmulOperands q{.a = a, .b = wide.data(), .c = made.data(), .bias = both.data(), .row_scale = row_scale};
  EXPECT_DOUBLE_EQ(reference_f64(pairs, q).value[3], 2 / (1 + std::exp(-2.0)) * 9);
  ordered_f32(pairs, q);
  EXPECT_NEAR(made[3], 15.8543474, 1e-5);
  EXPECT_NEAR(made[16 + 3], -37 / (1 + std::exp(37.0)) * -4, 1e-18) << "15 * -1 - 22 and 5 * -1 + 1";
}

// Cases m5, m6, m8, m17.
// A chain of ones stops growing at 2^24: the bound must say so, where k u / (1 - k u) would turn negative.
TEST(MatmulReference, ChainsLongerThanF32CountsAreWithinTheBound) {
  constexpr int64_t k = (int64_t{1} << 24) + 1000;
  const std::vector<float> ones(k, 1.0F);
  const MatmulProblem p = problem("matmul:f32:m=1,n=1,k=" + std::to_string(k));
  float c = 0;
  const MatmulOperands o{ones.data(), ones.data(), &c};
  ordered_f32(p, o);
  EXPECT_EQ(c, 0x1p24F);
  EXPECT_EQ(compare(p, &c, reference_f64(p, o)).text, "");
}

TEST(MatmulReference, WhatIsNotNeededIsNotRead) {
  const float bad[] = {kNan, kInf, kNan, kInf}, good[] = {1, 2, 3, 4};
  float c[] = {kNan, kNan, kNan, kInf};
  ordered_f32(problem("matmul:f32:m=2,n=2,k=2"), {good, good, c});
  EXPECT_THAT(c, ElementsAre(7, 10, 15, 22));
  ordered_f32(problem("matmul:f32:m=2,n=2,k=2,alpha=0,beta=2"), {bad, bad, c});
  EXPECT_THAT(c, ElementsAre(14, 20, 30, 44));
  ordered_f32(problem("matmul:f32:m=2,n=2,k=0,beta=0.5:+bias"), {nullptr, nullptr, c, good});
  EXPECT_THAT(c, ElementsAre(8, 12, 16, 24));
  EXPECT_THAT(reference_f64(problem("matmul:f32:m=2,n=2,k=0:+bias"), {nullptr, nullptr, c, good}).value,
              ElementsAre(1, 2, 1, 2));
  EXPECT_TRUE(reference_f64(problem("matmul:f32:m=0,n=2,k=2"), {}).value.empty());
}

// Case m11: a shared A.
TEST(MatmulReference, BatchStrides) {
  const float a[] = {2}, b[] = {1, 10, 100};
  float c[5] = {-1, -1, -1, -1, -1};
  ordered_f32(problem("matmul:f32:m=1,n=1,k=1,batch=3,sa=0,sc=2"), {a, b, c});
  EXPECT_THAT(c, ElementsAre(2, -1, 20, -1, 200));
}

TEST(MatmulReference, ChainIsAscendingAndFused) {
  // 1 + 2^-24 * 1 stays 1 twice in ascending order; any other order or a wider sum gives 1 + 2^-23.
  const float a[] = {1, 0x1p-24f, 0x1p-24f}, b[] = {1, 1, 1};
  float c[1];
  ordered_f32(problem("matmul:f32:m=1,n=1,k=3"), {a, b, c});
  EXPECT_EQ(c[0], 1.0f);
  // A fused product keeps the low bits that rounding it first would lose.
  const float x[] = {1 + 0x1p-12f, 1}, y[] = {1 + 0x1p-12f, -(1 + 0x1p-11f)};
  const float p[] = {x[1], x[0]}, q[] = {y[1], y[0]};
  ordered_f32(problem("matmul:f32:m=1,n=1,k=2"), {p, q, c});
  EXPECT_EQ(c[0], 0x1p-24f);
}

TEST(MatmulReference, OrderedIsWithinTheBound) {
  for (const char* text :
       {"matmul:f32:m=7,n=9,k=200", "matmul:f32:m=3,n=5,k=1000,b=nt,alpha=0.3,beta=-2:+bias+gelu_tanh*gate+residual",
        "matmul:f32:m=4,n=4,k=33,b=packed:+gelu_erf",
        "matmul:f32:m=5,n=96,k=300,b=nt,ldc=50,alpha=2:+bias+swiglu+residual",
        "matmul:f32:m=5,n=96,k=300,b=nt:*row_scale+bias+swiglu", "matmul:f32:m=7,n=9,k=200,beta=2:*row_scale+gelu",
        "matmul:f32:m=5,n=6,k=64,lda=70,ldb=9,ldc=8,batch=3:+silu+relu"}) {
    TestMatmul t(problem(text), 8, 3);
    const Reference reference = reference_f64(t.problem, t.operands(), t.packed);
    ordered_f32(t.problem, t.operands(), t.packed);
    const Comparison compared = compare(t.problem, t.c.data(), reference);
    EXPECT_TRUE(compared.ok()) << text << ": " << compared.text;
    EXPECT_GT(compared.worst, 0) << text;
    EXPECT_EQ(compared.elements, t.problem.batch * t.problem.m * t.problem.columns());
  }
}

TEST(MatmulReference, SpecialValuesPassThroughTheChain) {
  const float a[] = {1}, b[] = {kInf, -kInf, kNan};
  for (const char* chain : {"+gelu_tanh", "+gelu_erf", "+silu", "+relu"}) {
    float c[3];
    const MatmulProblem p = problem(std::string("matmul:f32:m=1,n=3,k=1:") + chain);
    const Reference reference = reference_f64(p, {a, b, c});
    ordered_f32(p, {a, b, c});
    EXPECT_TRUE(compare(p, c, reference).ok()) << chain << ": " << compare(p, c, reference).text;
    EXPECT_EQ(c[0], kInf) << chain;
    EXPECT_EQ(c[1], 0) << chain;
    EXPECT_TRUE(std::isnan(c[2])) << chain;
  }
}

class MatmulCompare : public testing::Test {
 protected:
  TestMatmul t_{*parse_problem("matmul:f32:m=5,n=7,k=20,ldc=9"), 8, 5};
  Reference reference_ = reference_f64(t_.problem, t_.operands(), t_.packed);

  void SetUp() override { ordered_f32(t_.problem, t_.operands(), t_.packed); }
};

// An earlier engine took an error of NaN for 0, and a kernel that wrote NaN everywhere won.
TEST_F(MatmulCompare, AllNanFails) {
  const std::vector<float> right = t_.c;
  std::fill(t_.c.begin(), t_.c.end(), kNan);
  const Comparison compared = compare(t_.problem, t_.c.data(), reference_);
  EXPECT_EQ(compared.mismatches, 35);
  EXPECT_EQ(compared.worst, std::numeric_limits<double>::infinity());
  EXPECT_THAT(compared.text, HasSubstr("35 of 35 elements wrong; first: C[0][0,0] = nan"));
  EXPECT_EQ(compare_bits(t_.problem, t_.c.data(), right.data()).mismatches, 35);
}

TEST_F(MatmulCompare, InfinityFails) {
  t_.c[0] = kInf;
  EXPECT_EQ(compare(t_.problem, t_.c.data(), reference_).mismatches, 1);
}

TEST_F(MatmulCompare, MissingNanFails) {
  reference_.value[3] = kNan;
  EXPECT_EQ(compare(t_.problem, t_.c.data(), reference_).mismatches, 1);
  t_.c[3] = kNan;
  EXPECT_TRUE(compare(t_.problem, t_.c.data(), reference_).ok());
}

TEST_F(MatmulCompare, NamesTheFirstAndTheWorst) {
  t_.c[9 + 2] += 1;
  t_.c[3 * 9 + 6] += 1000;
  const Comparison compared = compare(t_.problem, t_.c.data(), reference_);
  EXPECT_EQ(compared.mismatches, 2);
  EXPECT_THAT(compared.text, HasSubstr("first: C[0][1,2]"));
  EXPECT_THAT(compared.text, HasSubstr("worst: C[0][3,6]"));
}

TEST_F(MatmulCompare, OneUlpFailsBitwise) {
  std::vector<float> other = t_.c;
  other[4] = std::nextafter(other[4], kInf);
  const Comparison compared = compare_bits(t_.problem, other.data(), t_.c.data());
  EXPECT_EQ(compared.mismatches, 1);
  EXPECT_THAT(compared.text, HasSubstr("C[0][0,4]"));
  EXPECT_TRUE(compare_bits(t_.problem, t_.c.data(), t_.c.data()).ok());
}

TEST_F(MatmulCompare, SignOfZeroFailsBitwise) {
  std::vector<float> x = t_.c, y = t_.c;
  x[0] = 0.0f;
  y[0] = -0.0f;
  EXPECT_EQ(compare_bits(t_.problem, x.data(), y.data()).mismatches, 1);
}

// Padding between rows belongs to nobody.
TEST_F(MatmulCompare, PaddingIsNotCompared) {
  t_.c[7] = t_.c[8] = kNan;
  EXPECT_TRUE(compare(t_.problem, t_.c.data(), reference_).ok());
}

TEST(MatmulCompareOverflow, BeyondTheLargestFloatInfinityIsRight) {
  const float a[] = {3e38f, 3e38f}, b[] = {1, 1};
  float c[1] = {kInf};
  const MatmulProblem p = problem("matmul:f32:m=1,n=1,k=2");
  const Reference reference = reference_f64(p, {a, b, c});
  EXPECT_TRUE(compare(p, c, reference).ok());
  c[0] = -kInf;
  EXPECT_FALSE(compare(p, c, reference).ok());
}

}  // namespace
}  // namespace hone::matmul
