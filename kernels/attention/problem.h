// The attention problem: what is computed, with the static facts that code is generated for.
//
// For query head h of H (it reads KV head g = h / (H / KVH)), query row i of q and key j of kv:
//
//   T[i, j] = sum over p ascending of (scale * Q[h, i, p]) * K[g, j, p]     one chain of fused multiply-adds from +0
//   T[i, j] = softcap * tanh(T[i, j] / softcap)                             if softcap > 0
//   T[i, j] = T[i, j] + mask[i, j]                                          additive mask; boolean: -inf where false
//   m[i]    = max over visible j of T[i, j]                                 -inf when there is none
//   w[i, j] = exp(T[i, j] - m[i]),  l[i] = sum of w[i, j]
//   O[h, i, :] = sum over j ascending of w[i, j] * V[g, j, :] / l[i]        zeros when l[i] = 0
//   lse[h, i]  = m[i] + log(l[i])                                           -inf when l[i] = 0
//
// Visible keys of row i, whose position is i + kv - q (the last row sits at the last key):
//   causal: j <= position. window W: position - W < j, and without causal also j < position + W.
// Keys that are not visible are not read for that row, whatever they hold. A key that only `mask` hides has weight 0:
// its V is multiplied by 0 and must be finite.
//
// Which sums are cut where is the numerics class (program.h); mathematically all are this.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/status.h"

namespace hone::attention {

enum class MaskKind : uint8_t {
  kNone,
  kAdditive,  // f32, added to the scaled (and capped) scores; -inf hides a key
  kBoolean,   // one byte each, 0 hides a key
};

// How K lies in memory, within one KV head (and page).
enum class KeyLayout : uint8_t {
  kRows,     // [kv][d], rows row_stride_k() apart
  kBlocked,  // [kv / 16][d][16]: kKeyGroup keys side by side, so that scores stream. What an engine-owned cache may use
};
inline constexpr int64_t kKeyGroup = 16;

inline constexpr std::array kAttentionDTypes = {DType::kF32};

// Batch items, head strides, mask strides and page strides are arguments of the call (operands.h); q and kv too, but a
// plan may promise less than any: at most the kv of its problem (program.h).
struct AttentionProblem {
  DType dtype = DType::kF32;
  int64_t batch = 1;
  int64_t heads = 1, kv_heads = 1;             // heads is a multiple of kv_heads
  int64_t q = 1, kv = 1;                       // rows of each item, keys of each item
  int64_t d = 0, dv = 0;                       // of Q and K; of V and O. dv = 0 means d
  int64_t ldq = 0, ldk = 0, ldv = 0, ldo = 0;  // elements from row to row; 0 means dense (d or dv). ldk: 0 for blocked
  KeyLayout k = KeyLayout::kRows;
  int64_t page = 0;  // keys in a page of the KV cache; 0: contiguous
  bool causal = false;
  int64_t window = 0;  // 0: none
  MaskKind mask = MaskKind::kNone;
  float softcap = 0;  // 0: none
  float scale = 0;    // 0: 1 / sqrt(d)
  bool lse = false;

  bool operator==(const AttentionProblem&) const = default;

  int64_t group() const { return heads / kv_heads; }  // query heads that share a KV head
  int64_t value_dim() const { return dv ? dv : d; }
  int64_t row_stride_q() const { return ldq ? ldq : d; }
  int64_t row_stride_k() const { return ldk ? ldk : d; }
  int64_t row_stride_v() const { return ldv ? ldv : value_dim(); }
  int64_t row_stride_o() const { return ldo ? ldo : value_dim(); }
  float scale_in_force() const;
  // Pairs (i, j) that are visible, of one head of one item.
  int64_t visible_pairs() const;
  // 2 (d + dv) for each visible pair of every head and item: what is hidden does not count.
  double flops() const;
  // Bytes of K and V that some row sees, once per KV head and item.
  double kv_bytes() const;
};

// Keys that row i sees: [begin, end), empty when begin >= end.
struct Visible {
  int64_t begin = 0, end = 0;
};
Visible visible_keys(const AttentionProblem& problem, int64_t q, int64_t kv, int64_t i);

// invalid_argument naming the field: sizes below 1 (q, kv, batch may be 0), heads no multiple of kv_heads, strides
// below a row, a blocked page that is no multiple of kKeyGroup, softcap or scale not finite, sizes whose byte count
// overflows.
Status validate(const AttentionProblem& problem);

// The one form that parsing yields: dense strides and dv == d as 0, a window that hides nothing (>= kv + q) as none.
AttentionProblem canonical(AttentionProblem problem);

// attention:f32:b=1,hq=32,hkv=8,q=512,kv=512,d=128[,dv=..][,ldq=..][,ldk=..][,ldv=..][,ldo=..][,k=rows|blocked]
// [,page=..][:causal][:window=W][:mask|:boolmask][:softcap=X][:scale=X][:lse]
// "layout=bshd" is read as the row strides of [b, s, h, d] (ldq = hq d, ldk = hkv d, ldv = hkv dv, ldo = hq dv).
std::string to_string(const AttentionProblem& problem);
// Without b, q and kv: problems that differ only in them are one family.
std::string family(const AttentionProblem& problem);
std::string_view problem_grammar();
Result<AttentionProblem> parse_problem(std::string_view text);
// With ranges and lists in b, q and kv, as matmul::parse_problems.
Result<std::vector<AttentionProblem>> parse_problems(std::string_view text);

}  // namespace hone::attention
