// See space.h.
#include "autotune/space/space.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "engine/base/math.h"
#include "kernels/matmul/blocking.h"

namespace hone::autotune {
namespace {

using matmul::BLayout;
using matmul::MatmulProblem;
using matmul::PackA;
using matmul::PackB;
using matmul::ParallelDim;
using matmul::RegisterTile;
using matmul::TileOrder;
using matmul::TransformProgram;

// Rows up to which a register tile can hold all of them, so that B is streamed once.
constexpr int64_t kFewRows = 32;
// Beyond this many rows a strip of B would be packed again for too many tiles to be worth a measurement.
constexpr int64_t kStripRows = 64;
constexpr int kUnrolls[] = {1, 2, 4};
constexpr int kPrefetches[] = {0, 8, 16, 32, -1};
// How a block of B reaches the tiles: streamed from L2 with a hint (ij), or one panel at a time with the next one
// announced (ji).
struct Stream {
  TileOrder order;
  int prefetch;
};
constexpr Stream kStreams[] = {{TileOrder::kIj, 8}, {TileOrder::kJi, -1}, {TileOrder::kJi, 8}, {TileOrder::kIj, 0}};
constexpr ParallelDim kDims[] = {ParallelDim::kM, ParallelDim::kN, ParallelDim::kMn};

// Near-equal parts of `total`, none above `largest`, in multiples of `unit`: no ragged last block.
int64_t even_part(int64_t total, int64_t largest, int64_t unit) {
  const int64_t parts = std::max<int64_t>(1, ceil_div(total, std::max(largest, unit)));
  return std::max(unit, round_up(ceil_div(total, parts), unit));
}

class Enumeration {
 public:
  Enumeration(const MatmulProblem& problem, const Target& target) : p_(problem), target_(target) {}

  Space run() {
    const Candidate first = default_candidate(p_, target_);
    add(first.program);
    const bool small = p_.m <= kFewRows;
    for (auto isa = target_.isas.rbegin(); isa != target_.isas.rend(); ++isa) {
      if (small) few_rows(*isa);
      if (p_.m > 4) blocked(*isa);
    }
    for (Isa isa : all_isas()) {
      if (std::find(target_.isas.begin(), target_.isas.end(), isa) != target_.isas.end()) continue;
      TransformProgram t = matmul::default_program(p_, {isa, target_.caches, 1}, target_.panel);
      space_.rejected.push_back({t, fmt::format("{}: not usable on this machine", isa_info(isa).name)});
    }
    cross();
    // Whatever the order of enumeration, the default plan leads.
    auto at = std::find(space_.candidates.begin(), space_.candidates.end(), first);
    if (at != space_.candidates.end()) std::rotate(space_.candidates.begin(), at, at + 1);
    return std::move(space_);
  }

 private:
  bool packed() const { return p_.b == BLayout::kPacked; }
  int threads() const { return target_.threads.empty() ? 1 : target_.threads.back(); }
  int64_t n() const { return std::max<int64_t>(p_.n, 1); }
  int64_t k() const { return std::max<int64_t>(p_.k, 1); }
  int64_t m() const { return std::max<int64_t>(p_.m, 1); }

  void add(TransformProgram t) {
    t = matmul::canonical(p_, t);
    if (!seen_.insert(t).second) {
      ++space_.duplicates;
      return;
    }
    if (Status legal = matmul::legal(p_, t); !legal.ok()) {
      space_.rejected.push_back({t, legal.message()});
      return;
    }
    if (!identities_.insert(matmul::lowering_identity(p_, t)).second) {
      ++space_.duplicates;
      return;
    }
    programs_.push_back(t);
  }

  void cross() {
    for (const TransformProgram& t : programs_)
      for (int threads : target_.threads)
        for (const std::string& codegen : target_.codegens) space_.candidates.push_back({t, codegen, threads});
  }

  // Panels of one vector give a wide tile as many streams as vectors; wider ones give fewer, longer ones. Beyond four
  // vectors there are few streams left, and each width costs a packed copy of B.
  std::vector<int64_t> panels(int64_t nr, int64_t lanes) const {
    if (!packed()) return {nr};
    if (target_.panel > 0) return {target_.panel};
    if (nr <= 4 * lanes && nr > lanes) return {lanes, nr};
    return {lanes};
  }

  // A block of B comes from L2, where streams do not count: one panel per tile, and the narrow one that plans for few
  // rows share for the most common width.
  std::vector<int64_t> block_panels(int64_t nr, int64_t lanes) const {
    if (packed() && target_.panel == 0 && nr != 2 * lanes) return {nr};
    return panels(nr, lanes);
  }

  TransformProgram base(Isa isa, RegisterTile tile) const {
    TransformProgram t;
    t.isa = isa;
    t.lanes = isa_info(isa).lanes_f32();
    t.mr = tile.mr;
    t.nr = tile.nr;
    return t;
  }

  // ---- few rows: B is read once, from memory, and everything else is there to keep that stream going ----

  // Tile heights that cover the rows in one or two equal passes over a panel.
  std::vector<int64_t> few_row_heights() const {
    std::set<int64_t> heights = {m(), ceil_div(m(), 2)};
    if (m() > 8) heights.insert(ceil_div(m(), 3));
    return {heights.rbegin(), heights.rend()};
  }

  void few_rows(Isa isa) {
    const std::vector<RegisterTile> tiles = matmul::register_tiles(isa);
    for (int64_t mr : few_row_heights()) {
      for (const RegisterTile& tile : tiles) {
        const int64_t nv = tile.nr / isa_info(isa).lanes_f32();
        // Widths that tell memory apart: 1, 2, 4, 8, 16 streams and what just fits beside the rows.
        const bool sensible = (nv & (nv - 1)) == 0 || nv == 3 || nv == 6 || nv == 12;
        if (tile.mr != mr || !sensible || tile.nr >= 2 * round_up(n(), isa_info(isa).lanes_f32())) continue;
        few_rows_tile(base(isa, tile));
      }
    }
  }

  void few_rows_tile(TransformProgram t) {
    t.mc = round_up(m(), t.mr);
    for (int64_t panel : panels(t.nr, t.lanes)) {
      t.panel = panel;
      for (PackB pack : {PackB::kNone, PackB::kStrip, PackB::kBlock}) {
        // One panel's packing cannot pay for a single use, except that nt has no other way.
        if (pack != PackB::kNone && packed()) continue;
        t.pack_b = pack;
        if (pack == PackB::kNone) stream_in_place(t);
        if (pack == PackB::kStrip) strips(t);
        if (pack == PackB::kBlock && m() > 4) small_blocks(t);
      }
    }
  }

  std::vector<int64_t> column_blocks(int64_t nr) const {
    const int64_t tiles = ceil_div(n(), nr);
    return {nr * ceil_div(tiles, 4 * threads()), nr * ceil_div(tiles, threads())};
  }

  void stream_in_place(TransformProgram t) {
    t.kc = k();
    for (int64_t nc : column_blocks(t.nr)) {
      t.nc = nc;
      for (int unroll : kUnrolls) {
        for (int prefetch : kPrefetches) {
          // Reading rows of nn in place leaves nothing in "the next panel" but the same rows further right.
          t.unroll_k = unroll;
          t.prefetch_b = prefetch;
          t.parallel = ParallelDim::kMn;
          add(t);
        }
      }
    }
    t.unroll_k = 2;
    t.prefetch_b = 8;
    t.parallel = ParallelDim::kN;
    add(t);
  }

  void strips(TransformProgram t) {
    t.parallel = ParallelDim::kMn;
    t.nc = column_blocks(t.nr).front();
    for (int64_t kc : {int64_t{16}, int64_t{32}, int64_t{64}, int64_t{128}, int64_t{256}}) {
      t.kc = kc;
      for (int unroll : {1, 4}) {
        t.unroll_k = unroll;
        add(t);
      }
    }
    t.kc = 64;
    t.pack_a = PackA::kRows;
    add(t);
  }

  void small_blocks(TransformProgram t) {
    t.parallel = ParallelDim::kN;
    for (int64_t kc : {int64_t{256}, int64_t{512}}) {
      t.kc = p_.beta != 0 ? k() : even_part(k(), kc, 8);
      t.nc = fit_multiple(target_.caches.l2 / 2 / 4 / t.kc, t.nr);
      t.unroll_k = 1;
      add(t);
      t.nc = t.nr;
      add(t);
    }
  }

  // ---- many rows: fma-bound when the blocks are right ----

  // Tiles that fill most of the register file, and whose rows split m without a ragged last tile where that is
  // possible.
  std::vector<RegisterTile> wide_tiles(Isa isa) const {
    const IsaInfo& info = isa_info(isa);
    std::set<std::pair<int64_t, int64_t>> chosen;
    const int64_t lanes = info.lanes_f32();
    for (int64_t nv : {1, 2, 3, 4, 6}) {
      int64_t largest = 0;
      for (const RegisterTile& tile : matmul::register_tiles(isa))
        if (tile.nr == nv * lanes) largest = std::max(largest, tile.mr);
      if (largest == 0) continue;
      const int64_t capped = std::min(largest, m());
      chosen.insert({capped, nv * lanes});
      chosen.insert({even_part(m(), capped, 1), nv * lanes});
      // A little smaller: registers to spare for the code generator, and divisors of common row counts.
      if (capped == largest && largest > 4) chosen.insert({largest - largest % 4, nv * lanes});
      if (nv == 2 && largest > 12) chosen.insert({std::min<int64_t>(12, capped), nv * lanes});
      if (nv == 2 && largest > 12) chosen.insert({std::min<int64_t>(13, capped), nv * lanes});
      if (nv == 2 && largest > 12) chosen.insert({std::min<int64_t>(10, capped), nv * lanes});
    }
    std::vector<RegisterTile> tiles;
    for (auto [mr, nr] : chosen)
      if (mr >= std::min<int64_t>(m(), 3) && nr < n() + 2 * lanes) tiles.push_back({mr, nr});
    return tiles;
  }

  std::vector<int64_t> depths(const TransformProgram& t) const {
    if (p_.beta != 0 && t.pack_b != PackB::kStrip) return {k()};
    const int64_t analytical = fit_multiple(target_.caches.l1d / 3 / 4 / t.mr, 64);
    std::set<int64_t> chosen;
    for (int64_t kc : {analytical, analytical / 2, 2 * analytical, int64_t{256}, int64_t{384}})
      chosen.insert(std::min(k(), even_part(k(), std::max<int64_t>(kc, 32), 8)));
    if (k() <= 4 * analytical) chosen.insert(k());
    std::vector<int64_t> list(chosen.begin(), chosen.end());
    // The analytical point first: knobs are varied around it.
    const int64_t first = std::min(k(), even_part(k(), std::max<int64_t>(analytical, 32), 8));
    std::stable_sort(list.begin(), list.end(),
                     [&](int64_t a, int64_t b) { return std::abs(a - first) < std::abs(b - first); });
    return list;
  }

  void blocked(Isa isa) {
    for (const RegisterTile& tile : wide_tiles(isa)) {
      for (int64_t panel : block_panels(tile.nr, isa_info(isa).lanes_f32())) {
        for (PackB pack_b : {PackB::kBlock, PackB::kNone, PackB::kStrip}) {
          if (packed() && pack_b != PackB::kNone) continue;
          if (pack_b == PackB::kStrip && m() > kStripRows) continue;
          for (PackA pack_a : {PackA::kRows, PackA::kNone}) {
            TransformProgram t = base(isa, tile);
            t.panel = panel;
            t.pack_b = pack_b;
            t.pack_a = pack_a;
            blocks(t);
          }
        }
      }
    }
  }

  void blocks(TransformProgram t) {
    t.parallel = t.pack_b == PackB::kBlock ? ParallelDim::kN : ParallelDim::kMn;
    const std::vector<int64_t> all_depths = depths(t);
    for (size_t d = 0; d < all_depths.size(); ++d) {
      t.kc = all_depths[d];
      const int64_t columns_in_l2 = fit_multiple(target_.caches.l2 / 4 / 4 / t.kc, t.nr);
      const int64_t share = round_up(ceil_div(n(), threads()), t.nr);
      for (size_t i = 0; i < std::size(kStreams); ++i) {
        // Away from the analytical depth only the two main ways of streaming.
        if (d > 0 && i >= 2) break;
        // ij keeps only the rows of one tile hot, ji a whole block of A.
        const int64_t rows_in_l2 = target_.caches.l2 / (kStreams[i].order == TileOrder::kIj ? 16 : 3) / 4 / t.kc;
        t.order = kStreams[i].order;
        t.prefetch_b = kStreams[i].prefetch;
        t.mc = std::min(round_up(m(), t.mr), even_part(m(), rows_in_l2, t.mr));
        t.nc = std::min(columns_in_l2, share);
        add(t);
        if (t.pack_b != PackB::kBlock) {
          TransformProgram by_columns = t;
          by_columns.parallel = ParallelDim::kN;
          add(by_columns);
        }
        if (i < 2) wide_blocks(t, columns_in_l2, share);
        if (d == 0 && i == 0) knobs(t);
      }
    }
  }

  // Twice the block of B, or all of it (the rows of A then stay while B passes once), and half the block of A.
  void wide_blocks(TransformProgram t, int64_t columns_in_l2, int64_t share) {
    const TransformProgram start = t;
    t.nc = std::min(2 * columns_in_l2, share);
    add(t);
    if (t.pack_b != PackB::kBlock) {
      t.nc = round_up(n(), t.nr);
      t.parallel = ParallelDim::kM;
      add(t);
    }
    t = start;
    if (t.mc > 2 * t.mr) {
      t.mc = even_part(m(), t.mc / 2, t.mr);
      add(t);
    }
  }

  void knobs(const TransformProgram& start) {
    for (int unroll : kUnrolls) {
      TransformProgram t = start;
      t.unroll_k = unroll;
      add(t);
    }
    for (int prefetch : kPrefetches) {
      TransformProgram t = start;
      t.prefetch_b = prefetch;
      add(t);
      t.unroll_k = 2;
      add(t);
    }
    TransformProgram hint_c = start;
    hint_c.prefetch_c = true;
    add(hint_c);
    for (ParallelDim dim : kDims) {
      TransformProgram t = start;
      t.parallel = dim;
      add(t);
    }
  }

  MatmulProblem p_;
  Target target_;
  Space space_;
  std::vector<TransformProgram> programs_;
  std::set<TransformProgram> seen_, identities_;
};

}  // namespace

Space enumerate(const MatmulProblem& problem, const Target& target) { return Enumeration(problem, target).run(); }

Candidate default_candidate(const MatmulProblem& problem, const Target& target) {
  const Isa isa = target.isas.empty() ? Isa::kAvx2 : target.isas.back();
  // The runtime's rule, within what may be tried: the largest count that is not more than it would wake.
  const int limit = target.threads.empty() ? 1 : target.threads.back();
  int threads = target.threads.empty() ? 1 : target.threads.front();
  for (int t : target.threads)
    if (t <= matmul::default_threads(problem, limit)) threads = t;
  return {matmul::default_program(problem, {isa, target.caches, threads}, target.panel),
          target.codegens.empty() ? std::string() : target.codegens.front(), threads};
}

}  // namespace hone::autotune
