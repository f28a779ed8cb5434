// See attention_cost.h. Cycles of one core, tile by tile, then how the tasks share out.
#include "autotune/cost/attention_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autotune/cost/core_internal.h"

namespace hone::autotune {
namespace {

using attention::Algorithm;
using attention::AttentionProblem;
using attention::AttentionProgram;
using attention::PackK;
using attention::PackV;
using attention::ParallelDim;

constexpr double kStepCycles = 0.3;  // of a k-step beside its fma
// exp in about 20 vector operations, the maximum, the sum, loads and stores.
constexpr double kSoftmaxCycles = 14;
// 64 shuffles for a square of 16 x 16; with loads and stores about half a cycle an element in AVX-512, one in AVX2.
constexpr double kTransposeCycles = 8;  // of a vector of elements
constexpr double kCopyCycles = 2;
// The part of L2's latency that tiles wait for, where nothing is announced, and from memory.
constexpr double kExposedL2 = 0.5;
constexpr double kUnannounced = 1.25;
constexpr double kRegionNs = 3000;

double d(int64_t v) { return static_cast<double>(v); }

// Cycles of `steps` steps of a register tile.
double tile_cycles(double steps, double rows, double vectors) {
  return steps * (std::max({rows * vectors / kFmaPipes, (rows + vectors) / kLoadPorts, kFmaLatency}) + kStepCycles);
}

// Rows in tiles of `tile`: whole ones, and one with what is left.
template <typename Fn>
double over_tiles(double rows, double tile, Fn cycles) {
  const double whole = std::floor(rows / tile), rest = rows - whole * tile;
  return whole * cycles(tile) + (rest > 0 ? cycles(rest) : 0);
}

struct Work {
  double tasks = 1;       // that can run at once, of one item
  double row_blocks = 1;  // of a head
  double rows = 1;        // of a task
  double keys = 0;        // that a tile of rows goes over, on average
  double packed = 0;      // that a block of rows packs
  double most = 0;        // the longest block of rows
  double heads = 1;       // of tasks: KV heads, or query heads
};

Work work_of(const AttentionProblem& p, const AttentionProgram& t) {
  Work w;
  const double q = std::max(d(p.q), 1.0);
  w.heads = d(t.group ? p.kv_heads : p.heads);
  w.row_blocks = std::ceil(q / d(t.bq));
  w.rows = std::min(d(t.bq), q) * d(t.group ? p.group() : 1);
  // A task transposes all keys that one of its rows sees; a tile of rows multiplies those that one of its own does.
  const double mean = d(p.visible_pairs()) / q;
  const bool moving = p.causal || p.window > 0;
  const double of_tile = std::min(d(t.tile_rows) / (w.rows / std::min(d(t.bq), q)), std::min(d(t.bq), q));
  w.keys = std::min(d(p.kv), mean + (moving ? of_tile / 2 : 0));
  w.packed = std::min(d(p.kv), mean + (moving ? std::min(d(t.bq), q) / 2 : 0));
  w.most = p.causal && p.window == 0 ? d(p.kv) : w.keys;
  w.tasks = w.heads * d(t.splits) * (t.parallel == ParallelDim::kHeadsRows ? w.row_blocks : 1);
  return w;
}

}  // namespace

std::string AttentionCost::breakdown() const {
  return fmt::format(
      "scores={:.0f} values={:.0f} softmax={:.0f} pack={:.0f} l2={:.0f} dram={:.0f} longest={:.0f} region={:.0f} "
      "total={:.0f}",
      scores, values, softmax, pack, l2, dram, longest, region, total);
}

AttentionCost estimate(const AttentionProblem& p, const AttentionProgram& program, int threads,
                       const CostMachine& machine) {
  const AttentionProgram t = attention::canonical(p, program);
  const Work w = work_of(p, t);
  const double ghz = core_ghz(machine), lanes = t.lanes;
  const double blocks = d(p.batch) * w.heads * w.row_blocks;  // of rows, over everything
  const double dv = d(p.value_dim()), depth = d(std::max<int64_t>(t.value_depth, 1));
  AttentionCost c;

  // Scores: d steps for each tile of rows and keys.
  const double strips = std::ceil(w.keys / d(t.nr));
  c.scores =
      blocks *
      over_tiles(w.rows, d(t.mr), [&](double rows) { return strips * tile_cycles(d(p.d), rows, d(t.nr) / lanes); }) /
      ghz;
  // Values: a step for each key; sums leave and come back once a depth.
  const double columns = std::ceil(dv / lanes), vectors = d(t.vn) / lanes;
  const double passes = std::ceil(w.keys / depth);
  c.values = blocks *
             over_tiles(w.rows, d(t.vr),
                        [&](double rows) {
                          return over_tiles(columns, vectors, [&](double nv) {
                            return tile_cycles(w.keys, rows, nv) + passes * 2 * rows * nv;
                          });
                        }) /
             ghz;
  c.softmax = blocks * w.rows * w.keys / lanes * kSoftmaxCycles / ghz;

  // K is transposed by every block of rows; V copied.
  if (t.pack_k != PackK::kNone) c.pack += blocks * w.packed * d(p.d) / lanes * kTransposeCycles / ghz;
  if (t.pack_v == PackV::kRows) c.pack += blocks * w.packed * dv / lanes * kCopyCycles / ghz;

  // Every tile of rows reads K's and V's block again, from L2 unless a strip or a depth of it is still in L1.
  const double l1 = d(machine.caches.l1d) / 2, l2 = d(machine.caches.l2);
  const double tiles = std::ceil(w.rows / d(t.tile_rows));
  const double k_reads = tiles * std::ceil(std::min(d(t.tile_rows), w.rows) / d(t.mr));
  const double v_inner = 4 * depth * d(t.vn) <= l1 ? 1 : std::ceil(std::min(d(t.tile_rows), w.rows) / d(t.vr));
  c.l2 = blocks * 4 * w.keys * (d(p.d) * std::max(k_reads - 1, 0.0) + dv * std::max(tiles * v_inner - 1, 0.0)) /
         machine.l2_gbs;
  // Scores of materialised rows do not stay in L1, and at worst not in L2.
  const double held = 4 * d(t.tile_rows) * d(t.bk);
  if (held > l1) c.l2 += blocks * 4 * w.rows * w.keys * 4 / machine.l2_gbs * (held > l2 ? 4 : 1);

  const double last = std::max(l2, d(machine.caches.l3_share));
  const double bytes = p.kv_bytes();
  const double again = (t.group ? 1 : d(p.group())) * w.row_blocks;
  const double per_head = 4 * w.keys * (d(p.d) + dv);
  c.dram = ((machine.cold || bytes > last ? bytes : 0) + (per_head > last ? bytes * (again - 1) : 0)) /
           dram_gbs(machine, threads);
  if (t.prefetch == 0 && t.pack_k != PackK::kBlock) c.dram *= kUnannounced;

  const double core = c.scores + c.values + c.softmax + c.pack + kExposedL2 * c.l2;
  const double busy = std::max(core, c.l2);
  // Tasks are taken longest first by whoever is free: at worst the last one to be taken stands alone.
  const int parallel = parallel_threads(machine, threads);
  const double tasks = std::max(d(p.batch) * w.tasks, 1.0);
  c.longest = busy / tasks * (w.keys > 0 && t.parallel == ParallelDim::kHeadsRows ? w.most / w.keys : 1);
  const double share = p.causal ? busy / parallel + c.longest * (parallel - 1) / parallel / 2
                                : busy / tasks * std::ceil(tasks / parallel);
  const double regions = t.algorithm == Algorithm::kSplit ? 2 : 1;
  c.region = threads > 1 ? regions * kRegionNs : 0;
  c.total = std::max({share, c.longest, c.dram}) + 0.2 * std::min(share, c.dram) + c.region;
  return c;
}

double estimated_ns(const AttentionProblem& problem, const AttentionProgram& program, int threads,
                    const CostMachine& machine) {
  return estimate(problem, program, threads, machine).total;
}

std::vector<int64_t> variant_of(const AttentionProgram& t) {
  return {static_cast<int64_t>(t.isa),
          static_cast<int64_t>(t.algorithm),
          t.bk,
          t.splits,
          t.mr,
          t.nr,
          t.vr,
          t.vn,
          static_cast<int64_t>(t.pack_k),
          t.group ? 1 : 0};
}

}  // namespace hone::autotune
