// What peers share about attention: argument checks, and the choice between ways, each of which composes it from what
// the library has.
#pragma once

#include <cmath>

#include "bench/peers/peer_internal.h"

namespace hone::peers {

using ListAttentionWays = std::vector<Named<AttentionWay>> (*)(const HonePeerAttention& problem);

// From the first element to one past the last.
inline int64_t elements(const HonePeerAttention& p, const HonePeerStrides& s, int64_t heads, int64_t rows,
                        int64_t width) {
  return (p.batch - 1) * s.batch + (heads - 1) * s.head + (rows - 1) * s.row + width;
}

// Why a problem is refused; null when it is not.
inline const char* refusal(const HonePeerAttention& p) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (std::min({p.batch, p.heads, p.kv_heads, p.q, p.kv, p.d, p.dv}) < 1) return "sizes must be at least 1";
  if (p.heads % p.kv_heads != 0) return "heads must be a multiple of kv_heads";
  if (p.causal != 0 && p.kv < p.q) return "causal: there must be as many keys as queries, as each must see one";
  if (std::min(p.q_stride.row, p.k_stride.row) < p.d) return "a row of Q or K is longer than its stride";
  if (std::min(p.v_stride.row, p.o_stride.row) < p.dv) return "a row of V or O is longer than its stride";
  for (const HonePeerStrides& s : {p.q_stride, p.k_stride, p.v_stride, p.o_stride})
    if (std::min(s.head, s.batch) < 0) return "strides must not be negative";
  if (std::max({p.batch, p.heads, p.q, p.kv, p.d, p.dv}) > kMost)
    return "sizes beyond 2^31 are too large for this library";
  if (!std::isfinite(p.scale)) return "scale must be finite";
  if (p.threads < 1 || p.threads > 4096) return "threads must be 1 to 4096";
  return nullptr;
}

template <ListAttentionWays kList>
Chosen<AttentionWay> choose_attention(const HonePeerAttention& p) {
  const Floats q = zeros(elements(p, p.q_stride, p.heads, p.q, p.d));
  const Floats k = zeros(elements(p, p.k_stride, p.kv_heads, p.kv, p.d));
  const Floats v = zeros(elements(p, p.v_stride, p.kv_heads, p.kv, p.dv));
  const Floats o = zeros(elements(p, p.o_stride, p.heads, p.q, p.dv));
  return fastest<AttentionWay>(
      p.threads,
      [&](int threads) {
        HonePeerAttention on = p;
        on.threads = threads;
        return kList(on);
      },
      [&](AttentionWay& way) { return way.run(q.get(), k.get(), v.get(), o.get()); });
}

template <ListAttentionWays kList, ListWays kMatmul>
void* prepare_attention(const HonePeerAttention* problem, char* error, size_t error_size) {
  return handle_or_reason(error, error_size, [&] {
    if (problem == nullptr) throw std::runtime_error("no problem was given");
    if (const char* why = refusal(*problem)) throw std::runtime_error(why);
    auto handle = std::make_unique<Handle>();
    handle->attention = choose_attention<kList>(*problem);
    if (handle->attention.threads > 1) handle->waker = make_waker<kMatmul>(handle->attention.threads);
    return handle;
  });
}

inline int run_attention(void* handle, const float* q, const float* k, const float* v, float* o) {
  if (handle == nullptr || q == nullptr || k == nullptr || v == nullptr || o == nullptr) return 1;
  const std::unique_ptr<AttentionWay>& way = static_cast<Handle*>(handle)->attention.way;
  try {
    return way == nullptr ? 1 : way->run(q, k, v, o);
  } catch (const std::exception&) {
    return 1;
  }
}

}  // namespace hone::peers
