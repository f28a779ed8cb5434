// The default plan: legal for every shape and every machine, and sensible where we know what sensible is.
#include "kernels/matmul/blocking.h"

#include <gtest/gtest.h>

#include <random>

namespace hone::matmul {
namespace {

BlockingTarget target(Isa isa, int threads = 2) {
  return {.isa = isa, .caches = {.l1d = 48 << 10, .l2 = 1 << 20, .l3_share = 8 << 20}, .threads = threads};
}

MatmulProblem problem(int64_t m, int64_t n, int64_t k, BLayout b) {
  MatmulProblem p;
  p.m = m, p.n = n, p.k = k, p.b = b;
  return p;
}

TEST(MatmulBlocking, LegalForEveryShapeIsaCacheAndLayout) {
  constexpr int64_t kSizes[] = {0, 1, 2, 7, 8, 9, 13, 14, 15, 16, 31, 33, 64, 100, 127, 129, 1000, 4096, 11008, 46341};
  std::mt19937_64 rng(7);
  auto pick = [&] { return kSizes[rng() % std::size(kSizes)]; };
  for (int i = 0; i < 4000; ++i) {
    MatmulProblem p = problem(pick(), pick(), pick(), static_cast<BLayout>(rng() % 3));
    if (rng() % 4 == 0) p.beta = 0.5F;
    if (p.beta == 0 && i % 4 == 0) p.n = p.n / 32 * 32, p.epilogue = {EpilogueOp::kSwiglu};
    BlockingTarget t = target(all_isas()[rng() % all_isas().size()], 1 + static_cast<int>(rng() % 4));
    t.caches.l1d = (16 << 10) << (rng() % 4);
    t.caches.l2 = (128 << 10) << (rng() % 6);
    const TransformProgram program = default_program(p, t);
    const Status s = legal(p, program);
    EXPECT_TRUE(s.ok()) << to_string(p) << ": " << to_string(program) << ": " << s.message();
    EXPECT_EQ(canonical(p, program), program);
  }
}

// beta keeps k whole: a packed block of 4 Mi rows of B would be 512 MiB, beyond what a task may pack.
TEST(MatmulBlocking, LegalForBetaWithMoreKThanAWorkspaceHolds) {
  for (BLayout b : {BLayout::kNn, BLayout::kNt, BLayout::kPacked}) {
    for (Isa isa : all_isas()) {
      MatmulProblem p = problem(16, 64, int64_t{1} << 23, b);
      p.beta = 1;
      const TransformProgram program = default_program(p, target(isa));
      const Status s = legal(p, program);
      EXPECT_TRUE(s.ok()) << to_string(p) << ": " << to_string(program) << ": " << s.message();
    }
  }
}

// Tiles are whole pairs of gate and up columns, all of k deep, and still use most of the registers.
TEST(MatmulBlocking, SwigluTilesHoldPairsOfColumns) {
  for (Isa isa : all_isas()) {
    for (int64_t m : {1, 2, 8, 20, 128}) {
      for (int64_t panel : {0, 16, 48, 96}) {
        MatmulProblem p = problem(m, 5632, 1024, BLayout::kPacked);
        p.epilogue = {EpilogueOp::kSwiglu};
        const TransformProgram program = default_program(p, target(isa), panel);
        EXPECT_TRUE(legal(p, program).ok()) << to_string(program) << ": " << legal(p, program).message();
        EXPECT_EQ(program.nr % 32, 0);
        EXPECT_EQ(program.kc, 1024);
        if (m == 128 && panel == 0) {
          EXPECT_GE(tile_registers(program), isa_info(isa).vector_registers / 2 + 2);
        }
      }
    }
  }
}

TEST(MatmulBlocking, KeepsThePanelOfPackedWeights) {
  for (int64_t m : {1, 3, 8, 20, 500}) {
    for (int64_t panel : {16, 32, 64}) {
      const MatmulProblem p = problem(m, 4096, 4096, BLayout::kPacked);
      const TransformProgram program = default_program(p, target(Isa::kAvx512), panel);
      EXPECT_EQ(program.panel, panel);
      EXPECT_TRUE(legal(p, program).ok()) << legal(p, program).message();
    }
  }
}

TEST(MatmulBlocking, OneRowStreamsTheWeightsOnceWithNSplit) {
  const TransformProgram p = default_program(problem(1, 4096, 4096, BLayout::kPacked), target(Isa::kAvx512));
  EXPECT_EQ(p.mr, 1);
  EXPECT_EQ(p.kc, 4096) << "no partial sums";
  EXPECT_GE(p.nr, 64) << "enough chains to cover the latency of fma";
  EXPECT_LE(p.nc * 4, 4096) << "at least two tasks per thread";
}

TEST(MatmulBlocking, LargeProblemsFillTheRegisterFileAndPack) {
  const TransformProgram p = default_program(problem(1024, 4096, 4096, BLayout::kNn), target(Isa::kAvx512));
  EXPECT_GE(tile_registers(p), 28);
  EXPECT_EQ(p.pack_b, PackB::kBlock);
  EXPECT_EQ(p.pack_a, PackA::kNone) << "9 rows fit the 12 ways of 48 KiB";
  EXPECT_LE(p.kc * p.nc * 4, 1 << 19) << "a block of B fits half of L2";
}

// 2048 floats are two pages: with 8 ways no more than 10 rows of a tile stay in L1, and copying them for each panel
// costs more than a lower tile does. Rows that do not collide are free to be more.
TEST(MatmulBlocking, RowsThatCollideMakeTilesLower) {
  for (Isa isa : all_isas()) {
    for (int64_t m : {13, 28, 128, 512}) {
      for (BLayout b : {BLayout::kPacked, BLayout::kNt}) {
        BlockingTarget t = target(isa);
        t.caches.l1d = 32 << 10;
        const TransformProgram p = default_program(problem(m, 2048, 2048, b), t);
        EXPECT_LE(p.mr, 10) << to_string(p);
        EXPECT_EQ(p.pack_a, PackA::kNone) << to_string(p);
      }
    }
  }
  BlockingTarget t = target(Isa::kAvx512);
  t.caches.l1d = 32 << 10;
  EXPECT_EQ(default_program(problem(13, 2048, 2000, BLayout::kPacked), t).mr, 13);
}

TEST(MatmulBlocking, TilesStayWithinTheRegisterBudget) {
  for (Isa isa : all_isas()) {
    const IsaInfo& info = isa_info(isa);
    const std::vector<RegisterTile> tiles = register_tiles(isa);
    EXPECT_GT(tiles.size(), 10U);
    for (const RegisterTile& t : tiles) {
      TransformProgram p;
      p.isa = isa, p.lanes = info.lanes_f32(), p.mr = t.mr, p.nr = t.nr;
      EXPECT_LE(tile_registers(p), info.vector_registers) << t.mr << "x" << t.nr;
    }
  }
}

TEST(MatmulBlocking, WorkIsWhatBoundsTheTime) {
  const MatmulProblem p{.m = 128, .n = 64, .k = 64, .epilogue = {}};
  EXPECT_EQ(region_work(p), 128 * 64 * 64) << "bound by fma";
  const MatmulProblem row{.m = 1, .n = 512, .k = 512, .epilogue = {}};
  EXPECT_GT(region_work(row), 20 * 512 * 512) << "bound by reading B";
}

TEST(MatmulBlocking, NarrowOutputsAreSplitByRows) {
  const TransformProgram p = default_program(problem(4096, 32, 1024, BLayout::kNt), target(Isa::kAvx512, 2));
  EXPECT_EQ(p.parallel, ParallelDim::kM);
  EXPECT_LE(p.mc, 2048);
}

}  // namespace
}  // namespace hone::matmul
