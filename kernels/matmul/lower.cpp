// Lowers MatmulProblem x TransformProgram to LoopIR. Everything that makes the kernel fast is decided here and visible
// in the IR: blocking, packing, register tile, prefetch, tails.
//
//   [parallel bb]                                    batch
//   parallel j, parallel i                           block loops, as parallel(...) says; the serial one sits inside p
//     for p                                          kc at a time; partial sums wait in C
//       pack B block, pack A block                   as pack_b, pack_a say
//       for tiles of the block in order(...)
//         specialise rows in 1..mr                   one version of the microkernel per count of rows left
//           sums = 0 | C;  for k { B vectors, A broadcasts, fma };  store sums
//         epilogue over the rows of the tile         after the last p
//
// Each element is one chain of fma over k ascending, whatever the program: partial sums are stored and reloaded
// exactly, so every program gives the same bits. Columns beyond the last whole register tile get code of their own,
// with the vectors that are really there and a lane mask on the last; rows beyond the last whole tile are versions of
// the same body.
//
// With dot(bf16) a k-step is two elements of k, a pair: B has pairs in its panels, and the block of A is rounded to
// pairs in a workspace, whichever way it is used.
//
// swiglu: a tile holds gate and up columns of the same outputs, all of k in one pass, and its epilogue reads 32 sums
// for 16 elements of C.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "kernels/matmul/lower_internal.h"

namespace hone::matmul {
namespace {

using ir::Access;
using ir::Affine;
using ir::BufferId;
using ir::Builder;
using ir::RegId;
using ir::RegRef;
using ir::Scope;

// Which part of the problem a piece of code works on. Counts that are known at compile time stay constants.
struct Block {
  Affine row;         // first row of the block of A and C
  Affine rows;        // rows in it
  Affine tile;        // first register-tile column (in units of nr)
  Affine full_tiles;  // whole tiles in it
  Affine k;           // first k-step
  Affine depth;       // k-steps in it
};

struct Tile {
  Affine row_in_block;
  Affine tile_in_block;
  int64_t cols;  // valid columns, 1..nr
};

constexpr int64_t kLineBytes = 64;

class MatmulLowering {
 public:
  MatmulLowering(const MatmulProblem& problem, const TransformProgram& program)
      : p_(problem), t_(canonical(problem, program)), b_(kernel_name(problem, program)) {}

  ir::Kernel run() {
    declare_buffers();
    declare_registers();
    if (p_.batch > 1) {
      b_.parallel("bb", 0, p_.batch, 1, [&](Affine bb) {
        batch_ = bb;
        block_loops();
      });
    } else {
      block_loops();
    }
    return b_.finish();
  }

 private:
  bool pairs() const { return t_.dot == Dot::kBf16; }
  int64_t k_steps() const { return ceil_div(p_.k, kr_of(t_.dot)); }
  int64_t kc_steps() const { return ceil_div(t_.kc, kr_of(t_.dot)); }
  int64_t step_bytes() const { return kr_of(t_.dot) * p_.bytes_b(); }  // of a column of B
  bool has_sum() const { return p_.k > 0 && p_.alpha != 0; }
  bool whole_k() const { return !has_sum() || t_.kc >= p_.k || t_.pack_b == PackB::kStrip; }
  bool has_post() const { return p_.alpha != 1 || p_.beta != 0 || !p_.epilogue.empty(); }
  bool sums_via_tile() const { return has_post() && whole_k(); }
  int64_t vectors(int64_t cols) const { return ceil_div(cols, t_.lanes); }
  int64_t full_tiles() const { return p_.n / t_.nr; }
  int64_t tail_cols() const { return p_.n % t_.nr; }
  int64_t block_tiles() const { return t_.nc / t_.nr; }

  // ---- declarations ----

  void declare_buffers() {
    m_ = Affine::var(b_.param("m"));
    const bool batched = p_.batch > 1;
    const Affine sa = batched ? Affine::var(b_.param("sa")) : 0;
    const Affine sb = batched ? Affine::var(b_.param("sb")) : 0;
    const Affine sc = batched ? Affine::var(b_.param("sc")) : 0;
    auto argument = [&](const char* name, Scope scope, const Affine& stride, std::vector<Affine> extents,
                        std::vector<Affine> strides, DType dtype = DType::kF32) {
      if (batched) {
        extents.insert(extents.begin(), p_.batch);
        strides.insert(strides.begin(), stride);
      }
      return b_.buffer({.name = name,
                        .dtype = dtype,
                        .scope = scope,
                        .extents = std::move(extents),
                        .strides = std::move(strides),
                        .align = dtype_bytes(dtype)});
    };
    const int64_t n = p_.n, k = p_.k, columns = p_.columns();
    const Affine ldc = std::max<int64_t>(p_.row_stride_c(), 1);
    a_ = argument("A", Scope::kIn, sa, {m_, k}, {std::max<int64_t>(p_.row_stride_a(), 1), 1});
    if (p_.b == BLayout::kPacked) {
      bm_ = argument("B", Scope::kIn, sb, {ceil_div(n, t_.panel), k_steps(), t_.panel},
                     {std::max<int64_t>(k_steps(), 1) * t_.panel, t_.panel, 1}, pairs() ? DType::kS32 : p_.dtype);
    } else {
      const bool nt = p_.b == BLayout::kNt;
      bm_ = argument("B", Scope::kIn, sb, {nt ? n : k, nt ? k : n}, {std::max<int64_t>(p_.row_stride_b(), 1), 1});
    }
    c_ = argument("C", p_.beta != 0 ? Scope::kInOut : Scope::kOut, sc, {m_, columns}, {ldc, 1});
    if (p_.has(EpilogueOp::kBias))
      bias_ = b_.buffer({.name = "bias", .scope = Scope::kIn, .extents = {n}, .strides = {1}});
    if (p_.has(EpilogueOp::kGate)) gate_ = argument("gate", Scope::kIn, sc, {m_, columns}, {ldc, 1});
    if (p_.has(EpilogueOp::kResidual)) residual_ = argument("residual", Scope::kIn, sc, {m_, columns}, {ldc, 1});
    if (p_.has(EpilogueOp::kRowScale))
      row_scale_ = b_.buffer({.name = "row_scale", .scope = Scope::kIn, .extents = {m_}, .strides = {1}});
    declare_workspaces();
  }

  void declare_workspaces() {
    if (has_sum()) declare_packed_blocks();
    if (sums_via_tile())
      tw_ = b_.buffer(
          {.name = "T", .scope = Scope::kWorkspace, .extents = {t_.mr, t_.nr}, .strides = {t_.nr, 1}, .align = 64});
  }

  void declare_packed_blocks() {
    const int64_t depth = round_up(t_.kc, t_.lanes);
    if (t_.pack_a == PackA::kPairs) {
      const int64_t row = pair_row(t_.kc);
      ap_ = b_.buffer({.name = "Ap",
                       .dtype = DType::kS32,
                       .scope = Scope::kWorkspace,
                       .extents = {t_.mc, row},
                       .strides = {row, 1},
                       .align = 64});
    }
    if (t_.pack_a == PackA::kRows) {
      const int64_t a_depth = t_.pack_b == PackB::kStrip ? round_up(p_.k, t_.lanes) : depth;
      ap_ = b_.buffer({.name = "Ap",
                       .scope = Scope::kWorkspace,
                       .extents = {t_.mc, a_depth},
                       .strides = {a_depth, 1},
                       .align = 64});
    }
    if (t_.pack_b != PackB::kNone) {
      const int64_t tiles = t_.pack_b == PackB::kBlock ? block_tiles() : 1;
      bp_ = b_.buffer({.name = "Bp",
                       .scope = Scope::kWorkspace,
                       .extents = {tiles, depth, t_.nr},
                       .strides = {depth * t_.nr, t_.nr, 1},
                       .align = 64});
    }
  }

  void declare_registers() {
    const int64_t nv = vectors(t_.nr);
    acc_ = b_.reg("acc", {.lanes = t_.lanes}, {t_.mr, nv});
    const ir::RegType vec{.dtype = pairs() ? DType::kS32 : DType::kF32, .lanes = t_.lanes};
    if (nv <= t_.mr) {
      bv_ = b_.reg("b", vec, {nv});
      av_ = b_.reg("a", vec);
    } else {
      bv_ = b_.reg("b", vec);
      av_ = b_.reg("a", vec, {t_.mr});
    }
    mask_ = b_.reg("tail", {.lanes = t_.lanes, .mask = true});
  }

  Access at(BufferId buffer, std::vector<Affine> index) const {
    const bool batched = p_.batch > 1 && buffer != bias_ && buffer != ap_ && buffer != bp_ && buffer != tw_;
    if (batched) index.insert(index.begin(), batch_);
    return {buffer, std::move(index)};
  }

  // ---- block loops ----

  void block_loops() {
    const int64_t tiles = ceil_div(p_.n, t_.nr);
    auto for_j = [&](bool parallel, const std::function<void(Affine)>& body) {
      if (tiles <= block_tiles()) return body(0);  // one block: a loop would only hide constants
      parallel ? b_.parallel("j", 0, tiles, block_tiles(), body) : b_.serial("j", 0, tiles, block_tiles(), body);
    };
    auto for_i = [&](bool parallel, const std::function<void(Affine)>& body) {
      parallel ? b_.parallel("i", 0, m_, t_.mc, body) : b_.serial("i", 0, m_, t_.mc, body);
    };
    switch (t_.parallel) {
      case ParallelDim::kMn:
        for_j(true, [&](Affine j) {
          for_i(true, [&](Affine i) {
            Block block = columns(rows({}, i), j);
            for_k(block, [&](const Block& bl) { pack_b(bl), pack_a(bl), tiles_of(bl); });
          });
        });
        break;
      case ParallelDim::kN:
        for_j(true, [&](Affine j) {
          for_k(columns({}, j), [&](const Block& bl) {
            pack_b(bl);
            for_i(false, [&](Affine i) {
              const Block inner = rows(bl, i);
              pack_a(inner), tiles_of(inner);
            });
          });
        });
        break;
      case ParallelDim::kM:
        for_i(true, [&](Affine i) {
          for_k(rows({}, i), [&](const Block& bl) {
            pack_a(bl);
            for_j(false, [&](Affine j) {
              const Block inner = columns(bl, j);
              pack_b(inner), tiles_of(inner);
            });
          });
        });
        break;
    }
  }

  Block rows(Block block, Affine i) {
    block.row = i;
    block.rows = b_.let_min("mc", {t_.mc, m_ - i});
    return block;
  }

  Block columns(Block block, Affine j) {
    block.tile = j;
    const bool even = tail_cols() == 0 && full_tiles() % block_tiles() == 0;
    const bool single = j.is_constant();
    if (single || even) {
      block.full_tiles = std::min(full_tiles(), block_tiles());
    } else {
      block.full_tiles = b_.let_min("tiles", {block_tiles(), Affine(full_tiles()) - j});
    }
    return block;
  }

  void for_k(Block block, const std::function<void(const Block&)>& body) {
    if (whole_k()) {
      block.k = 0;
      block.depth = has_sum() ? k_steps() : 0;
      return body(block);
    }
    const int64_t steps = k_steps(), kc = kc_steps();
    b_.serial("p", 0, steps, kc, [&](Affine p) {
      block.k = p;
      block.depth = steps % kc == 0 ? Affine(kc) : b_.let_min("kc", {kc, Affine(steps) - p});
      body(block);
    });
  }

  // ---- packing ----

  void pack_a(const Block& block) {
    if (!has_sum() || t_.pack_a == PackA::kNone) return;
    if (pairs()) return round_a(block);
    const RegId v = b_.reg("pa", {.lanes = t_.lanes});
    const RegId mask = b_.reg("pam", {.lanes = t_.lanes, .mask = true});
    const bool constant = block.depth.is_constant();
    const Affine whole = constant ? Affine(block.depth.constant() / t_.lanes * t_.lanes)
                                  : b_.let_floor_div("ka", block.depth, t_.lanes) * t_.lanes;
    b_.serial("r", 0, block.rows, 1, [&](Affine r) {
      auto copy = [&](Affine k, RegRef m) {
        b_.load(Builder::at(v), at(a_, {block.row + r, block.k + k}), m);
        b_.store(at(ap_, {r, k}), Builder::at(v));
      };
      b_.serial("ka", 0, whole, t_.lanes, [&](Affine k) { copy(k, {}); });
      if (constant && whole == block.depth) return;
      b_.if_ge_zero(block.depth - whole - 1, [&] {
        b_.lane_mask(Builder::at(mask), block.depth - whole);
        copy(whole, Builder::at(mask));
      });
    });
  }

  // Rows of A as pairs, two vectors to one. What lies beyond k becomes zero.
  void round_a(const Block& block) {
    const RegId low = b_.reg("pl", {.lanes = t_.lanes}), high = b_.reg("ph", {.lanes = t_.lanes});
    const RegId pair = b_.reg("pp", {.dtype = DType::kS32, .lanes = t_.lanes});
    const RegId some = b_.reg("pm", {.lanes = t_.lanes, .mask = true}),
                more = b_.reg("pn", {.lanes = t_.lanes, .mask = true});
    const int64_t wide = int64_t{2} * t_.lanes;
    const Affine first = block.k * 2;
    const bool constant = block.depth.is_constant() && (whole_k() || p_.k % 2 == 0);
    const Affine elements = constant ? Affine(std::min(block.depth.constant() * 2, p_.k))
                                     : b_.let_min("ke", {block.depth * 2, Affine(p_.k) - first});
    const Affine vectors = constant ? Affine(elements.constant() / wide) : b_.let_floor_div("kv", elements, wide);
    const Affine rest = elements - vectors * wide;
    b_.serial("r", 0, block.rows, 1, [&](const Affine& r) {
      auto round = [&](const Affine& v, RegRef low_mask, RegRef high_mask) {
        b_.load(Builder::at(low), at(a_, {block.row + r, first + v * wide}), low_mask);
        b_.load(Builder::at(high), at(a_, {block.row + r, first + v * wide + t_.lanes}), high_mask);
        b_.pairs(Builder::at(pair), Builder::at(low), Builder::at(high));
        b_.store(at(ap_, {r, v * t_.lanes}), Builder::at(pair));
      };
      b_.serial("kv", 0, vectors, 1, [&](const Affine& v) { round(v, {}, {}); });
      if (constant && rest.constant() == 0) return;
      b_.if_ge_zero(rest - 1, [&] {
        b_.lane_mask(Builder::at(some), rest);
        b_.lane_mask(Builder::at(more), rest - t_.lanes);
        round(vectors, Builder::at(some), Builder::at(more));
      });
    });
  }

  void pack_b(const Block& block) {
    if (!has_sum() || t_.pack_b != PackB::kBlock) return;
    StripPacker packer(b_, t_.lanes);
    auto strip = [&](const Affine& jj, int64_t cols) {
      return strip_copy(block.tile + jj, jj, cols, block.k, block.depth);
    };
    // Rows of nn are read across the whole block, rows of nt (columns of B) panel by panel: along memory either way.
    if (p_.b == BLayout::kNn) {
      b_.serial("pk", 0, block.depth, 1, [&](const Affine& p) {
        b_.serial("jp", 0, block.full_tiles, 1, [&](const Affine& jj) { packer.emit_row(strip(jj, t_.nr), p); });
        with_tail(block, [&](const Affine& jj) { packer.emit_row(strip(jj, tail_cols()), p); });
      });
      return;
    }
    b_.serial("jp", 0, block.full_tiles, 1, [&](const Affine& jj) { packer.emit(strip(jj, t_.nr)); });
    with_tail(block, [&](const Affine& jj) { packer.emit(strip(jj, tail_cols())); });
  }

  StripCopy strip_copy(const Affine& tile, const Affine& slot, int64_t cols, const Affine& k,
                       const Affine& depth) const {
    return {.layout = p_.b,
            .src =
                [=, this](const Affine& p, const Affine& c) {
                  const Affine col = tile * t_.nr + c;
                  return p_.b == BLayout::kNt ? at(bm_, {col, k + p}) : at(bm_, {k + p, col});
                },
            .dst =
                [=, this](const Affine& p, const Affine& c) {
                  return at(bp_, {slot, p, c});
                },
            .cols = cols,
            .width = vectors(cols) * t_.lanes,
            .rows = depth,
            .dst_rows_rounded = true};
  }

  // Runs body for the tail tile where this block contains it.
  void with_tail(const Block& block, const std::function<void(Affine)>& body) {
    if (tail_cols() == 0) return;
    if (block.tile.is_constant()) return body(full_tiles());
    b_.if_ge_zero(block.tile + block_tiles() - 1 - full_tiles(), [&] { body(Affine(full_tiles()) - block.tile); });
  }

  // ---- tiles ----

  void tiles_of(const Block& block) {
    auto for_rows = [&](const std::function<void(Affine)>& body) { b_.serial("ii", 0, block.rows, t_.mr, body); };
    auto for_full = [&](const std::function<void(Affine)>& body) { b_.serial("jj", 0, block.full_tiles, 1, body); };
    const bool any_full = full_tiles() > 0;
    if (t_.order == TileOrder::kJi) {
      if (any_full) for_full([&](Affine jj) { for_rows([&](Affine ii) { tile(block, {ii, jj, t_.nr}); }); });
      with_tail(block, [&](Affine jj) { for_rows([&](Affine ii) { tile(block, {ii, jj, tail_cols()}); }); });
    } else {
      for_rows([&](Affine ii) {
        if (any_full) for_full([&](Affine jj) { tile(block, {ii, jj, t_.nr}); });
        with_tail(block, [&](Affine jj) { tile(block, {ii, jj, tail_cols()}); });
      });
    }
  }

  void tile(const Block& block, const Tile& tile) {
    const Affine left = t_.mr == 1 ? Affine(1) : b_.let_min("left", {t_.mr, block.rows - tile.row_in_block});
    if (t_.mr == 1) {
      sums(block, tile, 1);
    } else {
      b_.specialise("rows", 1, t_.mr, left, [&](Affine rows) { sums(block, tile, rows); });
    }
    if (!has_post()) return;
    if (whole_k()) return epilogue(block, tile, left);
    b_.if_ge_zero(block.k + kc_steps() - k_steps(), [&] { epilogue(block, tile, left); });
  }

  void sums(const Block& block, const Tile& tile, const Affine& rows) {
    const int64_t nv = vectors(tile.cols);
    auto zero = [&] { each(rows, nv, [&](Affine r, Affine v) { b_.constant(acc(r, v), 0.0F); }); };
    auto partial = [&] {
      tail_mask(tile);
      each_vector(rows, tile, [&](Affine r, Affine v, RegRef mask) {
        b_.load(acc(r, v), c_at(c_, block, tile, r, v * t_.lanes), mask);
      });
    };
    if (whole_k()) {
      zero();
    } else {
      b_.if_eq_zero(block.k, zero, partial);
    }
    if (has_sum()) {
      prefetch_next_c(block, tile, rows);
      accumulate(block, tile, rows);
    }
    if (sums_via_tile()) {
      each(rows, nv, [&](Affine r, Affine v) { b_.store(at(tw_, {r, v * t_.lanes}), acc(r, v)); });
      return;
    }
    tail_mask(tile);
    each_vector(rows, tile, [&](Affine r, Affine v, RegRef mask) {
      b_.store(c_at(c_, block, tile, r, v * t_.lanes), acc(r, v), mask);
    });
  }

  void accumulate(const Block& block, const Tile& tile, const Affine& rows) {
    if (t_.pack_b != PackB::kStrip) return k_loop(block, tile, rows, block.k, block.depth);
    StripPacker packer(b_, t_.lanes);
    auto strip = [&](Affine k, Affine depth) {
      packer.emit(strip_copy(block.tile + tile.tile_in_block, 0, tile.cols, k, depth));
      k_loop(block, tile, rows, k, depth);
    };
    const int64_t whole = p_.k / t_.kc * t_.kc;
    if (whole > 0) b_.serial("s", 0, whole, t_.kc, [&](Affine k) { strip(k, t_.kc); });
    if (whole < p_.k) strip(whole, p_.k - whole);
  }

  // fma over `depth` k-steps from k. A strip of B starts at its own 0.
  void k_loop(const Block& block, const Tile& tile, const Affine& rows, const Affine& k, const Affine& depth) {
    if (t_.pack_b == PackB::kNone && p_.b != BLayout::kPacked) tail_mask(tile);
    const int ku = t_.unroll_k;
    const std::optional<NextPanels> next = t_.prefetch_next ? std::optional(next_panels(block, tile, k)) : std::nullopt;
    auto step = [&](Affine kk) { k_step(block, tile, rows, k, kk); };
    auto hints = [&](const Affine& kk) {
      prefetch_lines(block, tile, k, kk);
      if (next) announce(*next, kk);
    };
    if (ku == 1) {
      b_.serial("k", 0, depth, 1, [&](Affine kk) {
        step(kk);
        hints(kk);
      });
      return;
    }
    const Affine whole =
        depth.is_constant() ? Affine(depth.constant() / ku * ku) : b_.let_floor_div("kq", depth, ku) * ku;
    b_.serial("k", 0, whole, ku, [&](Affine kk) {
      b_.unroll("u", 0, ku, 1, [&](Affine u) { step(kk + u); });
      hints(kk);
    });
    if (depth.is_constant() && whole == depth) return;
    b_.serial("k", whole, depth, 1, step);
  }

  void k_step(const Block& block, const Tile& tile, const Affine& rows, const Affine& k, const Affine& kk) {
    const int64_t nv = vectors(tile.cols);
    auto load_b = [&](int64_t v, RegRef dst) {
      b_.load(dst, b_at(block, tile, k, kk, v), direct_b_needs_mask(tile, v) ? Builder::at(mask_) : RegRef{});
      prefetch(block, tile, k, kk, v);
    };
    auto load_a = [&](const Affine& r, RegRef dst) {
      const bool packed = t_.pack_a != PackA::kNone;
      const Affine k_in_pack = t_.pack_b == PackB::kStrip ? k + kk : kk;
      b_.broadcast(dst, packed ? at(ap_, {tile.row_in_block + r, k_in_pack})
                               : at(a_, {block.row + tile.row_in_block + r, k + kk}));
    };
    if (vectors(t_.nr) <= t_.mr) {
      for (int64_t v = 0; v < nv; ++v) load_b(v, Builder::at(bv_, {v}));
      b_.unroll("r", 0, rows, 1, [&](Affine r) {
        load_a(r, Builder::at(av_));
        for (int64_t v = 0; v < nv; ++v) multiply(acc(r, v), Builder::at(av_), Builder::at(bv_, {v}));
      });
      return;
    }
    b_.unroll("r", 0, rows, 1, [&](Affine r) { load_a(r, Builder::at(av_, {r})); });
    for (int64_t v = 0; v < nv; ++v) {
      load_b(v, Builder::at(bv_));
      b_.unroll("r", 0, rows, 1, [&](Affine r) { multiply(acc(r, v), Builder::at(av_, {r}), Builder::at(bv_)); });
    }
  }

  void multiply(const RegRef& sum, const RegRef& a, const RegRef& b) {
    pairs() ? b_.dot_pairs(sum, a, b, sum) : b_.fma(sum, a, b, sum);
  }

  Access b_at(const Block& block, const Tile& tile, const Affine& k, const Affine& kk, int64_t v) const {
    const int64_t c = v * t_.lanes;
    const Affine abs_tile = block.tile + tile.tile_in_block;
    if (t_.pack_b == PackB::kBlock) return at(bp_, {tile.tile_in_block, kk, c});
    if (t_.pack_b == PackB::kStrip) return at(bp_, {0, kk, c});
    if (p_.b == BLayout::kPacked) return at(bm_, {abs_tile * (t_.nr / t_.panel) + c / t_.panel, k + kk, c % t_.panel});
    return at(bm_, {k + kk, abs_tile * t_.nr + c});
  }

  // One hint per cache line of B (64 bytes), where B is streamed from outside.
  void prefetch(const Block& block, const Tile& tile, const Affine& k, const Affine& kk, int64_t v) {
    if (t_.prefetch_b == 0 || t_.pack_b == PackB::kStrip || step_bytes() != 4) return;
    if (v * t_.lanes * 4 % kLineBytes == 0) b_.prefetch(b_at(block, tile, k, kk + t_.prefetch_b, v), 0);
  }

  // The same where a k-step of a panel is part of a line (16-bit weights, not in pairs): hints for `unroll_k` steps at
  // once, one for each line of each panel.
  void prefetch_lines(const Block& block, const Tile& tile, const Affine& k, const Affine& kk) {
    if (t_.prefetch_b == 0 || step_bytes() == 4) return;
    const int64_t line = kLineBytes / step_bytes();
    for (int64_t first = 0; first < round_up(tile.cols, t_.lanes); first += t_.panel)
      for (int64_t e = 0; e < t_.unroll_k * t_.panel; e += line)
        b_.prefetch(b_at(block, tile, k, kk + t_.prefetch_b + e / t_.panel, (first + e % t_.panel) / t_.lanes), 0);
  }

  // Where the panels lie that the block loops come to after those of this tile, as far as prefetch_next announces them.
  struct NextPanels {
    Affine first;   // panel
    Affine k;       // first k
    Affine offset;  // elements into each panel at which this tile's share begins
    int64_t share;  // elements of each panel a k-step
  };

  NextPanels next_panels(const Block& block, const Tile& tile, const Affine& k) {
    const int64_t per_tile = t_.nr / t_.panel;
    const bool tile_by_tile = announces_next_tile(t_);
    Affine next_tile = block.tile + tile.tile_in_block + (tile_by_tile ? 1 : block_tiles());
    Affine next_k = k;
    // Where the loop over k is the inner one, the same panels come next, further down, and other ones after the last.
    if (const int64_t kc = kc_steps(); !tile_by_tile && kc < k_steps() && t_.parallel != ParallelDim::kM) {
      const int64_t passes_end = round_up(k_steps(), kc);
      const Affine last = b_.let_floor_div("kl", k + kc, passes_end);
      next_tile = block.tile + tile.tile_in_block + last * block_tiles();
      next_k = k + kc - last * passes_end;
    }
    const int64_t share = ceil_div(t_.panel, t_.mc / t_.mr);
    const Affine row_tile = b_.let_floor_div("rt", tile.row_in_block, t_.mr);
    return {next_tile * per_tile, next_k, row_tile * (kc_steps() * share), share};
  }

  // Hints for `unroll_k` steps from kk. All row tiles of a block pass over the same panels, so each of them announces
  // its share of the next ones: a run of k in each panel.
  void announce(const NextPanels& next, const Affine& kk) {
    for (int64_t q = 0; q < t_.nr / t_.panel; ++q) {
      for (int64_t c = 0; c < t_.unroll_k * next.share; c += kLineBytes / step_bytes())
        b_.prefetch(at(bm_, {next.first + q, next.k, next.offset + kk * next.share + c}), 1);
    }
  }

  // C of the tile that comes next, which this one's fma hide: partial sums are read at the start of a tile, where
  // nothing else could cover the wait.
  void prefetch_next_c(const Block& block, const Tile& tile, const Affine& rows) {
    if (!t_.prefetch_c || sums_via_tile()) return;
    Tile next = tile;
    (t_.order == TileOrder::kJi ? next.row_in_block : next.tile_in_block) += t_.order == TileOrder::kJi ? t_.mr : 1;
    b_.unroll("r", 0, rows, 1, [&](Affine r) {
      for (int64_t c = 0; c < t_.nr; c += 16) b_.prefetch(c_at(c_, block, next, r, c), 0);
    });
  }

  bool direct_b_needs_mask(const Tile& tile, int64_t v) const {
    return t_.pack_b == PackB::kNone && p_.b != BLayout::kPacked && (v + 1) * t_.lanes > tile.cols;
  }

  // ---- pieces ----

  RegRef acc(Affine r, Affine v) const { return Builder::at(acc_, {std::move(r), std::move(v)}); }

  Access c_at(BufferId buffer, const Block& block, const Tile& tile, const Affine& r, const Affine& c) const {
    const int64_t tile_columns = p_.swiglu() ? t_.nr / 2 : t_.nr;
    return at(buffer, {block.row + tile.row_in_block + r, (block.tile + tile.tile_in_block) * tile_columns + c});
  }

  void tail_mask(const Tile& tile) {
    if (tile.cols % t_.lanes != 0) b_.lane_mask(Builder::at(mask_), tile.cols % t_.lanes);
  }

  void each(const Affine& rows, int64_t nv, const std::function<void(Affine, Affine)>& body) {
    b_.unroll("r", 0, rows, 1, [&](Affine r) { b_.unroll("v", 0, nv, 1, [&](Affine v) { body(r, v); }); });
  }

  // The same with the lane mask of the last vector of a tail tile.
  void each_vector(const Affine& rows, const Tile& tile, const std::function<void(Affine, Affine, RegRef)>& body) {
    const int64_t whole = tile.cols / t_.lanes;
    b_.unroll("r", 0, rows, 1, [&](Affine r) {
      if (whole > 0) b_.unroll("v", 0, whole, 1, [&](Affine v) { body(r, v, {}); });
      if (tile.cols % t_.lanes != 0) body(r, whole, Builder::at(mask_));
    });
  }

  // ---- after the sum ----

  void epilogue(const Block& block, const Tile& tile, const Affine& rows) {
    EpilogueEmitter emitter(b_, p_, t_.lanes);
    emitter.declare();
    if (p_.swiglu()) return pairs_of_columns(emitter, block, tile, rows);
    auto vector = [&](Affine r, Affine c, RegRef mask) {
      auto of = [&](BufferId buffer) { return c_at(buffer, block, tile, r, c); };
      const Access sum = sums_via_tile() ? at(tw_, {r, c}) : of(c_);
      EpilogueAccesses accesses{.sum = sum, .sum_masked = !sums_via_tile(), .c = of(c_)};
      if (p_.has(EpilogueOp::kBias)) accesses.bias = at(bias_, {(block.tile + tile.tile_in_block) * t_.nr + c});
      if (p_.has(EpilogueOp::kGate)) accesses.gate = of(gate_);
      if (p_.has(EpilogueOp::kResidual)) accesses.residual = of(residual_);
      if (p_.has(EpilogueOp::kRowScale)) accesses.row_scale = at(row_scale_, {block.row + tile.row_in_block + r});
      emitter.emit(accesses, mask);
    };
    const int64_t whole = tile.cols / t_.lanes * t_.lanes;
    tail_mask(tile);
    b_.serial("er", 0, rows, 1, [&](Affine r) {
      if (whole > 0) b_.serial("ec", 0, whole, t_.lanes, [&](Affine c) { vector(r, c, {}); });
      if (whole < tile.cols) vector(r, whole, Builder::at(mask_));
    });
  }

  // swiglu: 16 columns of C come of 32 of the tile. n is a multiple of those and so are tiles, whole or not: no masks.
  void pairs_of_columns(EpilogueEmitter& emitter, const Block& block, const Tile& tile, const Affine& rows) {
    const Affine first = (block.tile + tile.tile_in_block) * t_.nr;
    auto vector = [&](const Affine& r, const Affine& group, const Affine& lane) {
      const Affine gate = group * 2 + lane, up = gate + kSwigluColumns, c = group + lane;
      EpilogueAccesses accesses{
          .sum = at(tw_, {r, gate}), .sum_masked = false, .c = c_at(c_, block, tile, r, c), .up = at(tw_, {r, up})};
      if (p_.has(EpilogueOp::kBias))
        accesses.bias = at(bias_, {first + gate}), accesses.up_bias = at(bias_, {first + up});
      if (p_.has(EpilogueOp::kGate)) accesses.gate = c_at(gate_, block, tile, r, c);
      if (p_.has(EpilogueOp::kResidual)) accesses.residual = c_at(residual_, block, tile, r, c);
      if (p_.has(EpilogueOp::kRowScale)) accesses.row_scale = at(row_scale_, {block.row + tile.row_in_block + r});
      emitter.emit(accesses, {});
    };
    b_.serial("er", 0, rows, 1, [&](const Affine& r) {
      b_.serial("eg", 0, tile.cols / 2, kSwigluColumns, [&](const Affine& group) {
        if (t_.lanes == kSwigluColumns) return vector(r, group, 0);
        b_.serial("ec", 0, kSwigluColumns, t_.lanes, [&](const Affine& lane) { vector(r, group, lane); });
      });
    });
  }

  MatmulProblem p_;
  TransformProgram t_;
  Builder b_;
  Affine m_, batch_;
  BufferId a_ = -1, bm_ = -1, c_ = -1, bias_ = -2, gate_ = -1, residual_ = -1, row_scale_ = -1, ap_ = -2, bp_ = -2,
           tw_ = -2;
  RegId acc_ = -1, bv_ = -1, av_ = -1, mask_ = -1;
};

}  // namespace

Result<ir::Kernel> lower(const MatmulProblem& problem, const TransformProgram& program) {
  HONE_RETURN_IF_ERROR(legal(problem, program));
  return MatmulLowering(problem, program).run();
}

}  // namespace hone::matmul
