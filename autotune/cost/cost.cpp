// How the parts combine:
//
//   core    = max(fma, load, latency) + loop     a register tile waits for the slowest of its resources
//   total   = (max(core + c, l2) + pack) / threads * imbalance, but never faster than dram; + region
//
// Constants are for x86 cores since 2013 with two fma pipes, two load ports and 4 cycles of fma latency (Haswell to
// Sapphire Rapids, Zen 2 to 5). The core clock is what the measured peak implies: peak = 2 pipes x 2 flops x lanes x
// GHz.
#include "autotune/cost/cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

namespace hone::autotune {
namespace {

using matmul::BLayout;
using matmul::MatmulProblem;
using matmul::PackA;
using matmul::PackB;
using matmul::ParallelDim;
using matmul::TransformProgram;

constexpr double kFmaPipes = 2;
constexpr double kLoadPorts = 2;
constexpr double kFmaLatency = 4;
// An iteration of the innermost loop ends in an add, a compare-and-branch and a pointer bump: about one cycle of issue
// that is not hidden when the tile is small.
constexpr double kLoopCycles = 1;
// Packing moves an element in and out: rows are copied at about 4 elements a cycle; transposing takes 64 shuffles on
// one port per 256 elements and comes to about 2.5.
constexpr double kCopyPerCycle = 4;
constexpr double kTransposePerCycle = 2.5;
// Waking the workers and joining them. A pool that spins takes 1-2 us, one that sleeps 5-50.
constexpr double kRegionNs = 4000;
// Rows a multiple of 4 KiB apart share one set of L1: with more rows than ways, reading them in step misses where
// packed rows hit. 14 rows in 12 ways were no slower than packed ones on Granite Rapids; 8 ways are what this is for.
constexpr double kConflictFactor = 1.12;
// A block of B that streams from L2 without a hint: 135 against 178 GFLOP/s when nothing else is in the way, about half
// of that in whole plans (Granite Rapids).
constexpr double kUnhintedFactor = 1.12;
// Reading nn in place takes one short run per row of B, too short for the prefetcher: exposed L2 latency.
constexpr double kUnpackedFactor = 1.08;
// Software prefetch keeps more lines in flight than the hardware's streams: gain when memory is the bound.
constexpr double kPrefetchGain = 0.95;
// One panel is one stream; several side by side use more of the memory's parallelism.
constexpr double kOneStreamFactor = 1.15;

double ceil_div(double a, double b) { return std::ceil(a / std::max(b, 1.0)); }

struct Sizes {
  double m, n, k, batch;
  double mr, nv, lanes, mc, nc, kc;
};

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
    const double steps = count * s.k;
    work.fma += steps * rows * nv / kFmaPipes;
    work.load += steps * (rows + nv) / kLoadPorts;
    work.latency += steps * kFmaLatency;
    work.loop += steps * kLoopCycles / unroll_k;
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

}  // namespace

std::string Cost::breakdown() const {
  return fmt::format(
      "fma={:.0f} load={:.0f} latency={:.0f} loop={:.0f} l2={:.0f} dram={:.0f} pack={:.0f} c={:.0f} region={:.0f} "
      "imbalance={:.2f} total={:.0f}",
      fma, load, latency, loop, l2, dram, pack, c, region, imbalance, total);
}

Cost estimate(const MatmulProblem& p, const TransformProgram& program, int threads, const CostMachine& machine) {
  const TransformProgram t = matmul::canonical(p, program);
  Sizes s{.m = static_cast<double>(p.m),
          .n = static_cast<double>(p.n),
          .k = static_cast<double>(std::max<int64_t>(p.k, 1)),
          .batch = static_cast<double>(p.batch),
          .mr = static_cast<double>(t.mr),
          .nv = static_cast<double>(t.nr / t.lanes),
          .lanes = static_cast<double>(t.lanes),
          .mc = static_cast<double>(t.mc),
          .nc = static_cast<double>(t.nc),
          .kc = static_cast<double>(t.kc)};
  const double ghz = machine.gflops_1t / (kFmaPipes * 2 * machine.widest_lanes);
  const double elements_a = s.m * s.k, elements_b = s.k * s.n, elements_c = s.m * s.n;

  Cost cost;
  TileWork work = tile_work(s, t.unroll_k);
  // Unpacked operands make loads slower, not more.
  if (t.pack_a == PackA::kNone && t.mr > machine.caches.l1d / 4096 + 2 && p.row_stride_a() * 4 % 4096 == 0)
    work.load *= kConflictFactor, work.fma *= kConflictFactor;
  if (t.pack_b == PackB::kNone && p.b != BLayout::kPacked && p.m > t.mr)
    work.load *= kUnpackedFactor, work.fma *= kUnpackedFactor;
  const double panel_bytes = s.kc * s.nv * s.lanes * 4, rows_bytes = s.kc * s.mr * 4;
  const double l1 = static_cast<double>(machine.caches.l1d);
  const bool ji = t.order == matmul::TileOrder::kJi;
  const bool from_l2 = !ji || panel_bytes + rows_bytes > l1;
  if (from_l2 && t.prefetch_b == 0 && t.pack_b != PackB::kStrip && p.m > t.mr)
    work.load *= kUnhintedFactor, work.fma *= kUnhintedFactor;
  cost.fma = s.batch * work.fma / ghz;
  cost.load = s.batch * work.load / ghz;
  cost.latency = s.batch * work.latency / ghz;
  cost.loop = s.batch * work.loop / ghz;

  // Every row tile reads its panel again (from L1 when the panel fits beside A's rows, else from L2), and every panel
  // the rows of A.
  const double b_passes = panel_bytes + rows_bytes <= l1 && ji ? ceil_div(s.m, s.mc) : ceil_div(s.m, s.mr);
  const double a_passes = panel_bytes + rows_bytes <= l1 && !ji ? ceil_div(s.n, s.nc) : ceil_div(s.n, s.nv * s.lanes);
  cost.l2 = s.batch * 4 * (elements_b * b_passes + elements_a * a_passes) / machine.l2_gbs;

  // Beyond L2, blocks decide how often a matrix comes from memory.
  const double l2 = static_cast<double>(machine.caches.l2);
  const double last = std::max(l2, static_cast<double>(machine.caches.l3_share));
  const double block_b = s.kc * s.nc * 4;
  auto reads = [&](double elements, double passes) {
    const double bytes = elements * 4;
    const double first = machine.cold || bytes > last ? bytes : 0;
    return first + (bytes > last ? bytes * (passes - 1) : 0);
  };
  const double b_from_memory = block_b <= last ? 1 : ceil_div(s.m, s.mc);
  const double k_passes = t.pack_b == PackB::kStrip ? 1 : ceil_div(s.k, s.kc);
  double bytes =
      reads(elements_b, b_from_memory) + reads(elements_a, ceil_div(s.n, s.nc)) + reads(elements_c, k_passes) * 2;
  const double gbs = threads <= 1
                         ? machine.dram_gbs_1t
                         : std::min(machine.dram_gbs_1t * threads, std::max(machine.dram_gbs_all, machine.dram_gbs_1t));
  cost.dram = s.batch * bytes / gbs;
  if (p.m <= 8 && t.pack_b == PackB::kNone) {
    if (t.prefetch_b != 0) cost.dram *= kPrefetchGain;
    const bool one_stream = p.b == BLayout::kPacked && t.nr / std::max<int64_t>(t.panel, 1) <= 1;
    if (one_stream && t.nr <= 2 * t.lanes) cost.dram *= kOneStreamFactor;
  }

  // nn is copied, nt transposed; writing and reading back the pack goes through L2.
  const double per_cycle = p.b == BLayout::kNt ? kTransposePerCycle : kCopyPerCycle;
  cost.pack = s.batch * (packed_elements(s, t) / per_cycle + packed_a_elements(s, t) / kCopyPerCycle) / ghz;

  // Sums leave and come back once per pass over k; the epilogue is about ten vector operations an element vector.
  cost.c = s.batch * elements_c * 4 * (2 * k_passes - 1) / machine.l2_gbs;
  if (!p.epilogue.empty() || p.alpha != 1 || p.beta != 0)
    cost.c += s.batch * elements_c / s.lanes * 5 * static_cast<double>(1 + p.epilogue.size()) / ghz;

  const int parallel = std::max(1, std::min(threads, std::max(machine.cpus, 1)));
  cost.imbalance = imbalance(s, t, threads);
  cost.region = threads > 1 ? kRegionNs : 0;
  const double core = std::max({cost.fma, cost.load, cost.latency}) + (cost.latency > cost.fma ? 0 : 0.25 * cost.loop);
  const double busy = (std::max(core + cost.c, cost.l2) + cost.pack) / parallel * cost.imbalance;
  // B arrives while the first rows of its block are computed, or, with the next panel announced, while all of them are.
  const double beside = t.prefetch_b == -1 || s.m <= s.mr ? 1 : s.mr / s.m;
  cost.total = busy + std::max(0.0, cost.dram - busy * beside) + 0.05 * std::min(busy, cost.dram) + cost.region;
  return cost;
}

std::vector<int> measuring_order(const MatmulProblem& problem, std::span<const Candidate> candidates,
                                 const CostMachine& machine) {
  std::vector<double> cost;
  for (const Candidate& c : candidates) cost.push_back(estimate(problem, c.program, c.threads, machine).total);
  std::vector<int> order(candidates.size());
  std::iota(order.begin(), order.end(), 0);
  auto by_cost = [&](int a, int b) { return cost[static_cast<size_t>(a)] < cost[static_cast<size_t>(b)]; };
  std::stable_sort(order.begin(), order.end(), by_cost);
  std::map<std::tuple<Isa, int64_t, int64_t, PackA, PackB, int>, int> seen;
  for (int i : order) {
    const TransformProgram& t = candidates[static_cast<size_t>(i)].program;
    const int threads = candidates[static_cast<size_t>(i)].threads;
    const int variants = seen[{t.isa, t.mr, t.nr, t.pack_a, t.pack_b, threads}]++;
    cost[static_cast<size_t>(i)] *= 1 + kVariantPenalty * variants;
  }
  std::stable_sort(order.begin(), order.end(), by_cost);
  return order;
}

}  // namespace hone::autotune
