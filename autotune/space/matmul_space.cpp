// Programs of matmul worth measuring; see space.h.
#include <algorithm>
#include <set>

#include "autotune/space/generate_internal.h"
#include "engine/base/math.h"
#include "kernels/matmul/blocking.h"
#include "kernels/matmul/op.h"

namespace hone::autotune {
namespace {

using matmul::BLayout;
using matmul::Dot;
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
constexpr int kPrefetches[] = {0, 8, 16, 32};
// k up to which the loop over it may be unrolled whole.
constexpr int64_t kShortK = 16;
constexpr ParallelDim kDims[] = {ParallelDim::kM, ParallelDim::kN, ParallelDim::kMn};

// Near-equal parts of `total`, none above `largest`, in multiples of `unit`: no ragged last block.
int64_t even_part(int64_t total, int64_t largest, int64_t unit) {
  const int64_t parts = std::max<int64_t>(1, ceil_div(total, std::max(largest, unit)));
  return std::max(unit, round_up(ceil_div(total, parts), unit));
}

class Enumeration {
 public:
  Enumeration(const MatmulProblem& problem, const Target& target, Programs& programs)
      : p_(problem), target_(target), programs_(programs) {}

  void run() {
    const bool small = p_.m <= kFewRows;
    for (auto isa = target_.isas.rbegin(); isa != target_.isas.rend(); ++isa) {
      for (const Dot dot : dots(*isa)) {
        dot_ = dot;
        if (small) few_rows(*isa);
        if (p_.m > 4) blocked(*isa);
      }
    }
  }

 private:
  // Of the classes that may compete, those that this CPU has.
  std::vector<Dot> dots(Isa isa) const {
    std::vector<Dot> all;
    if (matmul::dot_for(p_, "any", target_.features, isa) == Dot::kBf16 &&
        matmul::Op::numerics_allowed(target_.numerics, "bf16"))
      all.push_back(Dot::kBf16);
    if (matmul::Op::numerics_allowed(target_.numerics, "ordered")) all.push_back(Dot::kNone);
    return all;
  }
  bool packed() const { return p_.b == BLayout::kPacked; }
  // Of the blocks of any program but strips: sums have no place to wait in.
  bool keeps_k_whole() const { return p_.beta != 0 || p_.swiglu(); }
  // Whole pairs of gate and up columns, where those are to be multiplied.
  bool fits_pairs(int64_t nr) const { return !p_.swiglu() || nr % (2 * matmul::kSwigluColumns) == 0; }
  int threads() const { return target_.threads.empty() ? 1 : target_.threads.back(); }
  int64_t n() const { return std::max<int64_t>(p_.n, 1); }
  int64_t k() const { return std::max<int64_t>(p_.k, 1); }
  int64_t m() const { return std::max<int64_t>(p_.m, 1); }

  void add(const TransformProgram& t) { programs_.add(t); }

  // Panels of one vector give a wide tile as many streams as vectors; wider ones give fewer, longer ones. Beyond four
  // vectors there are few streams left, and each width costs a packed copy of B.
  std::vector<int64_t> panels(int64_t nr, int64_t lanes) const {
    if (!packed()) return {nr};
    if (target_.panel > 0) return {target_.panel};
    if (nr <= 4 * lanes && nr > lanes) return {lanes, nr};
    return {lanes};
  }

  // A block of B comes from L2, where streams do not count, and then one panel a tile is as good; the narrow ones,
  // which plans for few rows want, are tried for the most common widths.
  std::vector<int64_t> block_panels(int64_t nr, int64_t lanes) const {
    if (packed() && target_.panel == 0 && nr != 2 * lanes && nr != 3 * lanes) return {nr};
    return panels(nr, lanes);
  }

  TransformProgram base(Isa isa, RegisterTile tile) const {
    TransformProgram t;
    t.isa = isa;
    t.lanes = isa_info(isa).lanes_f32();
    t.dot = dot_;
    if (dot_ == Dot::kBf16) t.pack_a = PackA::kPairs;
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
        if (tile.mr != mr || !sensible || !fits_pairs(tile.nr) ||
            tile.nr >= 2 * round_up(n(), isa_info(isa).lanes_f32()))
          continue;
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
    return {nr * std::max<int64_t>(1, tiles / (16 * threads())), nr * ceil_div(tiles, threads())};
  }

  // Of f32 k-steps; as many bytes ahead with narrower elements.
  int ahead(int64_t steps) const { return static_cast<int>(steps * 4 / (p_.bytes_b() * matmul::kr_of(dot_))); }

  void stream_in_place(TransformProgram t) {
    t.kc = k();
    t.parallel = ParallelDim::kMn;
    for (int64_t nc : column_blocks(t.nr)) {
      t.nc = nc;
      for (int unroll : kUnrolls) {
        for (int prefetch : kPrefetches) {
          t.unroll_k = unroll;
          t.prefetch_b = ahead(prefetch);
          add(t);
        }
      }
    }
    t.unroll_k = 2;
    t.prefetch_b = ahead(8);
    t.parallel = ParallelDim::kN;
    add(t);
    if (packed()) announced_panels(t);
  }

  // Short panels, the next one announced while the rows pass over this one.
  void announced_panels(TransformProgram t) {
    t.order = TileOrder::kIj;
    t.parallel = ParallelDim::kN;
    t.prefetch_next = true;
    t.unroll_k = 2;
    for (int64_t depth : {int64_t{128}, int64_t{256}, int64_t{512}, int64_t{1024}, k()}) {
      if (keeps_k_whole() && depth != k()) continue;
      t.kc = std::min(k(), even_part(k(), depth, 8));
      for (int64_t tiles : {1, 2}) {
        t.nc = tiles * t.nr;
        for (int prefetch : {8, 0, 16}) {
          t.prefetch_b = ahead(prefetch);
          add(t);
        }
      }
    }
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
      t.kc = keeps_k_whole() ? k() : even_part(k(), kc, 8);
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
    for (int64_t nv : {1, 2, 3, 4, 6, 8}) {
      if (!fits_pairs(nv * lanes) || (nv == 8 && !p_.swiglu())) continue;
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

  // k-steps of a block: all of k, and even cuts of it, the one first whose panel takes a quarter of L2.
  std::vector<int64_t> depths(const TransformProgram& t) const {
    if (keeps_k_whole() && t.pack_b != PackB::kStrip) return {k()};
    const int64_t center =
        std::min(k(), even_part(k(), fit_multiple(target_.caches.l2 / 4 / p_.bytes_b() / t.nr, 64), 8));
    std::set<int64_t> chosen = {center};
    for (int64_t kc : {int64_t{256}, int64_t{384}, int64_t{512}, int64_t{1024}, int64_t{2048}})
      chosen.insert(std::min(k(), even_part(k(), kc, 8)));
    if (k() * t.nr * p_.bytes_b() <= target_.caches.l2) chosen.insert(k());
    std::vector<int64_t> list(chosen.begin(), chosen.end());
    std::stable_sort(list.begin(), list.end(),
                     [&](int64_t a, int64_t b) { return std::abs(a - center) < std::abs(b - center); });
    return list;
  }

  void blocked(Isa isa) {
    for (const RegisterTile& tile : wide_tiles(isa)) {
      for (int64_t panel : block_panels(tile.nr, isa_info(isa).lanes_f32())) {
        for (PackB pack_b : {PackB::kBlock, PackB::kNone, PackB::kStrip}) {
          if (packed() && pack_b != PackB::kNone) continue;
          if (pack_b == PackB::kStrip && m() > kStripRows) continue;
          TransformProgram t = base(isa, tile);
          t.panel = panel;
          t.pack_b = pack_b;
          blocks(t);
        }
      }
    }
  }

  // Depth and width of a block of B, and the rows that it serves, are varied together; all else one at a time.
  void blocks(TransformProgram t) {
    t.order = TileOrder::kIj;
    t.parallel = ParallelDim::kN;
    t.prefetch_b = ahead(8);
    t.prefetch_next = packed();
    t.unroll_k = 2;
    const int64_t share = round_up(ceil_div(n(), threads()), t.nr);
    const std::vector<int64_t> all_depths = depths(t);
    for (size_t d = 0; d < all_depths.size(); ++d) {
      t.kc = all_depths[d];
      const int64_t in_l2 = fit_multiple(target_.caches.l2 * 3 / 8 / p_.bytes_b() / t.kc, t.nr);
      const int64_t bytes_a = dot_ == Dot::kBf16 ? 2 : 4;
      const int64_t rows_in_l2 = even_part(m(), target_.caches.l2 / 3 / bytes_a / t.kc, t.mr);
      for (int64_t nc : {t.nr, 2 * t.nr, in_l2, share}) {
        for (int64_t mc : {round_up(m(), t.mr), rows_in_l2}) {
          t.nc = std::min(nc, share);
          t.mc = std::min(mc, round_up(m(), t.mr));
          add(t);
          if (dot_ == Dot::kBf16) with(t, [](TransformProgram& x) { x.order = TileOrder::kJi; });
          if (d == 0) split_rows(t);
        }
      }
      t.nc = std::min(in_l2, share), t.mc = round_up(m(), t.mr);
      if (d < 2) knobs(t);
    }
  }

  // Blocks of rows as tasks of their own.
  void split_rows(TransformProgram t) {
    if (threads() == 1) return;
    t.mc = std::min(t.mc, round_up(ceil_div(m(), threads()), t.mr));
    for (ParallelDim dim : kDims) {
      t.parallel = dim;
      add(t);
    }
  }

  template <typename Change>
  void with(TransformProgram t, Change change) {
    change(t);
    add(t);
  }

  void knobs(const TransformProgram& start) {
    auto with = [&](auto change) { this->with(start, change); };
    if (dot_ == Dot::kNone) {
      with([&](TransformProgram& t) { t.pack_a = PackA::kRows; });
      with([&](TransformProgram& t) { t.pack_a = PackA::kRows, t.order = TileOrder::kJi; });
    }
    with([&](TransformProgram& t) { t.order = TileOrder::kJi; });
    with([&](TransformProgram& t) { t.order = TileOrder::kJi, t.prefetch_b = 0; });
    with([&](TransformProgram& t) { t.prefetch_next = !t.prefetch_next; });
    with([&](TransformProgram& t) { t.nc = t.nr, t.prefetch_next = !t.prefetch_next; });
    for (int unroll : kUnrolls) with([&](TransformProgram& t) { t.unroll_k = unroll; });
    if (k() <= kShortK) with([&](TransformProgram& t) { t.unroll_k = static_cast<int>(k()); });
    for (int prefetch : kPrefetches) with([&](TransformProgram& t) { t.prefetch_b = ahead(prefetch); });
    with([&](TransformProgram& t) { t.prefetch_b = 0, t.unroll_k = 1; });
    with([&](TransformProgram& t) { t.prefetch_c = true; });
    for (ParallelDim dim : kDims) with([&](TransformProgram& t) { t.parallel = dim; });
  }

  const MatmulProblem& p_;
  const Target& target_;
  Programs& programs_;
  Dot dot_ = Dot::kNone;  // of the programs that are being made
};

}  // namespace

void generate(const MatmulProblem& problem, const Target& target, Programs& programs) {
  Enumeration(problem, target, programs).run();
}

}  // namespace hone::autotune
