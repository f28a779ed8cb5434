// What AArch64 code looks like, read back on any machine: register tiles stay in registers, and a scalar of A is a lane
// of the fma that uses it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/matmul/blocking.h"
#include "tests/jit/inspect/emitted.h"

namespace hone::jit {
namespace {

using matmul::MatmulProblem;
using matmul::TransformProgram;

class Aarch64Loops : public testing::Test {
 protected:
  void SetUp() override {
    const Result<CodeGenerator*> llvm = find_code_generator("llvm");
    if (!llvm.ok() || !(*llvm)->emits(Isa::kNeon)) GTEST_SKIP() << "no code generator of this build emits neon";
    llvm_ = *llvm;
  }
  Result<Emitted> emitted(const MatmulProblem& problem, const TransformProgram& program) const {
    HONE_ASSIGN_OR_RETURN(const ir::Kernel kernel, matmul::lower(problem, program));
    return emit(*llvm_, kernel, Isa::kNeon);
  }

  CodeGenerator* llvm_ = nullptr;
};

MatmulProblem packed() { return {.m = 300, .n = 640, .k = 512, .b = matmul::BLayout::kPacked, .epilogue = {}}; }

TransformProgram program_of(const matmul::RegisterTile& tile, int unroll) {
  return {.isa = Isa::kNeon,
          .lanes = 4,
          .mr = tile.mr,
          .nr = tile.nr,
          .mc = tile.mr * 4,
          .nc = tile.nr * 2,
          .kc = 128,
          .panel = tile.nr,
          .unroll_k = unroll,
          .prefetch_b = 8};
}

// Every tile that a tuner may try, up to the one that needs all 32 registers.
TEST_F(Aarch64Loops, TilesStayInRegisters) {
  int tiles = 0;
  for (const matmul::RegisterTile& tile : matmul::register_tiles(Isa::kNeon)) {
    if (tile.mr * tile.nr < 64) continue;  // 16 accumulators: fewer leave registers to spare
    const TransformProgram program = program_of(tile, 2);
    ASSERT_TRUE(matmul::legal(packed(), program).ok());
    const Result<Emitted> code = emitted(packed(), program);
    ASSERT_TRUE(code.ok()) << code.status().message();
    for (const InnerLoop& loop : code->inner_loops()) {
      EXPECT_EQ(loop.counts.stack, 0) << tile.mr << "x" << tile.nr << "\n" << loop.text();
      EXPECT_EQ(loop.with("mov v"), 0) << tile.mr << "x" << tile.nr << "\n" << loop.text();
    }
    ++tiles;
  }
  EXPECT_GT(tiles, 20);
}

// One k-step of 6x16: B by two pairs of loads, six scalars of A, 24 fma, one prefetch. Besides, for both copies: two
// pointers and the counter.
TEST_F(Aarch64Loops, TheDefaultTileIsTight) {
  const MatmulProblem problem = packed();
  const TransformProgram program = matmul::default_program(problem, {.isa = Isa::kNeon});
  EXPECT_EQ(program.mr, 6);
  EXPECT_EQ(program.nr, 16);
  EXPECT_EQ(program.panel, 16);
  const Result<Emitted> code = emitted(problem, program_of({6, 16}, 2));
  ASSERT_TRUE(code.ok()) << code.status().message();
  const InnerLoop loop = code->hot_loop();
  EXPECT_EQ(loop.counts.fma, 2 * 24) << loop.text();
  EXPECT_EQ(loop.mnemonic("ldp"), 2 * 2) << loop.text();
  EXPECT_EQ(loop.mnemonic("prfm"), 2) << loop.text();
  EXPECT_EQ(loop.counts.load, 2 * (2 + 6)) << loop.text();
  EXPECT_GE(loop.with(".s[0]"), 2 * 24 - 4) << "scalars are broadcast first:\n" << loop.text();
  constexpr int kPointers = 2, kCounterAndBranch = 2, kPostIndex = 1;
  EXPECT_LE(static_cast<int>(loop.instructions.size()),
            2 * (24 + 2 + 6 + 1) + kPointers + kCounterAndBranch + kPostIndex)
      << loop.text();
}

}  // namespace
}  // namespace hone::jit
