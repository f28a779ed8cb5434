// A part is up to kRows rows of one head, which go through the keys in blocks of 256. For a block, 16 keys at a time
// are transposed into a small buffer (k=blocked: read in place) that all rows share, and give scores; each row's scores
// become weights in place; then the weights meet V, four rows at a time over the keys that all four see. O grows in
// the output itself: sums carried through memory change no bit.
//
// `ordered` needs the maximum of all keys before the first weight. Its scores are computed twice instead of stored, so
// that nothing is allocated.
#include "kernels/attention/fallback.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention/program.h"
#include "kernels/math/array_math.h"
#include "kernels/math/scalar_ops.h"

namespace hone::attention {
namespace {

using math::Activation;
using math::ScalarOps;

constexpr int64_t kLanes = kKeyGroup;  // keys of a strip, columns of a value tile, chains of l
constexpr int64_t kRows = 32;          // scores: 32 x 256 floats = 32 KiB; a transposed key serves 32 rows
constexpr int64_t kBlock = kDefaultKeyBlock;
constexpr int64_t kChunk = 256;  // of d; a strip of keys: 256 x 16 floats = 16 KiB
constexpr float kInf = std::numeric_limits<float>::infinity();
static_assert(kBlock % kLanes == 0);

// 16 keys, elements of one key kLanes apart; rows of `sums` are kBlock apart.
struct ScoreTask {
  const float* query;
  int64_t row_stride, rows;
  float scale;
  const float* strip;
  int64_t depth;
  float* sums;
};

template <int kTileRows>
[[gnu::always_inline]] inline void score_tile(const ScoreTask& t, int64_t row) {
  float acc[kTileRows][kLanes];
  for (int r = 0; r < kTileRows; ++r)
    for (int64_t c = 0; c < kLanes; ++c) acc[r][c] = t.sums[(row + r) * kBlock + c];
  for (int64_t p = 0; p < t.depth; ++p) {
    const float* k = t.strip + p * kLanes;
#pragma GCC unroll 4
    for (int r = 0; r < kTileRows; ++r) {
      const float x = t.scale * t.query[(row + r) * t.row_stride + p];
      for (int64_t c = 0; c < kLanes; ++c) acc[r][c] = ScalarOps::fma(x, k[c], acc[r][c]);
    }
  }
  for (int r = 0; r < kTileRows; ++r)
    for (int64_t c = 0; c < kLanes; ++c) t.sums[(row + r) * kBlock + c] = acc[r][c];
}

[[gnu::always_inline]] inline void score_rows(const ScoreTask& t) {
  int64_t row = 0;
  for (; row + 4 <= t.rows; row += 4) score_tile<4>(t, row);
  for (; row < t.rows; ++row) score_tile<1>(t, row);
}

// O[r] += sum over keys ascending of w[r][key] V[key]; rows of w are kBlock apart.
struct ValueTask {
  const float* weights;
  const float* values;
  int64_t value_stride, keys;
  float* out;
  int64_t out_stride, columns;
};

template <int kTileRows>
[[gnu::always_inline]] inline void value_tile(const ValueTask& t, int64_t column, int64_t width) {
  float acc[kTileRows][kLanes] = {};
  for (int r = 0; r < kTileRows; ++r)
    for (int64_t c = 0; c < width; ++c) acc[r][c] = t.out[r * t.out_stride + column + c];
  for (int64_t j = 0; j < t.keys; ++j) {
    const float* v = t.values + j * t.value_stride + column;
#pragma GCC unroll 4
    for (int r = 0; r < kTileRows; ++r) {
      const float w = t.weights[r * kBlock + j];
      for (int64_t c = 0; c < width; ++c) acc[r][c] = ScalarOps::fma(w, v[c], acc[r][c]);
    }
  }
  for (int r = 0; r < kTileRows; ++r)
    for (int64_t c = 0; c < width; ++c) t.out[r * t.out_stride + column + c] = acc[r][c];
}

template <int kTileRows>
[[gnu::always_inline]] inline void value_columns(const ValueTask& t) {
  int64_t column = 0;
  for (; column + kLanes <= t.columns; column += kLanes) value_tile<kTileRows>(t, column, kLanes);
  if (column < t.columns) value_tile<kTileRows>(t, column, t.columns - column);
}

[[gnu::target("avx2,fma")]] void scores_avx2(const ScoreTask& t) { score_rows(t); }
void scores_any(const ScoreTask& t) { score_rows(t); }
[[gnu::target("avx2,fma")]] void values4_avx2(const ValueTask& t) { value_columns<4>(t); }
void values4_any(const ValueTask& t) { value_columns<4>(t); }
[[gnu::target("avx2,fma")]] void values1_avx2(const ValueTask& t) { value_columns<1>(t); }
void values1_any(const ValueTask& t) { value_columns<1>(t); }

// Keys of a block that a row sees, counted from the block's start; empty when begin >= end.
Visible within(const Visible& keys, int64_t block) {
  return {std::max<int64_t>(keys.begin - block, 0), std::min(keys.end - block, kBlock)};
}
int64_t strips_begin(const Visible& keys) { return keys.begin / kLanes * kLanes; }
int64_t strips_end(const Visible& keys) { return (keys.end + kLanes - 1) / kLanes * kLanes; }

float safe(float m) { return ScalarOps::max(-std::numeric_limits<float>::max(), m); }

float exp_weight(float x) {
  ScalarOps ops;
  return math::exp_nonpositive(ops, x);
}

class Part {
 public:
  Part(const AttentionProblem& p, const Sequence& s, int64_t head, int64_t first, int64_t rows)
      : p_(p), s_(s), head_(head), first_(first), rows_(rows), avx2_(math::cpu_has_avx2_fma()) {
    for (int64_t r = 0; r < rows_; ++r) {
      visible_[r] = visible_keys(p_, s_.q, s_.kv, first_ + r);
      m_[r] = -kInf;
      std::fill_n(out(r), p_.value_dim(), 0.0F);
    }
    // The ends move up from row to row.
    seen_ = {visible_[0].begin, visible_[rows_ - 1].end};
  }

  void run(FallbackClass numerics) {
    const bool ordered = numerics == FallbackClass::kOrdered;
    if (ordered) {
      each_block([this](int64_t block) {
        for (int64_t r = 0; r < rows_; ++r) maximum(r, within(visible_[r], block));
      });
    }
    each_block([this, ordered](int64_t block) {
      for (int64_t r = 0; r < rows_; ++r) weights(r, within(visible_[r], block), ordered);
      values(block);
    });
    for (int64_t r = 0; r < rows_; ++r) finish(r);
  }

 private:
  float* out(int64_t r) const { return s_.out + head_ * s_.o_head + (first_ + r) * p_.row_stride_o(); }
  float* scores(int64_t r) { return scores_ + r * kBlock; }
  int64_t page(int64_t j) const { return s_.page_table[j / p_.page]; }

  // body(first key) with the scores of the block in place: capped and masked where a row sees the key, -inf in what
  // else its strips hold.
  template <typename Body>
  void each_block(const Body& body) {
    for (int64_t block = seen_.begin / kBlock * kBlock; block < seen_.end; block += kBlock) {
      const Visible keys = within(seen_, block);
      for (int64_t j = strips_begin(keys); j < keys.end; j += kLanes) score_strip(block + j, j);
      for (int64_t r = 0; r < rows_; ++r) transform(r, block, within(visible_[r], block));
      body(block);
    }
  }

  void score_strip(int64_t key, int64_t at) {
    for (int64_t r = 0; r < rows_; ++r) std::fill_n(scores(r) + at, kLanes, 0.0F);
    const float* query = s_.query + head_ * s_.q_head + first_ * p_.row_stride_q();
    for (int64_t p = 0; p < p_.d; p += kChunk) {
      const int64_t depth = std::min(kChunk, p_.d - p);
      const ScoreTask task{query + p, p_.row_stride_q(), rows_, p_.scale_in_force(), strip(key, p, depth),
                           depth,     scores_ + at};
      avx2_ ? scores_avx2(task) : scores_any(task);
    }
  }

  // Elements [p, p + depth) of keys [key, key + 16), transposed. Keys that no row sees are not read.
  const float* strip(int64_t key, int64_t p, int64_t depth) {
    const int64_t head = head_ / p_.group() * s_.k_head;
    if (p_.k == KeyLayout::kBlocked) {
      const int64_t base = p_.page > 0 ? page(key) * s_.k_page : 0, row = p_.page > 0 ? key % p_.page : key;
      return s_.key + base + head + (row / kLanes * p_.d + p) * kLanes;
    }
    for (int64_t c = 0; c < kLanes; ++c) {
      const int64_t j = key + c;
      if (j < seen_.begin || j >= seen_.end) {
        for (int64_t q = 0; q < depth; ++q) strip_[q * kLanes + c] = 0;
        continue;
      }
      const int64_t base = p_.page > 0 ? page(j) * s_.k_page : 0, row = p_.page > 0 ? j % p_.page : j;
      const float* from = s_.key + base + head + row * p_.row_stride_k() + p;
      for (int64_t q = 0; q < depth; ++q) strip_[q * kLanes + c] = from[q];
    }
    return strip_;
  }

  void transform(int64_t r, int64_t block, const Visible& keys) {
    if (keys.begin >= keys.end) return;
    float* t = scores(r);
    const int64_t begin = strips_begin(keys), end = strips_end(keys);
    if (p_.softcap > 0) {
      for (int64_t j = begin; j < end; ++j) t[j] = t[j] / p_.softcap;
      math::activate_array(Activation::kTanh, t + begin, t + begin, end - begin);
      for (int64_t j = begin; j < end; ++j) t[j] = p_.softcap * t[j];
    }
    const int64_t at = head_ * s_.mask_head + (first_ + r) * s_.mask_row + block;
    if (p_.mask == MaskKind::kAdditive) {
      const float* mask = static_cast<const float*>(s_.mask) + at;
      for (int64_t j = keys.begin; j < keys.end; ++j) t[j] = t[j] + mask[j];
    } else if (p_.mask == MaskKind::kBoolean) {
      const uint8_t* mask = static_cast<const uint8_t*>(s_.mask) + at;
      for (int64_t j = keys.begin; j < keys.end; ++j) t[j] = mask[j] != 0 ? t[j] : -kInf;
    }
    std::fill(t + begin, t + keys.begin, -kInf);
    std::fill(t + keys.end, t + end, -kInf);
  }

  void maximum(int64_t r, const Visible& keys) {
    if (keys.begin >= keys.end) return;
    const float* t = scores(r);
    float top[kLanes];
    std::fill_n(top, kLanes, m_[r]);
    for (int64_t j = strips_begin(keys); j < keys.end; j += kLanes)
      for (int64_t c = 0; c < kLanes; ++c) top[c] = ScalarOps::max(top[c], t[j + c]);
    for (float x : top) m_[r] = ScalarOps::max(m_[r], x);
  }

  // Scores become weights. `ordered`: m is known, and nothing was summed before.
  void weights(int64_t r, const Visible& keys, bool ordered) {
    if (keys.begin >= keys.end) return;
    if (!ordered) {
      const float old = m_[r];
      maximum(r, keys);
      const float alpha = exp_weight(old - safe(m_[r]));
      for (float& l : l_[r]) l = l * alpha;
      for (int64_t c = 0; c < p_.value_dim(); ++c) out(r)[c] = out(r)[c] * alpha;
    }
    const float from = safe(m_[r]);
    float* t = scores(r);
    const int64_t begin = strips_begin(keys), end = strips_end(keys);
    for (int64_t j = begin; j < end; ++j) t[j] = t[j] - from;
    math::activate_array(Activation::kExpNonPositive, t + begin, t + begin, end - begin);
    for (int64_t j = begin; j < end; j += kLanes)
      for (int64_t c = 0; c < kLanes; ++c) l_[r][c] = l_[r][c] + t[j + c];
  }

  // Four rows together over the keys that all of them see; those before and after, which only some see, row by row.
  void values(int64_t block) {
    int64_t r = 0;
    for (; r + 4 <= rows_; r += 4) {
      const Visible all = within({visible_[r + 3].begin, visible_[r].end}, block);
      if (all.begin >= all.end) {
        for (int64_t i = r; i < r + 4; ++i) value_keys(i, block, within(visible_[i], block), false);
        continue;
      }
      for (int64_t i = r; i < r + 4; ++i) value_keys(i, block, {within(visible_[i], block).begin, all.begin}, false);
      value_keys(r, block, all, true);
      for (int64_t i = r; i < r + 4; ++i) value_keys(i, block, {all.end, within(visible_[i], block).end}, false);
    }
    for (; r < rows_; ++r) value_keys(r, block, within(visible_[r], block), false);
  }

  // Row r, or rows r to r + 3; keys in runs that lie together.
  void value_keys(int64_t r, int64_t block, const Visible& keys, bool four) {
    const int64_t head = head_ / p_.group() * s_.v_head;
    for (int64_t j = keys.begin; j < keys.end;) {
      const int64_t key = block + j;
      const int64_t base = p_.page > 0 ? page(key) * s_.v_page : 0, row = p_.page > 0 ? key % p_.page : key;
      const int64_t run = p_.page > 0 ? std::min(keys.end - j, p_.page - row) : keys.end - j;
      const ValueTask task{scores(r) + j,
                           s_.value + base + head + row * p_.row_stride_v(),
                           p_.row_stride_v(),
                           run,
                           out(r),
                           p_.row_stride_o(),
                           p_.value_dim()};
      if (four) {
        avx2_ ? values4_avx2(task) : values4_any(task);
      } else {
        avx2_ ? values1_avx2(task) : values1_any(task);
      }
      j += run;
    }
  }

  void finish(int64_t r) {
    float* l = l_[r];
    for (int64_t half = kLanes / 2; half >= 4; half /= 2)
      for (int64_t c = 0; c < half; ++c) l[c] = l[c] + l[c + half];
    const float sum = (l[0] + l[2]) + (l[1] + l[3]);
    const float inverse = sum == 0 ? 0 : 1 / sum;
    for (int64_t c = 0; c < p_.value_dim(); ++c) out(r)[c] = out(r)[c] * inverse;
    if (!p_.lse) return;
    s_.lse[head_ * s_.lse_head + first_ + r] =
        sum == 0 ? -kInf : m_[r] + math::scalar_activation(Activation::kLog, sum);
  }

  const AttentionProblem& p_;
  const Sequence& s_;
  const int64_t head_, first_, rows_;
  const bool avx2_;
  Visible visible_[kRows];
  Visible seen_;
  float m_[kRows];
  float l_[kRows][kLanes] = {};
  alignas(64) float scores_[kRows * kBlock];
  alignas(64) float strip_[kChunk * kLanes];
};

int64_t row_blocks(const Sequence& s) { return (s.q + kRows - 1) / kRows; }

}  // namespace

int64_t fallback_parts(const AttentionProblem& p, const Sequence& s) { return p.heads * row_blocks(s); }

void fallback_attention(const AttentionProblem& p, const Sequence& s, FallbackClass numerics, int64_t begin,
                        int64_t end) {
  for (int64_t part = begin; part < end; ++part) {
    const int64_t first = part % row_blocks(s) * kRows;
    Part(p, s, part / row_blocks(s), first, std::min(kRows, s.q - first)).run(numerics);
  }
}

}  // namespace hone::attention
