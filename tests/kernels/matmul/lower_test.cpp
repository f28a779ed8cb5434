// Lowered matmuls against the references: every program of a random sample of the space, on shapes around the tile
// edges, verified, interpreted, and compared bit for bit with the scalar chain of class `ordered`.
//
// Padding of rows holds NaN, C starts as NaN where it must not be read, and guard pages follow every operand, so a read
// or a write outside shows up as a crash or as a NaN.
#include "kernels/matmul/lower_internal.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <random>

#include "kernels/ir/interpret.h"
#include "kernels/ir/text.h"
#include "kernels/ir/verify.h"
#include "kernels/matmul/bind.h"
#include "kernels/matmul/blocking.h"
#include "kernels/matmul/guarded_operands.h"
#include "kernels/matmul/trial.h"
#include "tests/kernels/matmul/interpret_all.h"

namespace hone::matmul {
namespace {

void expect_exact(const MatmulProblem& problem, const TransformProgram& program, uint64_t seed) {
  SCOPED_TRACE(fmt::format("{} | {} | seed {}", to_string(problem), to_string(program), seed));
  const Result<ir::Kernel> kernel = lower(problem, program);
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  const Status verified = ir::verify(*kernel);
  ASSERT_TRUE(verified.ok()) << verified.message() << "\n" << ir::print(*kernel);
  GuardedOperands operands(problem, program.panel, seed);
  interpret_all(*kernel, operands.arguments());
  const Comparison comparison = operands.compare_with_reference();
  EXPECT_TRUE(comparison.ok()) << comparison.text << "\n" << ir::print(*kernel);
}

TEST(MatmulLower, RandomProgramsGiveTheBitsOfTheScalarChain) {
  std::mt19937_64 rng(20261129);
  for (int i = 0; i < 300; ++i) {
    const uint64_t seed = rng();
    const MatmulProblem problem = random_problem(seed, {.max_m = 40, .max_n = 90, .max_k = 70});
    expect_exact(problem, random_program(problem, seed + 1), seed);
    if (::testing::Test::HasFatalFailure() || ::testing::Test::HasFailure()) break;
  }
}

// Rows of tiles share the announcing of the next panels: more of them, fewer hints each.
TEST(MatmulLower, RowTilesShareTheAnnouncingOfTheNextPanels) {
  MatmulProblem problem{.m = 72, .n = 480, .k = 100};
  problem.b = BLayout::kPacked;
  TransformProgram program{.isa = Isa::kAvx512, .lanes = 16, .mr = 9, .nr = 48, .nc = 48, .kc = 100};
  program.panel = 48, program.unroll_k = 2, program.prefetch_next = true, program.parallel = ParallelDim::kN;
  auto hints = [&](int64_t row_tiles) {
    program.mc = program.mr * row_tiles;
    const std::string text = ir::print(*lower(problem, program));
    int count = 0;
    for (size_t at = 0; (at = text.find("prefetch t1", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(hints(1), 6) << "2 k-steps of 3 lines";
  EXPECT_EQ(hints(2), 3);
  EXPECT_EQ(hints(8), 1) << "6 elements a k-step";
}

TEST(MatmulLower, DefaultProgramsGiveTheBitsOfTheScalarChain) {
  std::mt19937_64 rng(11);
  for (int i = 0; i < 60; ++i) {
    const uint64_t seed = rng();
    const MatmulProblem problem = random_problem(seed, {.max_m = 70, .max_n = 130, .max_k = 300});
    // Absurdly small caches make small problems walk every block loop.
    const BlockingTarget target{
        .isa = i % 2 ? Isa::kAvx512 : Isa::kAvx2, .caches = {.l1d = 4 << 10, .l2 = 16 << 10}, .threads = 2};
    expect_exact(problem, default_program(problem, target), seed);
    if (::testing::Test::HasFailure()) break;
  }
}

// Operands end at guard pages and C's padding is NaN: nothing beyond the n / 2 columns of C is touched.
TEST(MatmulLower, SwigluGivesTheBitsOfTheScalarChain) {
  uint64_t seed = 1;
  for (const char* text :
       {"matmul:f32:m=1,n=32,k=33,b=packed:+swiglu", "matmul:f32:m=9,n=96,k=40,b=packed:+bias+swiglu",
        "matmul:f32:m=17,n=224,k=29,b=nt,ldc=113,alpha=0.5:+bias+swiglu+residual",
        "matmul:f32:m=30,n=64,k=70,ldc=40,batch=2,sb=0:+swiglu*gate+gelu", "matmul:f32:m=3,n=128,k=0:+bias+swiglu",
        "matmul:f32:m=3,n=64,k=5,alpha=0:+bias+swiglu", "matmul:f32:m=0,n=64,k=5:+swiglu",
        "matmul:f32:m=5,n=0,k=5:+swiglu", "matmul:f32:m=2,n=64,k=70,ldc=64,batch=2,sc=32:+swiglu"}) {
    const MatmulProblem p = parse_problem(text).value();
    for (Isa isa : all_isas()) {
      const BlockingTarget target{.isa = isa, .caches = {.l1d = 4 << 10, .l2 = 16 << 10}, .threads = 2};
      expect_exact(p, default_program(p, target), seed++);
      for (int i = 0; i < 4; ++i) expect_exact(p, random_program(p, seed, isa), seed), ++seed;
    }
  }
}

// The factors end at a guard page: those of rows that are left over too are read one by one.
TEST(MatmulLower, RowScaleGivesTheBitsOfTheScalarChain) {
  uint64_t seed = 500;
  for (const char* text :
       {"matmul:f32:m=1,n=35,k=33,b=packed:*row_scale", "matmul:f32:m=19,n=53,k=90,b=nt,ldc=60:*row_scale+bias+gelu",
        "matmul:f32:m=11,n=31,k=70,alpha=0.5,beta=2:*row_scale+residual", "matmul:f32:m=3,n=7,k=0:*row_scale+bias",
        "matmul:f32:m=17,n=96,k=29,b=packed,alpha=0.5:*row_scale+bias+swiglu+residual",
        "matmul:f32:m=5,n=64,k=29,b=packed:*row_scale+swiglu"}) {
    const MatmulProblem p = parse_problem(text).value();
    for (Isa isa : all_isas()) {
      const BlockingTarget target{.isa = isa, .caches = {.l1d = 4 << 10, .l2 = 16 << 10}, .threads = 2};
      expect_exact(p, default_program(p, target), seed++);
      for (int i = 0; i < 3; ++i) expect_exact(p, random_program(p, seed, isa), seed), ++seed;
    }
  }
}

// m5, m8: K = 0, M = 0, N = 0, with and without what follows the sum.
TEST(MatmulLower, EmptyDimensions_m5_m8) {
  for (const char* text :
       {"matmul:f32:m=5,n=37,k=0", "matmul:f32:m=5,n=37,k=0:+bias", "matmul:f32:m=5,n=37,k=0,beta=0.5",
        "matmul:f32:m=0,n=16,k=16", "matmul:f32:m=16,n=0,k=16", "matmul:f32:m=0,n=0,k=0:+bias",
        "matmul:f32:m=3,n=40,k=0,b=packed", "matmul:f32:m=3,n=40,k=0,b=nt:+silu"}) {
    const Result<MatmulProblem> problem = parse_problem(text);
    ASSERT_TRUE(problem.ok()) << problem.status().message();
    for (Isa isa : all_isas()) expect_exact(*problem, default_program(*problem, {.isa = isa}), 1);
  }
}

// m17: alpha = 0: neither A nor B is read (both are all NaN here).
TEST(MatmulLower, AlphaZeroReadsNeitherAnorB_m17) {
  const Result<MatmulProblem> problem = parse_problem("matmul:f32:m=9,n=50,k=20,alpha=0,beta=2:+relu");
  ASSERT_TRUE(problem.ok()) << problem.status().message();
  const Result<ir::Kernel> kernel = lower(*problem, default_program(*problem, {.isa = Isa::kAvx2}));
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  GuardedOperands operands(*problem, 8, 3);
  Arguments args = operands.arguments();
  args.buffers[0] = args.buffers[1] = nullptr;
  interpret_all(*kernel, args);
  EXPECT_TRUE(operands.compare_with_reference().ok());
}

// m9: offsets of a 46341 x 46341 result are beyond 31 bits; the plan and its arithmetic are checked, not run.
TEST(MatmulLower, OffsetsAre64Bit_m9) {
  const Result<MatmulProblem> problem = parse_problem("matmul:f32:m=46341,n=46341,k=64");
  ASSERT_TRUE(problem.ok()) << problem.status().message();
  const Result<ir::Kernel> kernel = lower(*problem, default_program(*problem, {.isa = Isa::kAvx512}));
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  EXPECT_TRUE(ir::verify(*kernel).ok()) << ir::verify(*kernel).message();
}

TEST(MatmulPack, PanelsHoldEveryElementOnceAndZerosBeyond) {
  for (const char* layout : {"nn", "nt"}) {
    for (Isa isa : all_isas()) {
      const int64_t lanes = isa_info(isa).lanes_f32();
      for (auto [n, k] : {std::pair<int64_t, int64_t>{1, 1}, {16, 16}, {17, 33}, {48, 5}, {100, 64}, {31, 17}}) {
        for (int64_t panel : {lanes, 2 * lanes, 3 * lanes}) {
          const Result<MatmulProblem> source =
              parse_problem(fmt::format("matmul:f32:m=1,n={},k={},b={},ldb={}", n, k, layout, std::max(n, k) + 3));
          ASSERT_TRUE(source.ok()) << source.status().message();
          const Result<ir::Kernel> kernel = lower_pack_b(*source, panel, isa);
          ASSERT_TRUE(kernel.ok()) << kernel.status().message();
          ASSERT_TRUE(ir::verify(*kernel).ok()) << ir::verify(*kernel).message() << ir::print(*kernel);
          GuardedOperands operands(*source, 0, 5);
          std::vector<float> packed(static_cast<size_t>(packed_elements(n, k, panel)), NAN);
          Arguments args;
          args.buffers = {operands.arguments().buffers[1], packed.data()};
          interpret_all(*kernel, args);
          const std::vector<float> expected =
              pack_b_reference(*source, static_cast<const float*>(args.buffers[0]), panel);
          EXPECT_EQ(packed, expected) << to_string(*source) << " panel " << panel;
        }
      }
    }
  }
}

}  // namespace
}  // namespace hone::matmul
