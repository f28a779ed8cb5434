// One strip of 16 columns at a time. A block of up to kRows rows keeps its sums in a small array while k is walked in
// chunks. Panels whose width is a multiple of 16 are read in place, nn rows too when few rows of A would share a copy;
// otherwise each chunk is first copied into a dense [chunk][16] buffer with zeros in the tail columns (nn in place at
// 512^3: rows of B a power of two apart fight for cache sets, 53 instead of 69 GFLOP/s on a 2.6 GHz Sapphire Rapids).
// Sums carried through memory between chunks change no bit: the chain over k stays one chain. Weights of 16 bits are
// widened as they are copied.
//
// 4 rows x 16 columns: 8 accumulators of 8 lanes, 2 vectors of B and a broadcast fill 11 of 16 registers.
#include "kernels/matmul/fallback.h"

#include <algorithm>
#include <cstring>

#include "engine/base/half.h"
#include "kernels/math/array_math.h"
#include "kernels/math/scalar_ops.h"
#include "kernels/matmul/activation_internal.h"

namespace hone::matmul {
namespace {

constexpr int64_t kWidth = kFallbackColumns;
constexpr int64_t kRows = 64;    // sums: 64 x 16 floats = 4 KiB
constexpr int64_t kChunk = 256;  // strip of B: 256 x 16 floats = 16 KiB, half of a small L1

using math::ScalarOps;

// 16 columns of B, rows `stride` apart.
struct Strip {
  const float* data;
  int64_t stride;
};

// sums[r][c] continued over `depth` values of k.
template <int kTileRows>
[[gnu::always_inline]] inline void tile(const float* a, int64_t lda, const Strip& strip, int64_t depth,
                                        float (*sums)[kWidth]) {
  float acc[kTileRows][kWidth];
  for (int r = 0; r < kTileRows; ++r)
    for (int64_t c = 0; c < kWidth; ++c) acc[r][c] = sums[r][c];
  for (int64_t q = 0; q < depth; ++q) {
    const float* b = strip.data + q * strip.stride;
#pragma GCC unroll 4
    for (int r = 0; r < kTileRows; ++r) {
      const float x = a[r * lda + q];
      for (int64_t c = 0; c < kWidth; ++c) acc[r][c] = ScalarOps::fma(x, b[c], acc[r][c]);
    }
  }
  for (int r = 0; r < kTileRows; ++r)
    for (int64_t c = 0; c < kWidth; ++c) sums[r][c] = acc[r][c];
}

[[gnu::always_inline]] inline void rows_loop(const float* a, int64_t lda, int64_t rows, const Strip& strip,
                                             int64_t depth, float (*sums)[kWidth]) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) tile<4>(a + r * lda, lda, strip, depth, sums + r);
  for (; r < rows; ++r) tile<1>(a + r * lda, lda, strip, depth, sums + r);
}

[[gnu::target("avx2,fma")]] void rows_avx2(const float* a, int64_t lda, int64_t rows, const Strip& strip, int64_t depth,
                                           float (*sums)[kWidth]) {
  rows_loop(a, lda, rows, strip, depth, sums);
}

void rows_any(const float* a, int64_t lda, int64_t rows, const Strip& strip, int64_t depth, float (*sums)[kWidth]) {
  rows_loop(a, lda, rows, strip, depth, sums);
}

// The elements of column `column` of packed B from k-step `q` on, as f32 into every 16th element of `to`: `count` of
// them, in pairs.
void widen_pairs(const void* b, int64_t first, const PackedB& packed, int64_t k, int64_t q, int64_t column,
                 int64_t count, float* to) {
  const auto* halves = static_cast<const uint16_t*>(b) + first;
  for (int64_t i = 0; i < count; ++i) to[i * kWidth] = bf16_to_f32(halves[packed.index(k, q + i, column)]);
}

// `count` elements of B from `at` on, `step` apart, as f32 into every 16th element of `to`.
void widen_column(DType dtype, const void* b, int64_t at, int64_t step, int64_t count, float* to) {
  const auto* halves = static_cast<const uint16_t*>(b) + at;
  if (dtype == DType::kBf16) {
    for (int64_t i = 0; i < count; ++i) to[i * kWidth] = bf16_to_f32(halves[i * step]);
  } else if (dtype == DType::kF16) {
    for (int64_t i = 0; i < count; ++i) to[i * kWidth] = f16_to_f32(halves[i * step]);
  } else {
    const float* from = static_cast<const float*>(b) + at;
    for (int64_t i = 0; i < count; ++i) to[i * kWidth] = from[i * step];
  }
}

// The 16 columns from j on, of item `item`'s rows [q, q + depth) of B: in place, or copied to `buffer` with zeros
// beyond n.
Strip strip_of(const MatmulProblem& p, const void* weights, int64_t item, const PackedB& packed, int64_t q,
               int64_t depth, int64_t j, bool share, float* buffer) {
  const int64_t width = std::min(kWidth, p.n - j);
  const int64_t panel = p.b == BLayout::kPacked ? packed.width : 0;
  const bool f32 = p.dtype == DType::kF32;
  const int64_t first = item * (p.b == BLayout::kPacked ? packed.batch_stride : p.batch_stride_b());
  const float* b = f32 ? static_cast<const float*>(weights) + first : nullptr;
  if (f32 && p.b == BLayout::kNn && width == kWidth) {
    const Strip rows{b + q * p.row_stride_b() + j, p.row_stride_b()};
    if (!share) return rows;
    for (int64_t i = 0; i < depth; ++i)
      std::memcpy(buffer + i * kWidth, rows.data + i * rows.stride, kWidth * sizeof(float));
    return {buffer, kWidth};
  }
  if (f32 && panel > 0 && panel % kWidth == 0) return {b + (j / panel * p.k + q) * panel + j % panel, panel};
  if (width < kWidth) std::memset(buffer, 0, static_cast<size_t>(depth * kWidth) * sizeof(float));
  for (int64_t c = 0; c < width; ++c) {
    if (panel > 0 && packed.kr != 1) {
      widen_pairs(weights, first, packed, p.k, q, j + c, depth, buffer + c);
      continue;
    }
    int64_t at = first, step = 1;
    switch (p.b) {
      case BLayout::kNn:
        at += q * p.row_stride_b() + j + c;
        step = p.row_stride_b();
        break;
      case BLayout::kNt:
        at += (j + c) * p.row_stride_b() + q;
        break;
      case BLayout::kPacked:
        at += ((j + c) / panel * p.k + q) * panel + (j + c) % panel;
        step = panel;
        break;
    }
    widen_column(p.dtype, weights, at, step, depth, buffer + c);
  }
  return {buffer, kWidth};
}

void scale_row(const MatmulProblem& p, int64_t width, float* v) {
  if (p.alpha == 1) return;
  for (int64_t c = 0; c < width; ++c) v[c] = p.alpha * v[c];
}

// v = silu(v) * up, `up` being the sums of the up columns that belong to v's, of row i and from column j of B on.
void pair_row(const MatmulProblem& p, const MatmulOperands& o, int64_t i, int64_t j, float* v, float* up) {
  scale_row(p, kWidth, up);
  if (p.has(EpilogueOp::kRowScale))
    for (int64_t c = 0; c < kWidth; ++c) up[c] = up[c] * o.row_scale[i];
  if (p.has(EpilogueOp::kBias))
    for (int64_t c = 0; c < kWidth; ++c) up[c] = up[c] + o.bias[j + kSwigluColumns + c];
  math::activate_array(math::Activation::kSilu, v, v, kWidth);
  for (int64_t c = 0; c < kWidth; ++c) v[c] = v[c] * up[c];
}

// v (the sums of row i of the strip, from column j of B on) through alpha, beta and the chain, into C at element `at`.
// `up`: see pair_row().
void finish_row(const MatmulProblem& p, const MatmulOperands& o, int64_t i, int64_t j, int64_t at, int64_t width,
                float* v, float* up) {
  scale_row(p, width, v);
  if (p.beta != 0)
    for (int64_t c = 0; c < width; ++c) v[c] = ScalarOps::fma(p.beta, o.c[at + c], v[c]);
  for (EpilogueOp op : p.epilogue) {
    if (const std::optional<math::Activation> activation = activation_of(op)) {
      math::activate_array(*activation, v, v, width);
    } else if (op == EpilogueOp::kSwiglu) {
      pair_row(p, o, i, j, v, up);
    } else if (op == EpilogueOp::kRowScale) {
      for (int64_t c = 0; c < width; ++c) v[c] = v[c] * o.row_scale[i];
    } else if (op == EpilogueOp::kGate) {
      for (int64_t c = 0; c < width; ++c) v[c] = v[c] * o.gate[at + c];
    } else {
      const float* addend = op == EpilogueOp::kBias ? o.bias + j : o.residual + at;
      for (int64_t c = 0; c < width; ++c) v[c] = v[c] + addend[c];
    }
  }
  std::memcpy(o.c + at, v, static_cast<size_t>(width) * sizeof(float));
}

struct Block {
  int64_t item, row, rows, strip;
};

// The sums of the 16 columns of B from j on.
void sum_columns(const MatmulProblem& p, const MatmulOperands& o, const PackedB& packed, const Block& block, int64_t j,
                 float (*sums)[kWidth]) {
  if (p.alpha == 0) return;
  alignas(64) float buffer[kChunk * kWidth];
  const int64_t lda = p.row_stride_a();
  const float* a = o.a + block.item * p.batch_stride_a() + block.row * lda;
  const auto rows = math::cpu_has_avx2_fma() ? rows_avx2 : rows_any;
  for (int64_t q = 0; q < p.k; q += kChunk) {
    const int64_t depth = std::min(kChunk, p.k - q);
    const Strip strip = strip_of(p, o.b, block.item, packed, q, depth, j, block.rows > 4, buffer);
    rows(a + q, lda, block.rows, strip, depth, sums);
  }
}

void run_block(const MatmulProblem& p, const MatmulOperands& o, const PackedB& packed, const Block& block) {
  static_assert(kWidth == kSwigluColumns, "a strip of C is made of one strip of gate columns and one of up columns");
  alignas(64) float sums[kRows][kWidth] = {}, ups[kRows][kWidth] = {};
  const int64_t j = block.strip * kWidth, width = std::min(kWidth, p.columns() - j);
  const bool pairs = p.swiglu();
  const int64_t column = pairs ? gate_column(j) : j;
  sum_columns(p, o, packed, block, column, sums);
  if (pairs) sum_columns(p, o, packed, block, column + kWidth, ups);
  for (int64_t r = 0; r < block.rows; ++r) {
    const int64_t at = block.item * p.batch_stride_c() + (block.row + r) * p.row_stride_c() + j;
    finish_row(p, o, block.row + r, column, at, width, sums[r], ups[r]);
  }
}

}  // namespace

int64_t fallback_strips(const MatmulProblem& p) { return (p.columns() + kWidth - 1) / kWidth; }

void fallback_matmul(const MatmulProblem& p, const MatmulOperands& o, const PackedB& packed,
                     const FallbackRange& range) {
  for (int64_t strip = range.strip_begin; strip < range.strip_end; ++strip) {
    for (int64_t row = range.row_begin; row < range.row_end; row += kRows) {
      run_block(p, o, packed, {range.item, row, std::min(kRows, range.row_end - row), strip});
    }
  }
}

void fallback_matmul(const MatmulProblem& p, const MatmulOperands& o, const PackedB& packed) {
  for (int64_t item = 0; item < p.batch; ++item) {
    fallback_matmul(p, o, packed, {item, 0, p.m, 0, fallback_strips(p)});
  }
}

namespace {

using Lanes [[gnu::vector_size(16)]] = uint16_t;

// 8 rows of 8 elements become columns, by three perfect shuffles.
void transpose_8x8(const uint16_t* from, int64_t from_row, Lanes (&x)[8]) {
  Lanes y[8];
  for (int i = 0; i < 8; ++i) std::memcpy(&x[i], from + i * from_row, sizeof(Lanes));
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 4; ++i) {
      y[2 * i] = __builtin_shufflevector(x[i], x[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
      y[2 * i + 1] = __builtin_shufflevector(x[i], x[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
    }
    std::copy_n(y, 8, x);
  }
}

// 8 k-steps of 8 columns, of a panel at `to` whose rows of `kr` k-steps are `width` * kr elements long.
void store_8x8(Lanes (&x)[8], int64_t width, int64_t kr, uint16_t* to) {
  for (int i = 0; kr == 2 && i < 8; i += 2) {
    const Lanes low = x[i], high = x[i + 1];
    x[i] = __builtin_shufflevector(low, high, 0, 8, 1, 9, 2, 10, 3, 11);
    x[i + 1] = __builtin_shufflevector(low, high, 4, 12, 5, 13, 6, 14, 7, 15);
  }
  for (int i = 0; i < 8; ++i)
    std::memcpy(to + (kr == 1 ? i * width : i / 2 * 2 * width + i % 2 * 8), &x[i], sizeof(Lanes));
}

// Of one panel: rows of nn as they are; rows of nt, which hold consecutive k, in blocks, so that what is read and what
// is written stays in L1 until whole lines of it were used.
template <typename Element>
void pack_panel(const MatmulProblem& source, const Element* b, Element* panel, const PackedB& layout, int64_t column) {
  const int64_t k = source.k, ldb = source.row_stride_b(), width = layout.width, kr = layout.kr;
  const int64_t valid = std::min(width, source.n - column);
  const bool nt = source.b == BLayout::kNt;
  if (!nt && kr == 1) {
    for (int64_t p = 0; p < k; ++p) {
      std::copy_n(b + p * ldb + column, valid, panel + p * width);
      std::fill(panel + p * width + valid, panel + (p + 1) * width, Element{0});
    }
    return;
  }
  constexpr int64_t kBlock = 8;
  for (int64_t p0 = 0; p0 < layout.depth(k); p0 += kBlock) {
    const int64_t p1 = std::min(layout.depth(k), p0 + kBlock);
    for (int64_t j0 = 0; j0 < width; j0 += kBlock) {
      const int64_t j1 = std::min(width, j0 + kBlock);
      if constexpr (sizeof(Element) == sizeof(uint16_t)) {
        if (nt && p0 + kBlock <= k && j0 + kBlock <= valid) {
          Lanes x[8];
          transpose_8x8(b + (column + j0) * ldb + p0, ldb, x);
          store_8x8(x, width, kr, panel + p0 * width + j0 * kr);
          continue;
        }
      }
      for (int64_t j = j0; j < j1; ++j)
        for (int64_t p = p0; p < p1; ++p)
          panel[layout.index(k, p, j)] =
              j >= valid || p >= k ? Element{0} : b[nt ? (column + j) * ldb + p : p * ldb + column + j];
    }
  }
}

template <typename Element>
void pack_panels(const MatmulProblem& source, const void* b, void* panels, const PackedB& layout, int64_t begin,
                 int64_t end) {
  const int64_t each = layout.elements(layout.width, source.k);
  for (int64_t q = begin; q < end; ++q)
    pack_panel(source, static_cast<const Element*>(b), static_cast<Element*>(panels) + q * each, layout,
               q * layout.width);
}

}  // namespace

void fallback_pack_b(const MatmulProblem& source, const void* b, void* panels, const PackedB& layout,
                     int64_t panel_begin, int64_t panel_end) {
  is_16bit_float(source.dtype) ? pack_panels<uint16_t>(source, b, panels, layout, panel_begin, panel_end)
                               : pack_panels<float>(source, b, panels, layout, panel_begin, panel_end);
}

}  // namespace hone::matmul
