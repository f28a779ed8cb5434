// One element of an operand, wherever it lies. For the references: nothing here is fast.
#pragma once

#include <cstdint>

#include "kernels/attention/operands.h"
#include "kernels/attention/problem.h"

namespace hone::attention {

inline float query_element(const AttentionProblem& p, const Sequence& s, int64_t h, int64_t i, int64_t c) {
  return s.query[h * s.q_head + i * p.row_stride_q() + c];
}

// Key j of query head h.
inline float key_element(const AttentionProblem& p, const Sequence& s, int64_t h, int64_t j, int64_t c) {
  int64_t at = h / p.group() * s.k_head;
  if (p.page > 0) {
    at += s.page_table[j / p.page] * s.k_page;
    j %= p.page;
  }
  if (p.k == KeyLayout::kRows) return s.key[at + j * p.row_stride_k() + c];
  return s.key[at + (j / kKeyGroup * p.d + c) * kKeyGroup + j % kKeyGroup];
}

inline float value_element(const AttentionProblem& p, const Sequence& s, int64_t h, int64_t j, int64_t c) {
  int64_t at = h / p.group() * s.v_head;
  if (p.page > 0) {
    at += s.page_table[j / p.page] * s.v_page;
    j %= p.page;
  }
  return s.value[at + j * p.row_stride_v() + c];
}

// What an additive mask adds to the score.
inline float mask_element(const Sequence& s, int64_t h, int64_t i, int64_t j) {
  return static_cast<const float*>(s.mask)[h * s.mask_head + i * s.mask_row + j];
}

// Does a boolean mask hide the key? Its score is -inf then, whatever Q and K hold.
inline bool hidden_by_bytes(const AttentionProblem& p, const Sequence& s, int64_t h, int64_t i, int64_t j) {
  return p.mask == MaskKind::kBoolean && static_cast<const uint8_t*>(s.mask)[h * s.mask_head + i * s.mask_row + j] == 0;
}

}  // namespace hone::attention
