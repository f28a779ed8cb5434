// The model is judged by its order on facts that hold on every machine it is for.
#include "autotune/cost/matmul_cost.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <tuple>
#include "tests/autotune/matmul_of.h"

namespace hone::autotune {
namespace {

using matmul::MatmulProblem;
using matmul::PackA;
using matmul::PackB;
using matmul::ParallelDim;
using matmul::TransformProgram;

MatmulProblem problem(std::string_view text) {
  Result<MatmulProblem> p = matmul::parse_problem(text);
  EXPECT_TRUE(p.ok()) << p.status().message();
  return *p;
}

CostMachine machine() {
  return {.gflops_1t = 200,
          .l2_gbs = 80,
          .dram_gbs_1t = 12,
          .dram_gbs_all = 20,
          .cpus = 4,
          .widest_lanes = 16,
          .caches = {.l1d = 48 << 10, .l2 = 2 << 20, .l3_share = 4 << 20},
          .cold = true};
}

TransformProgram tile(int64_t mr, int64_t nr) {
  return {.isa = Isa::kAvx512,
          .lanes = 16,
          .mr = mr,
          .nr = nr,
          .mc = mr * 8,
          .nc = nr * 16,
          .kc = 256,
          .pack_a = PackA::kRows,
          .pack_b = PackB::kBlock,
          .prefetch_b = 8,
          .parallel = ParallelDim::kN};
}

double ns(const MatmulProblem& p, const TransformProgram& t, int threads = 1) {
  return estimate(p, t, threads, machine()).total;
}

TEST(Cost, FullTilesBeatNarrowOnes) {
  const MatmulProblem p = problem("matmul:f32:m=2048,n=2048,k=2048");
  EXPECT_LT(ns(p, tile(14, 32)), ns(p, tile(2, 16)));
  EXPECT_LT(ns(p, tile(14, 32)), ns(p, tile(28, 16)));
  EXPECT_LT(ns(p, tile(8, 48)), ns(p, tile(4, 32)));
}

TEST(Cost, TilesThatSplitTheRowsEvenlyBeatThoseThatDoNot) {
  const MatmulProblem p = problem("matmul:f32:m=26,n=2048,k=2048");
  EXPECT_LT(ns(p, tile(13, 32)), ns(p, tile(12, 32)));
}

TEST(Cost, PackingWinsForLargeAndLosesForSmall) {
  auto direct = [](TransformProgram t) {
    t.pack_a = PackA::kNone, t.pack_b = PackB::kNone;
    return t;
  };
  const MatmulProblem large = problem("matmul:f32:m=2048,n=2048,k=2048");
  EXPECT_LT(ns(large, tile(14, 32)), ns(large, direct(tile(14, 32))));
  const MatmulProblem small = problem("matmul:f32:m=14,n=256,k=256");
  EXPECT_LT(ns(small, direct(tile(14, 32))), ns(small, tile(14, 32)));
}

TEST(Cost, StripsArePaidPerRowTile) {
  const MatmulProblem p = problem("matmul:f32:m=256,n=1024,k=1024,b=nt");
  TransformProgram strip = tile(14, 32);
  strip.pack_b = PackB::kStrip, strip.kc = 64;
  EXPECT_LT(ns(p, tile(14, 32)), ns(p, strip));
}

TEST(Cost, ThreadsPayForLargeAndNotForTiny) {
  const MatmulProblem large = problem("matmul:f32:m=512,n=4096,k=1024");
  EXPECT_LT(ns(large, tile(14, 32), 4), ns(large, tile(14, 32), 1));
  const MatmulProblem tiny = problem("matmul:f32:m=2,n=32,k=32");
  EXPECT_LT(ns(tiny, tile(2, 32), 1), ns(tiny, tile(2, 32), 4));
}

TEST(Cost, BlocksThatLeaveThreadsIdleLose) {
  const MatmulProblem p = problem("matmul:f32:m=512,n=2048,k=1024");
  TransformProgram even = tile(14, 32), lumpy = even;
  even.nc = 512, lumpy.nc = 1536;
  EXPECT_LT(ns(p, even, 4), ns(p, lumpy, 4));
}

TEST(Cost, DecodeIsBoundByMemory) {
  const MatmulProblem p = problem("matmul:f32:m=1,n=4096,k=4096,b=packed");
  TransformProgram t = tile(1, 128);
  t.mc = 1, t.kc = 4096, t.pack_a = PackA::kNone, t.pack_b = PackB::kNone, t.panel = 16, t.parallel = ParallelDim::kMn;
  const Cost cost = estimate(p, t, 1, machine());
  EXPECT_GT(cost.dram, cost.fma);
  EXPECT_GE(cost.total, 4096.0 * 4096 * 4 / 12 * 0.9);
  // One panel of one vector is one stream, and one chain of fma.
  TransformProgram narrow = t;
  narrow.nr = 16;
  EXPECT_LT(ns(p, t), ns(p, narrow));
}

TEST(Cost, NothingIsFasterThanThePeak) {
  for (std::string_view text : {"matmul:f32:m=512,n=512,k=512", "matmul:f32:m=3,n=1000,k=77"}) {
    const MatmulProblem p = problem(text);
    EXPECT_GE(ns(p, tile(14, 32)), p.flops() / 200) << text;
  }
}

TEST(Cost, FirstInOrderAreDifferentTilesAndPackings) {
  const MatmulProblem p = problem("matmul:f32:m=512,n=512,k=512");
  const Target target{.isas = {Isa::kAvx2, Isa::kAvx512},
                      .caches = machine().caches,
                      .threads = {1, 4},
                      .codegens = {"asmjit", "llvm"}};
  const std::vector<Candidate> all = enumerate(p, target).candidates;
  const std::vector<int> order = measuring_order(p, all, machine());
  ASSERT_EQ(order.size(), all.size());
  EXPECT_EQ(std::set<int>(order.begin(), order.end()).size(), all.size());
  std::set<std::tuple<int64_t, int64_t, PackA, PackB>> structures;
  for (size_t i = 0; i < 32; ++i) {
    const Candidate& c = all[static_cast<size_t>(order[i])];
    structures.insert({matmul_of(c).mr, matmul_of(c).nr, matmul_of(c).pack_a, matmul_of(c).pack_b});
    EXPECT_EQ(c.threads, 4);
    EXPECT_EQ(matmul_of(c).isa, Isa::kAvx512);
  }
  EXPECT_GE(structures.size(), 6u);
}

// Two loads a cycle beside two fma a cycle hide nothing perfectly, and short k-steps pay more often for their end.
TEST(Cost, TilesOfOneVectorAndOfFewChainsLoseMoreThanTheirPortsSay) {
  const MatmulProblem p = problem("matmul:f32:m=1680,n=1536,k=1536");
  EXPECT_LT(1.08 * ns(p, tile(14, 32)), ns(p, tile(28, 16)));
  EXPECT_LT(1.02 * ns(p, tile(8, 48)), ns(p, tile(4, 64)));
}

TransformProgram in_place(int64_t mr, int64_t nr, int64_t kc) {
  TransformProgram t = tile(mr, nr);
  t.pack_a = PackA::kNone, t.pack_b = PackB::kNone;
  t.order = matmul::TileOrder::kJi, t.prefetch_b = 0, t.kc = kc, t.mc = mr * 5, t.nc = 1024;
  t.parallel = ParallelDim::kMn;
  return t;
}

// Rows of nn 4 KiB apart meet in 32 of 2048 sets of L2: 1024 rows of 128 bytes find no room there, 128 rows do. With
// rows that are not a power of two apart both do.
TEST(Cost, ColumnsOfNnThatMeetInFewSetsAreReadAgainFromBeyondL2) {
  const MatmulProblem conflict = problem("matmul:f32:m=64,n=1024,k=1024");
  EXPECT_LT(1.3 * ns(conflict, in_place(14, 32, 128)), ns(conflict, in_place(14, 32, 1024)));
  EXPECT_GT(estimate(conflict, in_place(14, 32, 1024), 1, machine()).far, 0);
  const MatmulProblem spread = problem("matmul:f32:m=64,n=1024,k=1024,ldb=1040");
  EXPECT_EQ(estimate(spread, in_place(14, 32, 1024), 1, machine()).far, 0);
}

TEST(Cost, TransposingMoreRowsThanPrefetchersFollowLoses) {
  const MatmulProblem p = problem("matmul:f32:m=1,n=2048,k=2048,b=nt");
  auto strip = [](int64_t nr) {
    TransformProgram t = tile(1, nr);
    t.mc = 1, t.nc = nr, t.kc = 64, t.pack_a = PackA::kNone, t.pack_b = PackB::kStrip, t.prefetch_b = 0;
    return t;
  };
  EXPECT_LT(1.3 * ns(p, strip(32)), ns(p, strip(96)));
  EXPECT_NEAR(ns(p, strip(16)) / ns(p, strip(48)), 1, 0.05);
}

// The next panel announced must wait in L2 beside the current one; a distance within the panel needs no room, but must
// reach as far as memory takes to answer.
TEST(Cost, PrefetchMustFitL2AndReachFarEnough) {
  const MatmulProblem p = problem("matmul:f32:m=1,n=4096,k=4096,b=packed");
  constexpr int kNext = -1;
  auto stream = [](int64_t nr, int prefetch) {
    TransformProgram t = tile(1, nr);
    t.mc = 1, t.nc = 2 * nr, t.kc = 4096, t.panel = 16, t.prefetch_b = std::max(prefetch, 0);
    t.prefetch_next = prefetch == kNext;
    t.pack_a = PackA::kNone, t.pack_b = PackB::kNone, t.parallel = ParallelDim::kMn;
    return t;
  };
  EXPECT_LT(1.2 * ns(p, stream(64, 32)), ns(p, stream(64, kNext)));
  EXPECT_LT(ns(p, stream(16, kNext)) / ns(p, stream(16, 32)), ns(p, stream(64, kNext)) / ns(p, stream(64, 32)));
  EXPECT_LT(ns(p, stream(64, 32)), ns(p, stream(64, 0)));
}

TEST(Cost, EmptyProblemsHaveACost) {
  for (std::string_view text : {"matmul:f32:m=0,n=16,k=16", "matmul:f32:m=4,n=16,k=0"}) {
    const double cost = ns(problem(text), tile(2, 16));
    EXPECT_GE(cost, 0) << text;
    EXPECT_TRUE(std::isfinite(cost)) << text;
  }
}

}  // namespace
}  // namespace hone::autotune
