// Where the default plan comes from.
//
// Register tile: one k-step of an mr x nr tile costs mr * nv fma against nv loads of B and mr broadcasts of A. Two fma
// and two loads a cycle means that any tile with mr, nv >= 2 can be bound by fma; larger tiles leave slack for L2
// latency. 14x32 (AVX-512) and 6x16 (AVX2) fill the register file. For few rows the tile has exactly as many rows as
// there are, and enough vectors side by side to cover the latency of fma (4 cycles x 2 pipes = 8 chains) and to give
// the memory several streams.
//
// kc: a tile's rows of A (mr x kc) and one panel of B (kc x nr) share L1 with room to spare; half of L1 for A's rows.
// mc, nc: the packed block of A takes a third of L2, the block of B that the rows of a task reuse another half of L2 or
// L3 share.
#include "kernels/matmul/blocking.h"

#include <algorithm>

#include "kernels/matmul/lower_internal.h"

namespace hone::matmul {
namespace {

// Rows up to which a problem is "few rows": B is streamed once and bounds the time, not fma.
constexpr int64_t kFewRows = 8;
// A matrix of B up to this many bytes stays in L2 with A and C: packing it in the call does not pay.
constexpr int64_t small_b(const BlockingCaches& c) { return c.l2 / 2; }

int64_t round_down(int64_t v, int64_t to) { return std::max(to, v / to * to); }

struct Tile2 {
  int64_t mr, nr;
};

Tile2 wide_tile(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return {14, 32};
    case Isa::kAvx2:
      return {6, 16};
  }
  return {1, 8};
}

// As many vectors as the register file has room for beside the rows, between 2 and 8, not beyond n.
int64_t few_rows_width(int64_t rows, int64_t n, const IsaInfo& isa) {
  const int64_t lanes = isa.lanes_f32();
  int64_t nv = 8;
  auto needed = [&](int64_t v) { return rows * v + std::min(rows, v) + 1; };
  while (nv > 1 && (needed(nv) > isa.vector_registers || (nv - 1) * lanes >= n)) --nv;
  return nv * lanes;
}

// The number of rows per tile that splits m evenly, at most `largest`.
int64_t balanced_rows(int64_t m, int64_t largest) {
  const int64_t tiles = std::max<int64_t>(1, ceil_div(m, largest));
  return std::clamp<int64_t>(ceil_div(m, tiles), 1, largest);
}

// A given panel width may force a wider tile than the rows leave registers for: fewer rows, then.
void fit_rows(TransformProgram& p, const IsaInfo& isa) {
  while (tile_registers(p) > isa.vector_registers && p.mr > 1) --p.mr;
}

TransformProgram few_rows(const MatmulProblem& problem, TransformProgram p, const BlockingTarget& target,
                          int64_t panel) {
  const IsaInfo& isa = isa_info(target.isa);
  p.mr = std::max<int64_t>(problem.m, 1);
  p.nr = few_rows_width(p.mr, problem.n, isa);
  if (panel > 0) p.nr = round_down(p.nr, panel);
  fit_rows(p, isa);
  p.mc = round_up(std::max<int64_t>(problem.m, 1), p.mr);
  p.kc = std::max<int64_t>(problem.k, 1);
  p.nc = p.nr * std::max<int64_t>(1, ceil_div(ceil_div(problem.n, p.nr), 4 * target.threads));
  p.unroll_k = p.mr <= 2 ? 4 : 2;
  p.pack_a = PackA::kNone;
  p.prefetch_b = 8;
  p.parallel = ParallelDim::kMn;
  if (problem.b != BLayout::kPacked) p.prefetch_b = 0;
  if (problem.b == BLayout::kNt) {
    p.pack_b = PackB::kStrip;
    p.kc = std::min<int64_t>(p.kc, 64);
  }
  return p;
}

TransformProgram blocked(const MatmulProblem& problem, TransformProgram p, const BlockingTarget& target,
                         int64_t panel) {
  const IsaInfo& isa = isa_info(target.isa);
  const BlockingCaches& caches = target.caches;
  const Tile2 wide = wide_tile(target.isa);
  p.mr = balanced_rows(problem.m, wide.mr);
  p.nr = panel > 0 ? round_up(wide.nr, panel) : wide.nr;
  fit_rows(p, isa);
  p.kc = round_down(caches.l1d / 2 / 4 / p.mr, 64);
  if (ceil_div(problem.k, p.kc) > 1) p.kc = round_up(ceil_div(problem.k, ceil_div(problem.k, p.kc)), 8);
  if (problem.beta != 0) p.kc = std::max<int64_t>(problem.k, 1);
  p.kc = std::min(p.kc, std::max<int64_t>(problem.k, 1));
  p.mc = round_down(caches.l2 / 3 / 4 / p.kc, p.mr);
  p.mc = std::min(p.mc, round_up(std::max<int64_t>(ceil_div(problem.m, target.threads), 1), p.mr));
  p.nc = std::min(round_down(caches.l2 / 2 / 4 / p.kc, p.nr), round_up(std::max<int64_t>(problem.n, 1), p.nr));
  const int64_t a_row_bytes = problem.row_stride_a() * 4;
  // Rows whose distance is a multiple of 1 KiB collide in a few L1 sets; short rows do not have the time to.
  p.pack_a = (problem.k > p.kc || a_row_bytes % 1024 == 0) && problem.n > p.nr ? PackA::kRows : PackA::kNone;
  p.parallel = ParallelDim::kMn;
  const int64_t b_bytes = problem.k * problem.n * 4;
  if (problem.b == BLayout::kNt || (problem.b == BLayout::kNn && b_bytes > small_b(caches))) {
    p.pack_b = PackB::kBlock;
    p.parallel = ParallelDim::kN;
    const int64_t columns = round_up(std::max<int64_t>(ceil_div(problem.n, target.threads), 1), p.nr);
    p.nc = std::min(p.nc, columns);
  }
  return p;
}

}  // namespace

TransformProgram default_program(const MatmulProblem& problem, const BlockingTarget& target, int64_t panel) {
  const IsaInfo& isa = isa_info(target.isa);
  TransformProgram p;
  p.isa = target.isa;
  p.lanes = isa.lanes_f32();
  p.order = TileOrder::kJi;
  p.panel = panel > 0 ? panel : p.lanes;
  p = problem.m <= kFewRows ? few_rows(problem, p, target, panel) : blocked(problem, p, target, panel);
  return canonical(problem, p);
}

std::vector<RegisterTile> register_tiles(Isa isa) {
  const IsaInfo& info = isa_info(isa);
  const int64_t lanes = info.lanes_f32();
  std::vector<RegisterTile> tiles;
  for (int64_t nv = 16; nv >= 1; --nv) {
    for (int64_t mr = 1; mr <= 28; ++mr) {
      const int64_t registers = mr * nv + std::min(mr, nv) + 1;
      if (registers <= info.vector_registers) tiles.push_back({mr, nv * lanes});
    }
  }
  return tiles;
}

}  // namespace hone::matmul
