// Where the default plan comes from.
//
// Register tile: one k-step of an mr x nr tile costs mr * nv fma against nv loads of B and mr broadcasts of A. Two fma
// and two loads a cycle means that any tile with mr, nv >= 2 can be bound by fma; larger tiles leave slack for L2
// latency. 14x32 (AVX-512) and 6x16 (AVX2) fill the register file. For few rows the tile has exactly as many rows as
// there are, and enough vectors side by side to cover the latency of fma (4 cycles x 2 pipes = 8 chains) and to give
// the memory several streams.
//
// Block order: ij, the rows of A of one tile (mr x kc) stay in L1 while the block of B (kc x nc) streams past them from
// L2, announced 8 k-steps ahead; without that hint the stream runs at 135 instead of 178 GFLOP/s (Granite Rapids, B in
// L2). The block of B serves all rows of the task before the next one is touched. So kc: a third of L1 for the rows of
// A; nc: a quarter of L2 for the block of B.
//
// Packing A costs 3-5% where L3 is slow (it is pure memory traffic) and saves nothing unless the rows of a tile
// collide in L1: when they lie a multiple of 4 KiB apart, all of them compete for the ways of one set.
#include "kernels/matmul/blocking.h"

#include <algorithm>

#include "engine/base/math.h"
#include "kernels/matmul/lower_internal.h"

namespace hone::matmul {
namespace {

// Rows up to which a problem is "few rows": B is streamed once and bounds the time, not fma.
constexpr int64_t kFewRows = 8;
// A matrix of B up to this many bytes stays in L2 with A and C: packing it in the call does not pay.
constexpr int64_t small_b(const BlockingCaches& c) { return c.l2 / 2; }

// Below this estimated time the wake-up of a second thread (5-50 us when it sleeps) costs more than it gives.
constexpr double kWorthThreadsNs = 50'000;

RegisterTile wide_tile(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return {14, 32};
    case Isa::kAvx2:
      return {6, 16};
  }
  return {1, 8};
}

// Up to 4 vectors: 4 panels side by side are 4 streams from memory, which is what reads fastest (16.7 GB/s against 13.9
// with 1 stream and 15.5 with 8, Granite Rapids), and with 2 rows already 8 chains. Fewer where registers or n run out.
int64_t few_rows_width(int64_t rows, int64_t n, const IsaInfo& isa) {
  const int64_t lanes = isa.lanes_f32();
  int64_t nv = 4;
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

// k in even cuts of about `largest`: a short last block would cost as much in C traffic as a whole one.
int64_t even_depth(int64_t k, int64_t largest) { return std::min(k, round_up(ceil_div(k, ceil_div(k, largest)), 8)); }

TransformProgram few_rows(const MatmulProblem& problem, TransformProgram p, const BlockingTarget& target,
                          int64_t panel) {
  const IsaInfo& isa = isa_info(target.isa);
  p.mr = std::max<int64_t>(problem.m, 1);
  p.nr = few_rows_width(p.mr, problem.n, isa);
  if (panel > 0) p.nr = fit_multiple(p.nr, panel);
  fit_rows(p, isa);
  p.mc = round_up(std::max<int64_t>(problem.m, 1), p.mr);
  p.kc = std::max<int64_t>(problem.k, 1);
  p.nc = p.nr * std::max<int64_t>(1, ceil_div(ceil_div(problem.n, p.nr), 4 * target.threads));
  p.unroll_k = p.mr <= 2 ? 4 : 2;
  p.pack_a = PackA::kNone;
  // Measured best distance of 0, 8, 16, 32, 64 on the same machine.
  p.prefetch_b = problem.b == BLayout::kPacked ? 32 : 0;
  p.parallel = ParallelDim::kMn;
  if (problem.b == BLayout::kNt) {
    p.pack_b = PackB::kStrip;
    p.kc = std::min<int64_t>(p.kc, 64);
  }
  return p;
}

// Rows that lie a multiple of 4 KiB apart share one L1 set (64 sets x 64 bytes); more rows than ways throw each other
// out.
bool rows_collide(const MatmulProblem& problem, int64_t mr, const BlockingCaches& caches) {
  const int64_t ways = caches.l1d / 4096;
  return problem.row_stride_a() * 4 % 4096 == 0 && mr > ways + 2;
}

// beta keeps k whole, so blocks may outgrow any workspace: then A and nn rows of B are read in place, nt rows in
// strips.
void fit_workspace(const MatmulProblem& problem, TransformProgram& p) {
  if (packed_bytes(problem, p) <= kMaxPackedBytes) return;
  p.pack_a = PackA::kNone;
  if (packed_bytes(problem, p) <= kMaxPackedBytes) return;
  if (problem.b == BLayout::kNt) {
    p.pack_b = PackB::kStrip;
    p.kc = std::min<int64_t>(p.kc, 64);
  } else {
    p.pack_b = PackB::kNone;
  }
}

// Rows up to which the way of B from memory decides how the blocks are walked. With ij the first rows of a block wait
// for all of it (37 us for 512 KiB at 14 GB/s, 24 us of arithmetic), which the other rows have to make up for: 5% of
// the time at 128 rows, 1% at 512. With ji and the next panel announced in every tile B arrives evenly; but each panel
// then passes the block of A in L2. One thread of Granite Rapids, n=k=4096, GFLOP/s of ij and ji: 120 and 133 at m=128,
// 137 and 135 at m=256, 143 and 132 at m=512.
constexpr int64_t kStreamingRows = 192;

TransformProgram streaming(const MatmulProblem& problem, TransformProgram p, const BlockingTarget& target,
                           int64_t panel) {
  const RegisterTile wide = wide_tile(target.isa);
  const int64_t n = std::max<int64_t>(problem.n, 1), k = std::max<int64_t>(problem.k, 1);
  p.mr = balanced_rows(problem.m, wide.mr);
  p.nr = panel > 0 ? round_up(wide.nr, panel) : wide.nr;
  fit_rows(p, isa_info(target.isa));
  p.kc = even_depth(k, fit_multiple(target.caches.l1d / 2 / 4 / p.mr, 64));
  p.mc = round_up(problem.m, p.mr);
  p.nc = round_up(ceil_div(n, target.threads), p.nr);
  p.order = TileOrder::kJi;
  p.pack_a = PackA::kRows;
  p.prefetch_b = -1;
  p.parallel = ParallelDim::kN;
  return p;
}

TransformProgram blocked(const MatmulProblem& problem, TransformProgram p, const BlockingTarget& target,
                         int64_t panel) {
  const IsaInfo& isa = isa_info(target.isa);
  const BlockingCaches& caches = target.caches;
  const RegisterTile wide = wide_tile(target.isa);
  const int64_t m = std::max<int64_t>(problem.m, 1), n = std::max<int64_t>(problem.n, 1),
                k = std::max<int64_t>(problem.k, 1);
  p.mr = balanced_rows(m, wide.mr);
  p.nr = panel > 0 ? round_up(wide.nr, panel) : wide.nr;
  p.panel = panel > 0 ? panel : p.nr;
  fit_rows(p, isa);
  p.kc = problem.beta != 0 ? k : even_depth(k, fit_multiple(caches.l1d / 3 / 4 / p.mr, 64));
  p.mc = std::min(fit_multiple(caches.l2 / 16 / 4 / p.kc, p.mr), round_up(m, p.mr));
  p.nc = std::min(fit_multiple(caches.l2 / 4 / 4 / p.kc, p.nr), round_up(n, p.nr));
  p.order = TileOrder::kIj;
  p.prefetch_b = 8;
  p.pack_a = rows_collide(problem, p.mr, caches) && n > p.nr ? PackA::kRows : PackA::kNone;
  const bool pack_b = problem.b == BLayout::kNt || (problem.b == BLayout::kNn && k * n * 4 > small_b(caches));
  if (pack_b) {
    p.pack_b = PackB::kBlock;
    p.nc = std::min(p.nc, round_up(ceil_div(n, target.threads), p.nr));
  }
  fit_workspace(problem, p);
  // One block of B serves all rows, when there are enough blocks to go round. Packing in the call wants it, unless n is
  // so narrow that threads would idle: then each block of rows packs the little there is.
  const int64_t column_blocks = problem.batch * ceil_div(n, p.nc), row_blocks = problem.batch * ceil_div(m, p.mc);
  if (target.threads == 1 || column_blocks >= 2 * target.threads) {
    p.parallel = ParallelDim::kN;
  } else if (pack_b) {
    p.parallel = column_blocks < target.threads && row_blocks > column_blocks ? ParallelDim::kM : ParallelDim::kN;
  } else {
    p.parallel = ParallelDim::kMn;
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
  const bool from_memory = problem.b == BLayout::kPacked && problem.k * problem.n * 4 > target.caches.l2;
  if (problem.m <= kFewRows) {
    p = few_rows(problem, p, target, panel);
  } else if (problem.m <= kStreamingRows && from_memory && problem.beta == 0) {
    p = streaming(problem, p, target, panel);
  } else {
    p = blocked(problem, p, target, panel);
  }
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

int default_threads(const MatmulProblem& problem, int limit) {
  // One AVX2 core does about 100 flop and moves about 10 bytes a nanosecond; only the order of magnitude matters here.
  const auto d = [](int64_t v) { return static_cast<double>(v); };
  const double bytes =
      4 * d(problem.batch) * (d(problem.m) * d(problem.k) + d(problem.k) * d(problem.n) + d(problem.m) * d(problem.n));
  const double ns = std::max(problem.flops() / 100, bytes / 10);
  return std::max(1, std::min(limit, static_cast<int>(std::min(ns / kWorthThreadsNs, 4096.0)) + 1));
}

}  // namespace hone::matmul
