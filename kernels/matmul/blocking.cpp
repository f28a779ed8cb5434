// Where the default plan comes from. Figures: one thread of a Granite Rapids VM, AVX-512, cold caches.
//
// Register tile: one k-step of an mr x nr tile costs mr * nv fma against nv loads of B and mr broadcasts of A. Few
// loads per fma win, as each load costs issue slots and power: 9x48 (AVX-512) and 4x24 (AVX2) need 0.44 and 0.58 where
// 14x32 and 6x16 need 0.57 and 0.67; 6x64 needs 0.42, but more of B (step_cycles below). m=512, n=k=2048, packed: 155
// GFLOP/s against 142, and 97 against 94 with AVX2. For few rows the tile has exactly as many rows as there are, and
// enough vectors side by side to cover the latency of fma (4 cycles x 2 pipes = 8 chains) and to give the memory
// several streams.
//
// Blocks: one panel of B (kc x nr) stays in L2 and serves all rows of the task, announced 8 k-steps ahead on its way to
// L1; the rows of A stream past it, at 6 GB/s when k is deep. kc is all of k where a panel leaves room in L2: partial
// sums that wait in C cost 3% a pass. Where B comes from memory the next panel is announced meanwhile: without that the
// first rows of a panel wait for all of it (m=128, n=k=4096: 130 GFLOP/s against 140; m=16: 61 against 92), and three
// panels of one vector side by side are three streams (m=16: 70 against 92).
//
// NEON (no such machine was at hand; LLVM's model of a Neoverse N1): whatever fills the registers is bound by its two
// fma a cycle, 9x12, 6x16, 14x8 and 5x20 alike, 0.51 cycles an fma. So the tile is as wide as a cache line: 6x16 reads
// a line of B a k-step and announces each once, 1.48 instructions an fma; in panels of one vector it would be 1.56, and
// announce a quarter of the lines, four times each.
//
// dot(bf16): A is rounded to pairs per task and block of rows, at 12 elements a cycle, so that a task has columns
// enough to share that: 192 of them make it 1.3% of what is multiplied. The tile that reads a panel of B is then the
// outer loop (ji): the rows stream past it from the task's own copy, which collides in no cache.
//
// Packing A costs 3-5% where L3 is slow (it is pure memory traffic) and saves nothing unless the rows of a tile
// collide in L1: when they lie a multiple of 4 KiB apart, all of them compete for the ways of one set. Then a tile has
// as many rows as there are ways (rows_that_fit), and rows are packed only where that would be too few.
#include "kernels/matmul/blocking.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "engine/base/math.h"
#include "kernels/matmul/lower_internal.h"
#include "kernels/op/region.h"

namespace hone::matmul {
namespace {

// Rows up to which a problem is "few rows": B is streamed once and bounds the time, not fma.
constexpr int64_t kFewRows = 8;
// A matrix of B up to this many bytes stays in L2 with A and C: packing it in the call does not pay.
constexpr int64_t small_b(const BlockingCaches& c) { return c.l2 / 2; }

// Where B comes from memory and few rows use it, panels are short and come one at a time, so that what is announced is
// never far ahead of its use: rows up to which, and k-steps of a panel.
constexpr int64_t kVeryFewRows = 32, kVeryShortDepth = 256;
constexpr int64_t kSomeRows = 144, kShortDepth = 1024;
// Tasks that share out evenly enough: with 16 a thread one more or less is 6%.
constexpr int64_t kTasksPerThread = 16;
// k up to which the loop over it is unrolled whole: its start and end cost as much as its steps.
constexpr int64_t kShortK = 8;
// Up to so many rows the time is that of reading B once.
constexpr int64_t kStreamedRows = 8;
// Columns of a task that make up for rounding A to pairs for it; where few rows stream B, so many a row.
constexpr int64_t kDotColumns = 192, kDotColumnsARow = 16;

int64_t step_bytes(const MatmulProblem& problem, const TransformProgram& p) { return problem.bytes_b() * kr_of(p.dot); }

// Width of panels of packed weights: a vector of half a cache line or more, else a line.
int64_t panel_width(const IsaInfo& isa) {
  constexpr int64_t kLine = 16;
  return isa.lanes_f32() < kLine / 2 ? kLine : isa.lanes_f32();
}

// Up to 4 vectors: 4 panels side by side are 4 streams from memory, which is what reads fastest (16.7 GB/s against 13.9
// with 1 stream and 15.5 with 8, Granite Rapids), and with 2 rows already 8 chains. Fewer where registers or n run out,
// in steps of `unit`.
int64_t few_rows_width(int64_t rows, int64_t n, const IsaInfo& isa, int64_t unit) {
  const int64_t lanes = isa.lanes_f32(), step = unit / lanes;
  int64_t nv = round_up(4, step);
  auto needed = [&](int64_t v) { return rows * v + std::min(rows, v) + 1; };
  while (nv > step && (needed(nv) > isa.vector_registers || (nv - step) * lanes >= n)) nv -= step;
  return nv * lanes;
}

// The number of rows per tile that splits m evenly, at most `largest`.
int64_t balanced_rows(int64_t m, int64_t largest) {
  const int64_t tiles = std::max<int64_t>(1, ceil_div(m, largest));
  return std::clamp<int64_t>(ceil_div(m, tiles), 1, largest);
}

// Cycles of one k-step of a tile, for comparing tiles: the longest of fma, loads and latency; half of the loads again,
// as nothing overlaps perfectly; the end of the step; B's way from L2. For 9x48, 6x64 and 14x32 that is 0.69, 0.70 and
// 0.70 a row and vector: where n does not decide, few loads do.
double step_cycles(int64_t rows, int64_t nv, int64_t lanes) {
  const double r = static_cast<double>(rows), v = static_cast<double>(nv);
  const double fma = r * v / 2, loads = (r + v) / 2, latency = 4, lines = v * static_cast<double>(lanes) / 16;
  return std::max({fma, loads, latency}) + loads / 2 + 1 + lines / 3;
}

// The tile that takes the fewest cycles for m x n, ragged edges included, of `most_rows` at most. Its width is a
// multiple of `unit`.
RegisterTile wide_tile(const IsaInfo& info, int64_t m, int64_t n, int64_t unit, int64_t most_rows) {
  const int64_t lanes = info.lanes_f32(), vectors = ceil_div(n, lanes), step = unit / lanes;
  RegisterTile best{1, unit};
  double least = std::numeric_limits<double>::infinity();
  for (int64_t nv = step; nv <= std::max(step, std::min<int64_t>(vectors, 4)); nv += step) {
    // What the accumulators leave: a row of B and one broadcast of A. One vector wide, more rows only add loads.
    int64_t most = (info.vector_registers - nv - 1) / nv;
    // A width that is not ours to choose may be more vectors than rows fit beside: then rows of A are kept instead.
    while (nv == step && (most + 1) * nv + std::min(most + 1, nv) + 1 <= info.vector_registers) ++most;
    const int64_t rows = balanced_rows(m, std::min(most, most_rows));
    const int64_t tail = vectors % nv;
    double cycles = static_cast<double>(vectors / nv) * step_cycles(rows, nv, lanes);
    if (tail != 0) cycles += step_cycles(rows, tail, lanes);
    cycles *= static_cast<double>(ceil_div(m, rows));
    if (cycles < least) least = cycles, best = {rows, nv * lanes};
  }
  return best;
}

// A given panel width may force a wider tile than the rows leave registers for: fewer rows, then.
void fit_rows(TransformProgram& p, const IsaInfo& isa) {
  while (tile_registers(p) > isa.vector_registers && p.mr > 1) --p.mr;
}

// k in even cuts of about `largest`: a short last block would cost as much in C traffic as a whole one.
int64_t even_depth(int64_t k, int64_t largest) { return std::min(k, round_up(ceil_div(k, ceil_div(k, largest)), 8)); }

// Panels of weights that are yet to be packed are ours to choose.
int64_t unit_of(const MatmulProblem& problem, const IsaInfo& isa, int64_t panel) {
  return problem.b == BLayout::kPacked && panel == 0 ? panel_width(isa) : isa.lanes_f32();
}

// What the width of a tile is a multiple of: `unit`, and with swiglu whole pairs of gate and up columns.
int64_t tile_step(const MatmulProblem& problem, int64_t unit) {
  return problem.swiglu() ? std::lcm(unit, 2 * kSwigluColumns) : unit;
}

TransformProgram few_rows(const MatmulProblem& problem, TransformProgram p, const BlockingTarget& target,
                          int64_t panel) {
  const IsaInfo& isa = isa_info(target.isa);
  p.mr = std::max<int64_t>(problem.m, 1);
  p.nr = few_rows_width(p.mr, problem.n, isa, tile_step(problem, unit_of(problem, isa, panel)));
  if (panel > 0) p.nr = fit_multiple(p.nr, tile_step(problem, panel));
  fit_rows(p, isa);
  if (panel == 0) p.mr = balanced_rows(problem.m, p.mr);
  p.mc = round_up(std::max<int64_t>(problem.m, 1), p.mr);
  p.kc = std::max<int64_t>(problem.k, 1);
  p.nc = p.nr * std::max<int64_t>(1, ceil_div(problem.n, p.nr) / (kTasksPerThread * target.threads));
  p.unroll_k = p.mr <= 2 ? 4 : 2;
  p.pack_a = p.dot == Dot::kNone ? PackA::kNone : PackA::kPairs;
  if (p.dot != Dot::kNone) p.nc = std::max(p.nc, round_up(kDotColumnsARow * p.mc, p.nr));
  // Measured best distance of 0, 8, 16, 32, 64 on the same machine.
  p.prefetch_b = problem.b == BLayout::kPacked ? static_cast<int>(32 * 4 / step_bytes(problem, p)) : 0;
  p.parallel = ParallelDim::kMn;
  if (problem.b == BLayout::kNt) {
    p.pack_b = PackB::kStrip;
    p.kc = std::min<int64_t>(p.kc, 64);
  }
  return p;
}

// Rows that lie a multiple of 4 KiB apart share one L1 set (64 sets x 64 bytes); more rows than ways throw each other
// out.
int64_t rows_that_fit(const MatmulProblem& problem, const BlockingCaches& caches) {
  constexpr int64_t kAny = 16;
  return problem.row_stride_a() * 4 % 4096 == 0 ? std::min(kAny, caches.l1d / 4096 + 2) : kAny;
}
// Fewer rows a tile are better than packed ones, which are copied for each panel of B: m=128, n=5632, k=2048, packed,
// one thread of a Zen 4 (8 ways) takes 36.0 ms with 13x32 and packed rows, 31.4 in place, 26.1 with 8x48. Not fewer
// than these, though.
constexpr int64_t kFewestWideRows = 6;

// beta and swiglu keep k whole, so blocks may outgrow any workspace: then A and nn rows of B are read in place, nt rows
// in strips.
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

// k-steps of a panel: all of k where it fits.
int64_t panel_depth(const MatmulProblem& problem, const TransformProgram& p, const BlockingCaches& caches) {
  const int64_t k = std::max<int64_t>(problem.k, 1);
  if (problem.beta != 0 || problem.swiglu()) return k;
  int64_t largest = caches.l2 / 4 / problem.bytes_b() / p.nr;
  if (p.prefetch_next && problem.m <= kSomeRows)
    largest = std::min(largest, problem.m <= kVeryFewRows ? kVeryShortDepth : kShortDepth);
  return even_depth(k, fit_multiple(largest, 64));
}

// How the blocks are shared out. Columns, as a panel of B then serves all rows; blocks of rows as well where n is too
// narrow to keep the threads busy.
void share_out(const MatmulProblem& problem, TransformProgram& p, const BlockingTarget& target) {
  const int64_t m = std::max<int64_t>(problem.m, 1), n = std::max<int64_t>(problem.n, 1);
  p.parallel = ParallelDim::kN;
  if (target.threads == 1) return;
  const bool packs = p.pack_b == PackB::kBlock;
  int64_t wanted = ceil_div(packs ? 2 * target.threads : kTasksPerThread * target.threads, problem.batch);
  if (p.dot != Dot::kNone) wanted = std::clamp<int64_t>(n / kDotColumns, target.threads, wanted);
  p.nc = std::min(p.nc, round_up(ceil_div(n, wanted), p.nr));
  const int64_t columns = ceil_div(n, p.nc);
  const bool even = n % p.nc == 0 && columns * problem.batch % target.threads == 0;
  if (columns >= wanted || (!packs && even)) return;
  // Whoever packs does it once per block of rows, so only where threads would idle.
  const int64_t row_blocks = packs ? ceil_div(wanted, columns) : target.threads;
  p.mc = std::min(p.mc, round_up(ceil_div(m, row_blocks), p.mr));
  p.parallel = packs ? ParallelDim::kM : ParallelDim::kMn;
}

// dot(bf16): all columns share a block of A in pairs, of as many rows as its half of L3 (or L2) holds.
void round_rows(const MatmulProblem& problem, TransformProgram& p, const BlockingCaches& caches) {
  const int64_t m = std::max<int64_t>(problem.m, 1);
  p.pack_a = PackA::kPairs;
  p.order = TileOrder::kJi;
  p.kc = p.kc < problem.k ? round_up(p.kc, kr_of(p.dot)) : p.kc;
  p.nc = round_up(std::max<int64_t>(problem.n, 1), p.nr);
  const int64_t most =
      fit_multiple(std::min(std::max(caches.l3_share, caches.l2) / 2, kMaxPackedBytes) / (pair_row(p.kc) * 4), p.mr);
  p.mc = round_up(ceil_div(m, ceil_div(m, most)), p.mr);
  while (p.mc > p.mr && packed_bytes(problem, p) > kMaxPackedBytes) p.mc -= p.mr;
}

TransformProgram blocked(const MatmulProblem& problem, TransformProgram p, const BlockingTarget& target,
                         int64_t panel) {
  const BlockingCaches& caches = target.caches;
  const int64_t m = std::max<int64_t>(problem.m, 1), n = std::max<int64_t>(problem.n, 1),
                k = std::max<int64_t>(problem.k, 1);
  const IsaInfo& isa = isa_info(target.isa);
  // Rows that are copied collide nowhere.
  const int64_t rows = p.dot == Dot::kNone ? rows_that_fit(problem, caches) : isa.vector_registers;
  const RegisterTile wide =
      wide_tile(isa, m, n, tile_step(problem, unit_of(problem, isa, panel)), std::max(kFewestWideRows, rows));
  const int64_t given = tile_step(problem, panel);
  p.mr = wide.mr;
  p.nr = panel > 0 ? fit_multiple(std::max(wide.nr, given), given) : wide.nr;
  fit_rows(p, isa);
  p.order = TileOrder::kIj;
  p.unroll_k = static_cast<int>(k <= kShortK ? ceil_div(k, kr_of(p.dot)) : 2);
  p.prefetch_b = static_cast<int>(8 * 4 / step_bytes(problem, p));
  p.prefetch_next = problem.b == BLayout::kPacked && k * n * problem.bytes_b() > caches.l2;
  p.kc = panel_depth(problem, p, caches);
  p.pack_a = p.mr > rows && n > p.nr ? PackA::kRows : PackA::kNone;
  if (problem.b == BLayout::kNt || (problem.b == BLayout::kNn && k * n * 4 > small_b(caches))) p.pack_b = PackB::kBlock;
  // Blocks of A of equal size that fit half of this core's share of L3, so that all panels find them there.
  const int64_t most_rows = fit_multiple(std::max(caches.l3_share, caches.l2) / 2 / 4 / p.kc, p.mr);
  p.mc = round_up(ceil_div(m, ceil_div(m, most_rows)), p.mr);
  // Several panels share what a tile's rows of A cost on their way from L2.
  const bool one_panel = p.prefetch_next && m <= kSomeRows;
  p.nc =
      std::min(round_up(n, p.nr), one_panel ? p.nr : fit_multiple(caches.l2 * 3 / 8 / problem.bytes_b() / p.kc, p.nr));
  if (p.dot != Dot::kNone) round_rows(problem, p, caches);
  share_out(problem, p, target);
  fit_workspace(problem, p);
  return p;
}

}  // namespace

Dot dot_for(const MatmulProblem& problem, std::string_view numerics, const FeatureSet& features, Isa isa) {
  if (numerics == "bf16") return Dot::kBf16;
  constexpr int64_t kDeepest = int64_t{1} << 22;  // all of k of any tile's rows fits a workspace, in pairs
  const bool possible = problem.dtype == DType::kBf16 && problem.b == BLayout::kPacked && problem.k <= kDeepest &&
                        isa == Isa::kAvx512 && features.has(Feature::kAvx512Bf16);
  return numerics == "any" && possible ? Dot::kBf16 : Dot::kNone;
}

std::string narrow_numerics(const MatmulProblem& problem, std::string_view numerics, const FeatureSet& features,
                            Arch arch) {
  const std::vector<Isa> isas = isas_of(arch);
  const bool pairs = std::any_of(isas.begin(), isas.end(),
                                 [&](Isa isa) { return dot_for(problem, numerics, features, isa) == Dot::kBf16; });
  return pairs ? "bf16" : std::string(numerics);
}

TransformProgram default_program(const MatmulProblem& problem, const BlockingTarget& target, int64_t panel) {
  // Few columns leave most of a wide vector idle, and masked: 33x7x1000 takes 7.3 us in AVX-512, 6.1 in AVX2.
  const bool narrow = target.isa == Isa::kAvx512 && problem.n <= isa_info(Isa::kAvx2).lanes_f32() && panel == 0 &&
                      target.dot == Dot::kNone;
  BlockingTarget on = target;
  if (narrow) on.isa = Isa::kAvx2;
  const IsaInfo& isa = isa_info(on.isa);
  TransformProgram p;
  p.isa = on.isa;
  p.lanes = isa.lanes_f32();
  p.dot = on.dot;
  p.order = TileOrder::kJi;
  p.panel = panel > 0 ? panel : unit_of(problem, isa, panel);
  p = problem.m <= kFewRows ? few_rows(problem, p, on, panel) : blocked(problem, p, on, panel);
  p = canonical(problem, p);
  if (panel == 0 || legal(problem, p).ok()) return p;
  // Wide panels that are packed already may leave room for fewer rows.
  while (p.mr > 1 && tile_registers(p) > isa_info(p.isa).vector_registers) --p.mr;
  p.mc = round_up(p.mc, p.mr);
  return p;
}

TransformProgram adapt(const MatmulProblem& problem, int64_t tuned_m, TransformProgram p, int64_t panel,
                       std::string* difference) {
  auto note = [&](std::string_view what, int64_t from, int64_t to) {
    *difference += fmt::format("{}{} {} -> {}", difference->empty() ? "" : "; ", what, from, to);
  };
  if (panel > 0 && problem.b == BLayout::kPacked && p.panel != panel) {
    note("panel", p.panel, panel);
    p.panel = panel;
  }
  // A tile that held all rows of the tuned problem streams B once; it has to hold all of this one's, as far as those
  // are few.
  const int64_t rows = std::min<int64_t>(problem.m, kStreamedRows);
  if (p.mr < tuned_m || p.mr >= rows) return p;
  note("mr", p.mr, rows);
  p.mr = rows;
  p.mc = round_up(p.mc, rows);
  const int64_t step = tile_step(problem, std::max<int64_t>(p.lanes, problem.b == BLayout::kPacked ? p.panel : 0));
  const int64_t nr = p.nr;
  while (p.nr > step && tile_registers(p) > isa_info(p.isa).vector_registers) p.nr -= step;
  if (p.nr != nr) {
    note("nr", nr, p.nr);
    p.nc = round_up(p.nc, p.nr);
  }
  return p;
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

double region_work(const MatmulProblem& problem) {
  // Of a square the elements count for more than its multiply-adds up to 60^3.
  const auto d = [](int64_t v) { return static_cast<double>(v); };
  const double of_b = d(problem.bytes_b()) / 4;
  const double elements =
      d(problem.m) * d(problem.k) + of_b * d(problem.k) * d(problem.n) + d(problem.m) * d(problem.n);
  return std::max(problem.flops() / 2, op::kWorkPerElement * d(problem.batch) * elements);
}

}  // namespace hone::matmul
