// How the parts combine:
//
//   core    = the longest of fma, load, latency + a quarter of what hides behind it + loop + exposed L2 traffic
//   busy    = (max(core + c, all L2 traffic) + far + pack) / threads * imbalance
//   total   = busy + what of dram the first pass over B leaves exposed, never less than dram; + region
//
// Nothing overlaps perfectly: full sums order as badly as pure maxima (rank correlation 0.40 on ten problems of a
// Granite Rapids VM with maxima only). README.md has the correlations and regrets before and after.
//
// Constants are for the cores of core_internal.h.
#include "autotune/cost/matmul_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autotune/cost/core_internal.h"

namespace hone::autotune {
namespace {

using matmul::BLayout;
using matmul::MatmulProblem;
using matmul::PackA;
using matmul::PackB;
using matmul::ParallelDim;
using matmul::TransformProgram;

// Of the shorter of fma and load this much shows: tiles of one vector (28x16, 1.04 loads per fma) are 25% slower than
// 14x32 (0.57), not the 4% that a maximum gives.
constexpr double kPartlyHidden = 0.25;
// Each k-step costs about as much again as one and a half cycles: counters, branch, and the start of the next step's
// loads. It is why 16 chains (4x64) lose 10% to 24 (8x48) with the same loads per fma; unrolling saves the counter.
constexpr double kStepCycles = 1;
constexpr double kLoopCycles = 0.5;
// Traffic between L2 and L1 that the tile waits for: less when the line was asked for ahead of time. A's rows are
// never announced, but each is a stream of its own that the prefetchers follow.
constexpr double kHintedL2 = 0.15;
constexpr double kUnhintedL2 = 0.40;
constexpr double kRowsL2 = 0.12;
// Partial sums that do not stay in L2 from one pass over k to the next.
constexpr double kSumsFromFar = 3;
// Packing moves an element in and out: rows are copied at about 4 elements a cycle; transposing takes 64 shuffles on
// one port per 256 elements and comes to about 2.5.
constexpr double kCopyPerCycle = 4;
constexpr double kTransposePerCycle = 2.5;
// Rounded to pairs, 32 elements take two loads, a conversion and a store.
constexpr double kRoundPerCycle = 8;
// Waking the workers and joining them. A pool that spins takes 1-2 us, one that sleeps 5-50.
constexpr double kRegionNs = 4000;
// Rows a multiple of 4 KiB apart share one set of L1: with more rows than ways, reading them in step misses where
// packed rows hit. 14 rows in 12 ways were no slower than packed ones on Granite Rapids; 8 ways are what this is for.
constexpr double kConflictFactor = 1.12;
// Ways of L2 (16 on Intel server cores since 2017, 8 on Zen and on client cores): with the stride of rows this says
// which part of it they can use.
constexpr double kL2Ways = 16;
// Beyond L2 but not yet memory.
constexpr double kL3OverDram = 2;
// Reading from memory: a line that is announced too late costs up to this much more. Its latency on servers.
constexpr double kLateFactor = 0.15;
constexpr double kDramLatencyNs = 100;
// One panel is one stream; several side by side use more of the memory's parallelism, many run out of prefetchers.
constexpr double kOneStreamFactor = 1.15;
constexpr double kTwoStreamsFactor = 1.04;
constexpr double kManyStreamsFactor = 1.06;
constexpr double kManyStreams = 12;
// Transposing nt reads nr rows side by side, each in a page of its own; the L2 prefetcher follows 32 to 64 pages.
// m=1, n=k=2048 on Granite Rapids: 48 rows as fast as 16, 64 rows 1.3 times, 96 and more 1.65 times as long.
constexpr double kMostRowStreams = 48;
constexpr double kTooManyRowsFactor = 0.65;
// The next panel announced (all of it by every tile, then) waits in L2 while the current one is used: m=1, kc=2048
// took 1.08, 1.24, 1.5 and 1.66 times as long with panels of 128 KiB, 512 KiB, 1 and 2 MiB in an L2 of 2 MiB.
constexpr double kCrowdedFactor = 0.6;
// Of the memory time that the first pass over B cannot hide.
constexpr double kExposedDram = 0.35;

double ceil_div(double a, double b) { return std::ceil(a / std::max(b, 1.0)); }

struct Sizes {
  double m, n, k, batch;
  double mr, nv, lanes, mc, nc, kc;
  double kr;  // elements of k that one fma, or dot product, takes
};

Sizes sizes_of(const MatmulProblem& p, const TransformProgram& t) {
  return {.m = static_cast<double>(p.m),
          .n = static_cast<double>(p.n),
          .k = static_cast<double>(std::max<int64_t>(p.k, 1)),
          .batch = static_cast<double>(p.batch),
          .mr = static_cast<double>(t.mr),
          .nv = static_cast<double>(t.nr / t.lanes),
          .lanes = static_cast<double>(t.lanes),
          .mc = static_cast<double>(t.mc),
          .nc = static_cast<double>(t.nc),
          .kc = static_cast<double>(t.kc),
          .kr = static_cast<double>(matmul::kr_of(t.dot))};
}

struct TileWork {
  double fma = 0, load = 0, latency = 0, loop = 0;  // cycles of all tiles over the whole depth
};

// Cycles of a k-step of one tile, summed over all tiles: whole ones, ragged rows, ragged columns.
TileWork tile_work(const Sizes& s, int unroll_k) {
  TileWork work;
  const double full_rows = std::floor(s.m / s.mr), tail_rows = s.m - full_rows * s.mr;
  const double nr = s.nv * s.lanes;
  const double full_cols = std::floor(s.n / nr);
  const double tail_nv = std::ceil((s.n - full_cols * nr) / s.lanes);
  auto add = [&](double count, double rows, double nv) {
    if (count <= 0 || rows <= 0 || nv <= 0) return;
    const double steps = count * s.k / s.kr;
    work.fma += steps * rows * nv / kFmaPipes;
    work.load += steps * (rows + nv) / kLoadPorts;
    work.latency += steps * kFmaLatency;
    work.loop += steps * (kStepCycles + kLoopCycles / unroll_k);
  };
  add(full_rows * full_cols, s.mr, s.nv);
  add(full_cols, tail_rows, s.nv);
  add(full_rows, s.mr, tail_nv);
  add(1, tail_rows, tail_nv);
  return work;
}

// Parallel tasks of the program, and so how evenly they share out over the threads.
double imbalance(const Sizes& s, const TransformProgram& t, int threads) {
  const double in_m = ceil_div(s.m, s.mc), in_n = ceil_div(s.n, s.nc);
  double tasks = s.batch;
  if (t.parallel != ParallelDim::kN) tasks *= in_m;
  if (t.parallel != ParallelDim::kM) tasks *= in_n;
  tasks = std::max(tasks, 1.0);
  return ceil_div(tasks, threads) * threads / tasks;
}

// Elements of B packed inside one call; a block is packed again where the loop order makes each task do so.
double packed_elements(const Sizes& s, const TransformProgram& t) {
  const double b = s.k * s.n;
  switch (t.pack_b) {
    case PackB::kNone:
      return 0;
    case PackB::kBlock:
      return b * (t.parallel == ParallelDim::kM ? ceil_div(s.m, s.mc) : 1);
    case PackB::kStrip:
      return b * ceil_div(s.m, s.mr);
  }
  return 0;
}

double packed_a_elements(const Sizes& s, const TransformProgram& t) {
  if (t.pack_a == PackA::kNone) return 0;
  return s.m * s.k * (t.parallel == ParallelDim::kM ? 1 : ceil_div(s.n, s.nc));
}

double k_passes(const Sizes& s, const TransformProgram& t) {
  return t.pack_b == PackB::kStrip ? 1 : ceil_div(s.k, s.kc);
}

bool reads_nn_in_place(const MatmulProblem& p, const TransformProgram& t) {
  return t.pack_b == PackB::kNone && p.b == BLayout::kNn;
}

// The part of a cache that runs of `run` bytes, `stride` bytes apart, can use: strides that share a large factor with
// the size of a way meet in few sets.
double usable(double cache, double ways, int64_t stride, double run) {
  const int64_t way = std::max<int64_t>(static_cast<int64_t>(cache / ways), 1);
  const auto apart = static_cast<double>(std::gcd(std::max<int64_t>(stride, 1), way));
  return cache * std::min(1.0, run / apart);
}

void core_times(Cost& cost, const MatmulProblem& p, const TransformProgram& t, const Sizes& s, double ghz,
                const CostMachine& machine) {
  TileWork work = tile_work(s, t.unroll_k);
  // Rows in conflict make loads slower, not more.
  if (t.pack_a == PackA::kNone && t.mr > machine.caches.l1d / 4096 + 2 && p.row_stride_a() * 4 % 4096 == 0)
    work.load *= kConflictFactor, work.fma *= kConflictFactor;
  cost.fma = s.batch * work.fma / ghz;
  cost.load = s.batch * work.load / ghz;
  cost.latency = s.batch * work.latency / ghz;
  cost.loop = s.batch * work.loop / ghz;
}

// Traffic between L1 and L2, and beyond. Returns the part that the tiles wait for.
double l2_times(Cost& cost, const MatmulProblem& p, const TransformProgram& t, const Sizes& s,
                const CostMachine& machine) {
  const double nr = s.nv * s.lanes, row_tiles = ceil_div(s.m, s.mr);
  const auto bytes = static_cast<double>(p.bytes_b());
  const double of_a = t.pack_a == PackA::kPairs ? 2 : 4;
  const double panel = s.kc * nr * bytes, rows = s.kc * s.mr * of_a;
  const bool ji = t.order == matmul::TileOrder::kJi;
  const auto l1 = static_cast<double>(machine.caches.l1d), l2 = static_cast<double>(machine.caches.l2);
  // Every row tile reads its panel again (from L1 when the panel fits beside A's rows, else from L2), and every panel
  // the rows of A.
  const bool fits = panel + rows <= l1 && !(ji && reads_nn_in_place(p, t));
  const double b_passes = fits && ji ? ceil_div(s.m, s.mc) : row_tiles;
  const double a_passes = fits && !ji ? ceil_div(s.n, s.nc) : ceil_div(s.n, nr);
  const double b = s.batch * bytes * s.k * s.n / machine.l2_gbs, a = s.batch * of_a * s.m * s.k / machine.l2_gbs;
  cost.l2 = b * b_passes + a * a_passes;
  // Columns of nn are read in place as short runs a row apart: what is to be used again by the next rows may not find
  // room in L2, however small it is.
  if (reads_nn_in_place(p, t) && row_tiles > 1) {
    const double run = 4 * std::min(ji ? nr : s.nc, s.n);
    if (s.kc * run > usable(l2, kL2Ways, p.row_stride_b() * 4, run))
      cost.far = s.batch * 4 * s.k * s.n * (row_tiles - 1) / (kL3OverDram * machine.dram_gbs_1t);
  }
  // Strips are packed right before they are used.
  const bool waits_for_b = t.pack_b != PackB::kStrip && row_tiles > 1;
  const bool one_stream = p.b == BLayout::kPacked && t.nr <= t.panel;
  const double exposed_b = (t.prefetch_b > 0 ? kHintedL2 : kUnhintedL2) * (one_stream ? kOneStreamFactor : 1);
  return (waits_for_b ? exposed_b * b * b_passes : 0) + kRowsL2 * a * a_passes;
}

// How much longer than at full rate B takes from memory.
double dram_slowdown(const MatmulProblem& p, const TransformProgram& t, const Sizes& s, double b_step_ns,
                     const CostMachine& machine) {
  double factor = 1;
  if (t.pack_b == PackB::kNone && !t.prefetch_next)
    factor *= 1 + kLateFactor * (1 - std::min(1.0, t.prefetch_b * b_step_ns / kDramLatencyNs));
  if (t.pack_b == PackB::kNone && t.prefetch_next) {
    const double panel = s.kc * s.nv * s.lanes * static_cast<double>(p.bytes_b());
    factor *= 1 + kCrowdedFactor * std::min(1.0, 2 * panel / static_cast<double>(machine.caches.l2));
  }
  if (p.b == BLayout::kPacked) {
    const double streams = s.nv * s.lanes / static_cast<double>(std::max<int64_t>(t.panel, 1));
    if (streams <= 1) factor *= kOneStreamFactor;
    if (streams == 2) factor *= kTwoStreamsFactor;
    if (streams >= kManyStreams) factor *= kManyStreamsFactor;
  }
  if (p.b == BLayout::kNt) {
    const double excess = (s.nv * s.lanes - kMostRowStreams) / kMostRowStreams;
    factor *= 1 + kTooManyRowsFactor * std::clamp(excess, 0.0, 1.0);
  }
  return factor;
}

struct MemoryTimes {
  double b = 0, rest = 0;
};

// Compulsory and repeated traffic beyond the last cache, where blocks decide how often a matrix comes from memory.
MemoryTimes memory_times(const MatmulProblem& p, const TransformProgram& t, const Sizes& s, int threads, double ghz,
                         const CostMachine& machine) {
  const double last = std::max(static_cast<double>(machine.caches.l2), static_cast<double>(machine.caches.l3_share));
  const double gbs = dram_gbs(machine, threads);
  const auto of_b = static_cast<double>(p.bytes_b());
  auto reads = [&](double elements, double passes, double element = 4) {
    const double bytes = elements * element;
    const double first = machine.cold || bytes > last ? bytes : 0;
    return s.batch * (first + (bytes > last ? bytes * (passes - 1) : 0)) / gbs;
  };
  const double step = std::max(s.mr * s.nv / kFmaPipes / ghz, of_b * s.nv * s.lanes / machine.dram_gbs_1t);
  const double b_passes = s.kc * s.nc * of_b <= last ? 1 : ceil_div(s.m, s.mc);
  return {.b = reads(s.k * s.n, b_passes, of_b) * dram_slowdown(p, t, s, step, machine),
          .rest = reads(s.m * s.k, ceil_div(s.n, s.nc)) + reads(s.m * s.n, k_passes(s, t)) * 2};
}

}  // namespace

std::string Cost::breakdown() const {
  return fmt::format(
      "fma={:.0f} load={:.0f} latency={:.0f} loop={:.0f} l2={:.0f} far={:.0f} dram={:.0f} pack={:.0f} c={:.0f} "
      "region={:.0f} "
      "imbalance={:.2f} total={:.0f}",
      fma, load, latency, loop, l2, far, dram, pack, c, region, imbalance, total);
}

Cost estimate(const MatmulProblem& p, const TransformProgram& program, int threads, const CostMachine& machine) {
  const TransformProgram t = matmul::canonical(p, program);
  const Sizes s = sizes_of(p, t);
  const double ghz = core_ghz(machine);
  Cost cost;
  core_times(cost, p, t, s, ghz, machine);
  const double exposed = l2_times(cost, p, t, s, machine);
  const MemoryTimes memory = memory_times(p, t, s, threads, ghz, machine);
  cost.dram = memory.b + memory.rest;

  // nn is copied, nt transposed; writing and reading back the pack goes through L2.
  const double per_cycle = p.b == BLayout::kNt ? kTransposePerCycle : kCopyPerCycle;
  const double rows_per_cycle = t.pack_a == PackA::kPairs ? kRoundPerCycle : kCopyPerCycle;
  cost.pack = s.batch * (packed_elements(s, t) / per_cycle + packed_a_elements(s, t) / rows_per_cycle) / ghz;

  // Sums leave and come back once per pass over k; the epilogue is about ten vector operations an element vector.
  const double elements_c = s.m * s.n;
  const double sums = 4 * s.m * std::min(s.nc, s.n);
  const double far = sums > static_cast<double>(machine.caches.l2) / 2 ? kSumsFromFar : 1;
  cost.c = s.batch * elements_c * 4 * (1 + 2 * far * (k_passes(s, t) - 1)) / machine.l2_gbs;
  if (!p.epilogue.empty() || p.alpha != 1 || p.beta != 0)
    cost.c += s.batch * elements_c / s.lanes * 5 * static_cast<double>(1 + p.epilogue.size()) / ghz;

  const int parallel = parallel_threads(machine, threads);
  cost.imbalance = imbalance(s, t, threads);
  cost.region = threads > 1 ? kRegionNs : 0;
  const double longest = std::max({cost.fma, cost.load, cost.latency});
  const double hidden = longest == cost.fma ? cost.load : cost.fma;
  const double core = longest + kPartlyHidden * hidden + (cost.latency > cost.fma ? 0 : cost.loop) + exposed;
  const double share = cost.imbalance / parallel;
  const double busy = (std::max(core + cost.c, cost.l2) + cost.far) * share, pack = cost.pack * share;
  // A block is packed before anything is computed from it, so it is packing that B's way from memory overlaps with.
  // Else B arrives while the first rows of its block are computed, or, with the next panel announced, while all are.
  if (t.pack_b == PackB::kBlock) {
    cost.total = std::max(busy + std::max(pack, memory.b), cost.dram) + cost.region;
  } else {
    const double beside = t.prefetch_next || s.m <= s.mr ? 1 : s.mr / s.m;
    const double waited = kExposedDram * std::max(0.0, cost.dram - busy * beside);
    cost.total = std::max(busy + pack + waited, cost.dram) + 0.05 * std::min(busy + pack, cost.dram) + cost.region;
  }
  return cost;
}

double estimated_ns(const MatmulProblem& problem, const TransformProgram& program, int threads,
                    const CostMachine& machine) {
  return estimate(problem, program, threads, machine).total;
}

// Among unroll, prefetch and block sizes the model sees hardly any difference.
std::vector<int64_t> variant_of(const TransformProgram& t) {
  return {static_cast<int64_t>(t.isa), t.mr, t.nr, static_cast<int64_t>(t.pack_a), static_cast<int64_t>(t.pack_b)};
}

}  // namespace hone::autotune
