// The memory of one attention call: one entry for each sequence of the batch, which may differ in length. Batch items
// never share a kernel argument, so stride 0 (shared K and V) is not a case of its own.
#pragma once

#include <cstdint>

#include "engine/base/status.h"
#include "kernels/attention/problem.h"

namespace hone::attention {

// Element 0 of each operand. Head strides in elements; 0 shares one head's memory (K, V and mask only). Row strides are
// those of the problem. query [heads][q][d], key [kv_heads][kv][d], value [kv_heads][kv][dv], out [heads][q][dv].
struct Sequence {
  int64_t q = 0, kv = 0;
  const float* query = nullptr;
  const float* key = nullptr;    // paged: the pool of pages, key j of a head lies in page page_table[j / page]
  const float* value = nullptr;  // paged: as key, with the same table
  float* out = nullptr;
  const void* mask = nullptr;           // f32 or bytes, element (h, i, j) at h * mask_head + i * mask_row + j
  float* lse = nullptr;                 // element (h, i) at h * lse_head + i
  const int32_t* page_table = nullptr;  // at least ceil(kv / page) entries in [0, pages)
  int64_t q_head = 0, k_head = 0, v_head = 0, o_head = 0;
  int64_t k_page = 0, v_page = 0, pages = 0;  // elements from page to page, pages in the pool
  int64_t mask_head = 0, mask_row = 0;        // 0: shared by heads, by rows
  int64_t lse_head = 0;
  int64_t key_groups = 0;  // KeyLayout::kBlocked, contiguous: groups of kKeyGroup keys that are there, >= ceil(kv / 16)
};

// Strides as they are when heads lie one after another, [heads][rows][row stride], pages [pages][kv_heads][page][..]
// and the mask [q][kv] is shared by the heads. Pointers, q, kv and pages stay. `capacity` > 0: rows of a K and V head
// that is not full.
void set_dense_strides(const AttentionProblem& problem, Sequence& sequence, int64_t capacity = 0);

// Refuses, by name: an operand that is needed but null, negative lengths, a page that the table names and the pool does
// not have (only entries that some row sees are read), and an out or lse whose memory overlaps what is read or each
// other.
Status check_sequence(const AttentionProblem& problem, const Sequence& sequence);

}  // namespace hone::attention
