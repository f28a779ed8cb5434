// One strip of 16 columns at a time. A block of up to kRows rows keeps its sums in a small array while k is walked in
// chunks; each chunk of B is copied into a dense [chunk][16] buffer first, which makes the three layouts of B and the
// tail columns (zeros) look the same to the inner loop, and is paid once for kRows rows. Sums carried through memory
// between chunks change no bit: the chain over k stays one chain.
//
// 4 rows x 16 columns: 8 accumulators of 8 lanes, 2 vectors of B and a broadcast fill 11 of 16 registers.
#include "kernels/matmul/fallback.h"

#include <algorithm>
#include <cstring>

#include "kernels/math/array_math.h"
#include "kernels/math/scalar_ops.h"

namespace hone::matmul {
namespace {

constexpr int64_t kWidth = kFallbackColumns;
constexpr int64_t kRows = 64;    // sums: 64 x 16 floats = 4 KiB
constexpr int64_t kChunk = 256;  // strip of B: 256 x 16 floats = 16 KiB, half of a small L1

using math::ScalarOps;

// sums[r][c] continued over `depth` values of k.
template <int kTileRows>
[[gnu::always_inline]] inline void tile(const float* a, int64_t lda, const float* strip, int64_t depth,
                                        float (*sums)[kWidth]) {
  float acc[kTileRows][kWidth];
  for (int r = 0; r < kTileRows; ++r)
    for (int64_t c = 0; c < kWidth; ++c) acc[r][c] = sums[r][c];
  for (int64_t q = 0; q < depth; ++q) {
    const float* b = strip + q * kWidth;
#pragma GCC unroll 4
    for (int r = 0; r < kTileRows; ++r) {
      const float x = a[r * lda + q];
      for (int64_t c = 0; c < kWidth; ++c) acc[r][c] = ScalarOps::fma(x, b[c], acc[r][c]);
    }
  }
  for (int r = 0; r < kTileRows; ++r)
    for (int64_t c = 0; c < kWidth; ++c) sums[r][c] = acc[r][c];
}

[[gnu::always_inline]] inline void rows_loop(const float* a, int64_t lda, int64_t rows, const float* strip,
                                             int64_t depth, float (*sums)[kWidth]) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) tile<4>(a + r * lda, lda, strip, depth, sums + r);
  for (; r < rows; ++r) tile<1>(a + r * lda, lda, strip, depth, sums + r);
}

[[gnu::target("avx2,fma")]] void rows_avx2(const float* a, int64_t lda, int64_t rows, const float* strip, int64_t depth,
                                           float (*sums)[kWidth]) {
  rows_loop(a, lda, rows, strip, depth, sums);
}

void rows_any(const float* a, int64_t lda, int64_t rows, const float* strip, int64_t depth, float (*sums)[kWidth]) {
  rows_loop(a, lda, rows, strip, depth, sums);
}

// Columns [j, j + width) of rows [q, q + depth) of B to strip[depth][kWidth], zeros beyond.
void copy_strip(const MatmulProblem& p, const float* b, const PackedB& packed, int64_t q, int64_t depth, int64_t j,
                int64_t width, float* strip) {
  if (width < kWidth) std::memset(strip, 0, static_cast<size_t>(depth * kWidth) * sizeof(float));
  const bool whole_panel = p.b == BLayout::kPacked && packed.width % kWidth == 0;
  if (p.b == BLayout::kNn || whole_panel) {
    const int64_t step = whole_panel ? packed.width : p.row_stride_b();
    const float* from = whole_panel ? b + (j / step * p.k + q) * step + j % step : b + q * step + j;
    for (int64_t i = 0; i < depth; ++i)
      std::memcpy(strip + i * kWidth, from + i * step, static_cast<size_t>(width) * sizeof(float));
    return;
  }
  const bool nt = p.b == BLayout::kNt;
  for (int64_t c = 0; c < width; ++c) {
    const int64_t col = j + c;
    const float* from =
        nt ? b + col * p.row_stride_b() + q : b + ((col / packed.width) * p.k + q) * packed.width + col % packed.width;
    const int64_t step = nt ? 1 : packed.width;
    for (int64_t i = 0; i < depth; ++i) strip[i * kWidth + c] = from[i * step];
  }
}

const math::Activation* activation_of(EpilogueOp op) {
  static constexpr math::Activation kTable[] = {math::Activation::kGeluTanh, math::Activation::kGeluErf,
                                                math::Activation::kSilu, math::Activation::kRelu};
  switch (op) {
    case EpilogueOp::kGeluTanh:
      return &kTable[0];
    case EpilogueOp::kGeluErf:
      return &kTable[1];
    case EpilogueOp::kSilu:
      return &kTable[2];
    case EpilogueOp::kRelu:
      return &kTable[3];
    case EpilogueOp::kBias:
    case EpilogueOp::kGate:
    case EpilogueOp::kResidual:
      return nullptr;
  }
  return nullptr;
}

// v (the sums of one row of the strip) through alpha, beta and the chain, into C at element `at`.
void finish_row(const MatmulProblem& p, const MatmulOperands& o, int64_t j, int64_t at, int64_t width, float* v) {
  if (p.alpha != 1)
    for (int64_t c = 0; c < width; ++c) v[c] = p.alpha * v[c];
  if (p.beta != 0)
    for (int64_t c = 0; c < width; ++c) v[c] = ScalarOps::fma(p.beta, o.c[at + c], v[c]);
  for (EpilogueOp op : p.epilogue) {
    if (const math::Activation* activation = activation_of(op)) {
      math::activate_array(*activation, v, v, width);
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

void run_block(const MatmulProblem& p, const MatmulOperands& o, const PackedB& packed, const Block& block) {
  alignas(64) float strip[kChunk * kWidth];
  alignas(64) float sums[kRows][kWidth] = {};
  const int64_t j = block.strip * kWidth, width = std::min(kWidth, p.n - j);
  if (p.alpha != 0 && p.k > 0) {
    const int64_t lda = p.row_stride_a();
    const float* a = o.a + block.item * p.batch_stride_a() + block.row * lda;
    const float* b = o.b + block.item * (p.b == BLayout::kPacked ? packed.batch_stride : p.batch_stride_b());
    const auto rows = math::cpu_has_avx2_fma() ? rows_avx2 : rows_any;
    for (int64_t q = 0; q < p.k; q += kChunk) {
      const int64_t depth = std::min(kChunk, p.k - q);
      copy_strip(p, b, packed, q, depth, j, width, strip);
      rows(a + q, lda, block.rows, strip, depth, sums);
    }
  }
  for (int64_t r = 0; r < block.rows; ++r) {
    const int64_t at = block.item * p.batch_stride_c() + (block.row + r) * p.row_stride_c() + j;
    finish_row(p, o, j, at, width, sums[r]);
  }
}

}  // namespace

int64_t fallback_strips(const MatmulProblem& p) { return (p.n + kWidth - 1) / kWidth; }

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

}  // namespace hone::matmul
