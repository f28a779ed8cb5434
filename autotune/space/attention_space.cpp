// Programs of attention worth measuring; see space.h.
//
// Score and value tiles that fill the register file are tried in all pairs whose heights go together, at the analytical
// block of rows; what decides how often K is transposed and how tasks share out (rows of a task, heads, packing,
// parallel dimension) is varied together at one pair of tiles for each height; and each remaining knob (depth of a
// value tile, rows of scores, copies of V, prefetch) at the analytical point of every pair.
#include <algorithm>
#include <numeric>
#include <set>

#include "autotune/space/generate_internal.h"
#include "engine/base/math.h"

namespace hone::autotune {
namespace {

using attention::Algorithm;
using attention::AttentionProblem;
using attention::AttentionProgram;
using attention::KeyLayout;
using attention::kKeyGroup;
using attention::PackK;
using attention::PackV;
using attention::ParallelDim;

// Rows whose scores are held at a time: beyond these a block of 256 keys leaves L1.
constexpr int64_t kMostTileRows = 64;
// Rows of a task, about: each task transposes K once for all of them.
constexpr int64_t kTaskRows[] = {64, 128, 256, 512};
// Up to so many rows a tile holds all of them and K and V stream.
constexpr int64_t kFewRows = 16;
constexpr int64_t kPrefetches[] = {32, 64, 128};
// Key blocks and splits beside the default's, where any class may be chosen.
constexpr int64_t kKeyBlocks[] = {64, 128, 256, 512, 1024};
constexpr int64_t kSplits[] = {2, 4, 8, 16};

struct Tile {
  int64_t rows, columns;
  bool operator==(const Tile&) const = default;
};

class Enumeration {
 public:
  Enumeration(const AttentionProblem& problem, const Target& target, Programs& programs)
      : p_(problem), target_(target), programs_(programs) {}

  void run() {
    for (auto isa = target_.isas.rbegin(); isa != target_.isas.rend(); ++isa)
      for (const AttentionProgram& start : starts(*isa)) shapes(start);
  }

 private:
  int64_t all_rows() const { return std::max<int64_t>(p_.q, 1) * p_.group(); }
  int64_t threads() const { return target_.threads.empty() ? 1 : target_.threads.back(); }
  void add(const AttentionProgram& t) { programs_.add(t); }

  // One program for each algorithm and class that may compete.
  std::vector<AttentionProgram> starts(Isa isa) const {
    const AttentionProgram base = attention::default_program(p_, isa, target_.caches, target_.numerics);
    std::vector<AttentionProgram> all = {base};
    auto with = [&](Algorithm algorithm, int64_t bk, int64_t splits) {
      AttentionProgram t = base;
      t.algorithm = algorithm, t.bk = bk, t.splits = splits;
      all.push_back(t);
    };
    const bool any = target_.numerics == "any";
    if (any || attention::is_ordered(base.algorithm)) {
      with(Algorithm::kTiled, base.bk, 1);
      with(Algorithm::kMaterialised, base.bk, 1);
    }
    for (int64_t bk : kKeyBlocks) {
      if (!any || bk >= 2 * round_up(std::max<int64_t>(p_.kv, 1), kKeyGroup)) continue;
      if (bk != base.bk) with(Algorithm::kOnline, bk, 1);
      for (int64_t splits : kSplits)
        if (bk >= 128 && splits * bk <= p_.kv && worth_splitting(splits)) with(Algorithm::kSplit, bk, splits);
    }
    return all;
  }

  // Keys are split where there are no other tasks to share out, or one more for each thread.
  bool worth_splitting(int64_t splits) const {
    return all_rows() <= kMostTileRows && p_.batch * p_.kv_heads < 8 * threads() && splits <= 8 * threads();
  }

  // The tallest tile for each width, one that splits the rows evenly, and a smaller one that leaves registers to spare.
  std::vector<Tile> tiles(Isa isa, int64_t unit, int64_t most_columns) const {
    const IsaInfo& info = isa_info(isa);
    std::vector<Tile> all;
    for (int64_t nv : {1, 2, 3, 4, 6, 8}) {
      const int64_t columns = nv * info.lanes_f32();
      if (columns % unit != 0 || columns >= most_columns + std::max<int64_t>(unit, info.lanes_f32())) continue;
      int64_t tallest = 0;
      for (int64_t rows = 1; rows <= 28; ++rows)
        if (rows * nv + std::min(rows, nv) + 1 <= info.vector_registers) tallest = rows;
      if (tallest == 0) continue;
      const int64_t height = std::min(tallest, all_rows());
      for (int64_t rows : {height, ceil_div(all_rows(), ceil_div(all_rows(), height)), height - height % 2}) {
        if (rows < 1 || rows < std::min<int64_t>(all_rows(), 3)) continue;
        if (std::find(all.begin(), all.end(), Tile{rows, columns}) == all.end()) all.push_back({rows, columns});
      }
    }
    return all;
  }

  void shapes(AttentionProgram t) {
    const int64_t keys = round_up(std::max<int64_t>(p_.kv, 1), kKeyGroup);
    std::set<std::pair<int64_t, int64_t>> heights;
    for (const Tile& score : tiles(t.isa, kKeyGroup, std::min(t.bk, keys))) {
      for (const Tile& value : tiles(t.isa, t.lanes, p_.value_dim())) {
        const int64_t rows = std::lcm(score.rows, value.rows);
        if (rows > kMostTileRows) continue;
        t.mr = score.rows, t.nr = score.columns;
        t.vr = value.rows, t.vn = value.columns;
        t.tile_rows = rows;
        t.bq = default_positions(t);
        t.pack_k = p_.k == KeyLayout::kBlocked ? PackK::kNone : PackK::kBlock;
        add(t);
        strips(t);
        knobs(t);
        if (heights.insert({t.mr, t.vr}).second) tasks(t);
      }
    }
  }

  // Positions of a task of about 256 rows.
  int64_t default_positions(const AttentionProgram& t) const { return positions(t, 256); }
  int64_t positions(const AttentionProgram& t, int64_t rows) const {
    const int64_t heads = t.group ? p_.group() : 1;
    return std::clamp<int64_t>(rows / heads, 1, std::max<int64_t>(p_.q, 1));
  }

  // K is transposed strip by strip where a task has one tile of rows.
  void strips(AttentionProgram t) {
    if (p_.k == KeyLayout::kBlocked) return;
    const int64_t heads = t.group ? p_.group() : 1;
    t.pack_k = PackK::kStrip;
    t.bq = std::clamp<int64_t>(t.tile_rows / heads, 1, std::max<int64_t>(p_.q, 1));
    if (t.bq * heads > t.tile_rows) return;
    add(t);
    if (all_rows() <= kFewRows) announcements(t);
  }

  // K and V stream past few rows: how much of V lies between two columns of a value tile, how far ahead both are
  // announced, in pairs (kernels/attention/announce.cpp) and once. (Tasks of more than one tile announce nothing.)
  void announcements(AttentionProgram t) {
    for (int64_t depth : {int64_t{32}, t.bk}) {
      t.value_depth = depth;
      t.prefetch = t.lead = 0;
      add(t);
      for (int64_t keys : kPrefetches) {
        t.prefetch = keys, t.lead = attention::lead_keys(p_);
        add(t);
      }
      t.prefetch = 64, t.lead = 0;
      add(t);
    }
  }

  void knobs(const AttentionProgram& start) {
    auto with = [&](auto change) {
      AttentionProgram t = start;
      change(t);
      add(t);
    };
    for (int64_t depth : {int64_t{32}, int64_t{64}, int64_t{128}})
      with([&](AttentionProgram& t) { t.value_depth = std::min(depth, t.bk); });
    with([&](AttentionProgram& t) { t.tile_rows = 2 * t.tile_rows; });
    if (start.tile_rows <= kMostTileRows / 4) with([&](AttentionProgram& t) { t.tile_rows = 4 * t.tile_rows; });
    with([&](AttentionProgram& t) { t.pack_v = PackV::kRows; });
    if (p_.row_stride_v() > p_.value_dim() || p_.value_dim() % start.lanes != 0)
      with([&](AttentionProgram& t) { t.pack_v = PackV::kRows, t.value_depth = std::min<int64_t>(64, t.bk); });
    if (all_rows() <= kFewRows) announcements(start);
  }

  // Rows of a task, whether a task has one head or all of a KV head, and what is shared out.
  void tasks(const AttentionProgram& start) {
    for (const bool group : {true, false}) {
      if (!group && p_.group() == 1) continue;
      AttentionProgram t = start;
      t.group = group;
      std::set<int64_t> counts = {default_positions(t), std::max<int64_t>(p_.q, 1)};
      for (int64_t rows : kTaskRows) counts.insert(positions(t, rows));
      // A task for each thread.
      const int64_t heads = p_.batch * (group ? p_.kv_heads : p_.heads);
      counts.insert(std::max<int64_t>(1, ceil_div(p_.q * std::max<int64_t>(heads, 1), threads())));
      for (int64_t bq : counts) {
        t.bq = std::min(bq, std::max<int64_t>(p_.q, 1));
        for (const ParallelDim dim : {ParallelDim::kHeadsRows, ParallelDim::kHeads}) {
          t.parallel = dim;
          add(t);
        }
      }
    }
  }

  const AttentionProblem& p_;
  const Target& target_;
  Programs& programs_;
};

}  // namespace

void generate(const AttentionProblem& problem, const Target& target, Programs& programs) {
  Enumeration(problem, target, programs).run();
}

}  // namespace hone::autotune
