// dot(bf16): text and rules, panels of pairs, the class `bf16` against the mathematical result, and lowered programs,
// interpreted, against the class.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "engine/base/half.h"
#include "kernels/ir/interpret.h"
#include "kernels/ir/text.h"
#include "kernels/ir/verify.h"
#include "kernels/matmul/blocking.h"
#include "kernels/matmul/fallback.h"
#include "kernels/matmul/guarded_operands.h"
#include "kernels/matmul/op.h"
#include "kernels/matmul/trial.h"
#include "tests/kernels/matmul/interpret_all.h"

namespace hone::matmul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const FeatureSet kDots{Feature::kAvx512Bf16};
constexpr BlockingCaches kSmall{.l1d = 4 << 10, .l2 = 16 << 10};

MatmulProblem problem(std::string_view text) { return parse_problem(text).value(); }

TransformProgram dot_program(const MatmulProblem& p, BlockingCaches caches = kSmall, int threads = 1) {
  return default_program(p, {.isa = Isa::kAvx512, .caches = caches, .threads = threads, .dot = Dot::kBf16});
}

TEST(MatmulDot, TextRoundTrips) {
  const MatmulProblem p = problem("matmul:bf16:m=20,n=100,k=300,b=packed");
  const TransformProgram program = dot_program(p);
  const std::string text = to_string(program);
  EXPECT_THAT(text, HasSubstr("vectorize(avx512,16) dot(bf16) register_tile("));
  EXPECT_THAT(text, HasSubstr("pack_a(pairs)"));
  EXPECT_EQ(parse_program(text).value(), program);
  EXPECT_EQ(numerics(program), "bf16");
  EXPECT_EQ(features(program), kDots);
  EXPECT_EQ(kernel_name(p, program).substr(0, 21), "matmul_bf16_bf16_f32_");
  std::string wrong = text;
  wrong.replace(wrong.find("dot(bf16)"), 9, "dot(s4)");
  EXPECT_THAT(parse_program(wrong).status().message(), HasSubstr("dot takes bf16, got 's4'"));
  EXPECT_EQ(numerics(TransformProgram{}), "ordered");
  EXPECT_EQ(features(TransformProgram{}), FeatureSet());
}

TEST(MatmulDot, WhatItIsNotForIsRefused) {
  const MatmulProblem bf16 = problem("matmul:bf16:m=20,n=100,k=301,b=packed");
  const TransformProgram good = dot_program(bf16);
  ASSERT_TRUE(legal(bf16, good).ok()) << legal(bf16, good).message();
  EXPECT_THAT(legal(problem("matmul:f16:m=20,n=100,k=301,b=packed"), good).message(), HasSubstr("not of f16"));
  EXPECT_THAT(legal(problem("matmul:f32:m=20,n=100,k=301,b=packed"), good).message(), HasSubstr("not of f32"));
  EXPECT_THAT(legal(problem("matmul:bf16:m=20,n=100,k=301,b=nt"), good).message(), HasSubstr("use b=packed"));
  TransformProgram t = good;
  t.pack_a = PackA::kNone;
  EXPECT_THAT(legal(bf16, t).message(), HasSubstr("need each other"));
  t = good, t.dot = Dot::kNone;
  EXPECT_THAT(legal(bf16, t).message(), HasSubstr("need each other"));
  t = good, t.kc = 33;
  EXPECT_THAT(legal(bf16, t).message(), HasSubstr("cuts a pair"));
  t.kc = 301;
  EXPECT_TRUE(legal(bf16, t).ok());
  t = default_program(bf16, {.isa = Isa::kAvx2, .caches = kSmall, .dot = Dot::kBf16});
  EXPECT_THAT(legal(bf16, t).message(), HasSubstr("needs AVX512_BF16"));
}

TEST(MatmulDot, ClassesAreThoseThatWereAskedFor) {
  using Op = matmul::Op;
  for (const char* wanted : {"", "default", "ordered", "any", "bf16"}) EXPECT_TRUE(Op::check_numerics(wanted).ok());
  EXPECT_THAT(Op::check_numerics("bf32").message(), HasSubstr("no numerics class 'bf32'"));
  EXPECT_FALSE(Op::numerics_allowed("", "bf16") || Op::numerics_allowed("ordered", "bf16"));
  EXPECT_TRUE(Op::numerics_allowed("any", "bf16") && Op::numerics_allowed("bf16", "bf16"));
  EXPECT_FALSE(Op::numerics_allowed("bf16", "ordered"));
  EXPECT_EQ(Op::precompiled_class("bf16"), "");
  EXPECT_EQ(Op::precompiled_class("any"), "ordered");
  const MatmulProblem p = problem("matmul:bf16:m=1,n=64,k=64,b=packed");
  auto of = [&](const MatmulProblem& its, std::string wanted, FeatureSet has, Isa isa = Isa::kAvx512) {
    return Op::numerics(Op::default_program(
        its, {.isa = isa, .caches = kSmall, .threads = 1, .numerics = std::move(wanted), .features = has}));
  };
  EXPECT_EQ(of(p, "any", kDots), "bf16");
  EXPECT_EQ(of(p, "any", {}), "ordered");
  EXPECT_EQ(of(p, "any", kDots, Isa::kAvx2), "ordered");
  EXPECT_EQ(of(p, "", kDots), "ordered");
  EXPECT_EQ(of(p, "bf16", {}), "bf16") << "whoever runs it finds what is missing";
  EXPECT_EQ(of(problem("matmul:f32:m=1,n=64,k=64,b=packed"), "any", kDots), "ordered");
}

TEST(MatmulDot, DefaultsAreLegalForEveryShape) {
  constexpr int64_t kSizes[] = {0, 1, 2, 7, 9, 16, 31, 33, 64, 127, 1000, 4096, 11008, 46341};
  Random random(3);
  for (int i = 0; i < 2000; ++i) {
    auto pick = [&] { return kSizes[random.below(std::ssize(kSizes))]; };
    MatmulProblem p{.dtype = DType::kBf16, .m = pick(), .n = pick(), .k = pick(), .b = BLayout::kPacked};
    if (i % 5 == 0) p.beta = 0.5F;
    if (i % 5 == 1) p.n = p.n / 32 * 32, p.epilogue = {EpilogueOp::kSwiglu};
    const TransformProgram t =
        dot_program(p, {.l1d = 32 << 10, .l2 = (128 << 10) << random.below(5), .l3_share = 8 << 20},
                    static_cast<int>(1 + random.below(4)));
    EXPECT_TRUE(legal(p, t).ok()) << to_string(p) << ": " << to_string(t) << ": " << legal(p, t).message();
    EXPECT_EQ(canonical(p, t), t);
  }
}

// 3 k-steps of 3 columns, panels of 2: pairs, the last of which has nothing in its upper half.
TEST(MatmulDot, PanelsOfPairs) {
  const uint16_t b[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};  // 3 x 3, nn
  const std::vector<uint16_t> panels = pack_b_reference(problem("matmul:bf16:m=1,n=3,k=3"), b, 2, 2);
  EXPECT_THAT(panels, ElementsAre(1, 4, 2, 5, 7, 0, 8, 0, 3, 6, 0, 0, 9, 0, 0, 0));
  for (const char* text : {"matmul:bf16:m=1,n=37,k=70,b=nt,ldb=73", "matmul:bf16:m=1,n=37,k=19,ldb=41",
                           "matmul:bf16:m=1,n=8,k=1,b=nt", "matmul:bf16:m=1,n=97,k=33,b=nt"}) {
    const MatmulProblem p = problem(text);
    const GuardedOperands operands(p, 0, 4, 30);
    const auto* from = static_cast<const uint16_t*>(operands.operands().b);
    for (const int64_t width : {8, 16, 48}) {
      const PackedB packed{.width = width, .kr = 2};
      std::vector<uint16_t> got(static_cast<size_t>(packed.elements(p.n, p.k)), 0xffff);
      for (int64_t q = packed.panels(p.n); q-- > 0;) fallback_pack_b(p, from, got.data(), packed, q, q + 1);
      EXPECT_EQ(got, pack_b_reference(p, from, width, 2)) << text << " width " << width;
    }
  }
}

// The precompiled kernel, class `ordered`, reads panels of pairs as well: weights stay where they are when no code can
// be had.
TEST(MatmulDot, ThePrecompiledKernelReadsPairs) {
  for (const char* text : {"matmul:bf16:m=3,n=37,k=71,b=packed:+bias", "matmul:bf16:m=5,n=64,k=600,b=packed:+swiglu"}) {
    const MatmulProblem p = problem(text);
    const GuardedOperands operands(p, 16, 7, 0, Dot::kBf16);
    fallback_matmul(p, operands.operands(), operands.packed());
    std::vector<float> want(static_cast<size_t>(p.m * p.columns()));
    MatmulOperands reference = operands.operands();
    reference.c = want.data();
    ordered_f32(p, reference, operands.packed());
    EXPECT_TRUE(compare_bits(p, operands.operands().c, want.data()).ok()) << text;
  }
}

TEST(MatmulDot, TheClassByHand) {
  const MatmulProblem p = problem("matmul:bf16:m=1,n=1,k=3,b=nt");
  const auto sum = [&](std::vector<float> a, std::vector<float> wide) {
    std::vector<uint16_t> b;
    for (const float w : wide) b.push_back(f32_to_bf16(w));
    float c = std::numeric_limits<float>::quiet_NaN();
    class_f32(p, {.a = a.data(), .b = b.data(), .c = &c}, {}, Dot::kBf16);
    return c;
  };
  EXPECT_EQ(sum({1, 2, 3}, {4, 5, 6}), 32);
  EXPECT_EQ(sum({0x1.01p0F, 0, 0}, {1, 0, 0}), 1) << "A is rounded, ties to even";
  EXPECT_EQ(sum({0x1.03p0F, 0, 0}, {1, 0, 0}), 0x1.04p0F);
  EXPECT_EQ(sum({0x1p60F, -0x1p60F, 0}, {0x1p60F, 0x1p60F, 0}), 0);
  // The upper half of a pair comes first: 2^24 + 1 is 2^24 again, 1 + 2^24 - 2^24 would not be.
  EXPECT_EQ(sum({-0x1p24F, 1, 0x1p24F}, {1, 1, 1}), 1);
  EXPECT_EQ(sum({1, 0x1p24F, -0x1p24F}, {1, 1, 1}), 0);
  EXPECT_EQ(sum({0x1p-70F, 0, 0}, {0x1p-70F, 0, 0}), 0) << "denormal sums are flushed";
  EXPECT_EQ(sum({0x1p-130F, 0, 0}, {0x1p20F, 0, 0}), 0) << "and so are denormal operands";
  EXPECT_TRUE(std::isnan(sum({INFINITY, 0, 0}, {0, 0, 0})));
}

// reference_f64 knows nothing of the order: the class lies within its bound, and the bound is not far from what
// happens.
TEST(MatmulDot, TheClassIsWithinTheBound) {
  double closest = 0;
  for (const char* text :
       {"matmul:bf16:m=5,n=33,k=200,b=packed", "matmul:bf16:m=3,n=64,k=77,b=packed,alpha=0.5:+bias+swiglu",
        "matmul:bf16:m=4,n=20,k=31,b=packed,beta=2:*row_scale+gelu*gate+residual",
        "matmul:bf16:m=2,n=20,k=1,b=packed"}) {
    const MatmulProblem p = problem(text);
    for (uint64_t seed = 0; seed < 5; ++seed) {
      const GuardedOperands operands(p, 16, seed, 0, Dot::kBf16);
      const Reference reference = reference_f64(p, operands.operands(), operands.packed(), Dot::kBf16);
      class_f32(p, operands.operands(), operands.packed(), Dot::kBf16);
      const Comparison within = compare(p, operands.operands().c, reference);
      EXPECT_TRUE(within.ok()) << text << " seed " << seed << ": " << within.text;
      for (size_t i = 0; p.k == 1 && i < reference.value.size(); ++i)
        closest = std::max(closest, std::fabs(operands.operands().c[i] - reference.value[i]) / reference.bound[i]);
    }
  }
  EXPECT_GT(closest, 0.3);
}

void expect_exact(const MatmulProblem& p, const TransformProgram& program, uint64_t seed, int specials) {
  SCOPED_TRACE(fmt::format("{} | {} | seed {}", to_string(p), to_string(program), seed));
  const Result<ir::Kernel> kernel = lower(p, program);
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  const Status verified = ir::verify(*kernel);
  ASSERT_TRUE(verified.ok()) << verified.message() << "\n" << ir::print(*kernel);
  EXPECT_TRUE(features(program).contains(ir::required_features(*kernel)));
  GuardedOperands operands(p, program.panel, seed, specials, program.dot);
  interpret_all(*kernel, operands.arguments());
  const Comparison comparison = operands.compare_with_reference();
  EXPECT_TRUE(comparison.ok()) << comparison.text << "\n" << ir::print(*kernel);
}

TEST(MatmulDot, LoweredProgramsGiveTheBitsOfTheClass) {
  uint64_t seed = 1;
  for (const char* text :
       {"matmul:bf16:m=1,n=35,k=33,b=packed", "matmul:bf16:m=17,n=53,k=90,b=packed,ldc=60,lda=97:+bias+gelu",
        "matmul:bf16:m=11,n=31,k=71,b=packed,alpha=0.5,beta=2:*row_scale+residual", "matmul:bf16:m=3,n=7,k=0,b=packed",
        "matmul:bf16:m=17,n=96,k=29,b=packed,alpha=0.5:*row_scale+bias+swiglu+residual",
        "matmul:bf16:m=6,n=40,k=65,b=packed,batch=2:+silu*gate", "matmul:bf16:m=6,n=40,k=65,b=packed,batch=3,sb=0",
        "matmul:bf16:m=2,n=16,k=1,b=packed:+relu", "matmul:bf16:m=5,n=20,k=200,b=packed,alpha=0"}) {
    const MatmulProblem p = problem(text);
    expect_exact(p, dot_program(p, kSmall, 3), seed++, 30);
    int dots = 0;
    for (int i = 0; i < 16; ++i, ++seed) {
      const TransformProgram t = random_program(p, seed, Isa::kAvx512, false, kDots);
      if (t.dot == Dot::kNone) continue;
      expect_exact(p, t, seed, 30);
      ++dots;
      if (testing::Test::HasFailure()) return;
    }
    EXPECT_GT(dots, 2) << text;
  }
}

// A block of k at a time, whose last one is shorter, and odd.
TEST(MatmulDot, BlocksOfKKeepTheChain) {
  for (int64_t k : {31, 32, 33, 95, 96, 97}) {
    MatmulProblem p = problem("matmul:bf16:m=10,n=40,k=1,b=packed");
    p.k = k;
    TransformProgram t = dot_program(p);
    for (int64_t kc : {2, 16, 32, 34}) {
      t.kc = kc;
      t.unroll_k = 1 + static_cast<int>(kc % 3);
      expect_exact(p, canonical(p, t), static_cast<uint64_t>(k + kc), 0);
      if (testing::Test::HasFailure()) return;
    }
  }
}

// Trap m1: a row of NaN and infinities stays in its row, at tails of k as well.
TEST(MatmulDot, m1_nan_row_stays_in_its_row) {
  for (int64_t k : {31, 33, 64}) {
    MatmulProblem p = problem("matmul:bf16:m=7,n=35,k=1,b=packed");
    p.k = k;
    const TransformProgram t = dot_program(p);
    const Result<ir::Kernel> kernel = lower(p, t);
    ASSERT_TRUE(kernel.ok());
    const GuardedOperands operands(p, t.panel, 9, 0, Dot::kBf16);
    interpret_all(*kernel, operands.arguments());
    const std::vector<float> clean(operands.operands().c, operands.operands().c + p.m * p.n);
    auto* a = const_cast<float*>(operands.operands().a);
    for (int64_t q = 0; q < k; ++q) a[3 * k + q] = q % 2 ? INFINITY : std::numeric_limits<float>::quiet_NaN();
    interpret_all(*kernel, operands.arguments());
    for (int64_t i = 0; i < p.m * p.n; ++i) {
      const float got = operands.operands().c[i];
      ASSERT_TRUE(i / p.n == 3 ? std::isnan(got) : got == clean[static_cast<size_t>(i)]) << k << " " << i;
    }
  }
}

}  // namespace
}  // namespace hone::matmul
