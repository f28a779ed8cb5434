// The memory that a problem's candidates are measured and checked on: operands.h for attention.
//
// Heads lie one after another, or side by side within the rows where row strides have room for them (as in [b, s, h,
// d]). A paged cache is one pool for all items, its pages in random order. An additive mask is mostly 0, some -1e9 and
// some -inf, a boolean one mostly true. Everything that is not an element is NaN, also the keys that fill up the last
// group of a blocked cache.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/aligned_buffer.h"
#include "engine/base/guarded_buffer.h"
#include "kernels/attention/operands.h"
#include "kernels/attention/problem.h"

namespace hone::autotune {

// Where operands lie: kReal has its pages present; kGuarded ends each operand at a page that faults.
enum class Where : uint8_t { kReal, kGuarded };

class AttentionOperands {
 public:
  // Error: what validate(problem) says; resource_exhausted naming the size.
  static Result<AttentionOperands> create(const attention::AttentionProblem& problem, uint64_t seed, Where where);

  const attention::AttentionProblem& problem() const { return p_; }
  std::span<const attention::Sequence> sequences() const { return sequences_; }

  // Out and lse as before a call: NaN.
  void reset_output() const;
  // data_loss when a byte between the rows of out, or before them, was written since.
  Status check_gaps() const;
  // Bytes that a call reads and writes.
  std::vector<std::span<const std::byte>> ranges() const;

 private:
  struct Memory {
    AlignedBuffer real;
    std::vector<GuardedBuffer> guarded;  // one or none

    std::byte* data() const { return guarded.empty() ? real.data() : guarded.front().data(); }
    int64_t size() const { return guarded.empty() ? real.size() : guarded.front().size(); }
    std::span<float> floats() const {
      return {reinterpret_cast<float*>(data()), static_cast<size_t>(size()) / sizeof(float)};
    }
  };

  AttentionOperands(const attention::AttentionProblem& problem, uint64_t seed, Where where)
      : p_(problem), seed_(seed), where_(where) {}
  Status allocate();
  Status make(Memory& memory, int64_t elements, int64_t bytes);
  void set_strides();
  void fill_query();
  void fill_pages();
  void fill_cache();
  void fill_mask();
  void fill_key(float* head, int64_t key, uint64_t value_of);
  uint64_t random(uint64_t operand, uint64_t at) const;

  attention::AttentionProblem p_;
  uint64_t seed_;
  Where where_;
  attention::Sequence strides_;  // of every item
  int64_t pages_ = 0;            // of one item
  Memory query_, key_, value_, out_, mask_, lse_, table_;
  int64_t query_item_ = 0, key_item_ = 0, value_item_ = 0, out_item_ = 0, mask_item_ = 0, lse_item_ = 0;
  std::vector<attention::Sequence> sequences_;
};

// One row of a sequence as a problem of its own, whose bits and bounds are those of the row: one head, one row, the
// keys up to the last that it sees. Not for rows of a window without causal that see keys behind them.
struct AttentionRow {
  attention::AttentionProblem problem;
  attention::Sequence sequence;  // out and lse are null
};
AttentionRow row_of(const attention::AttentionProblem& problem, const attention::Sequence& sequence, int64_t head,
                    int64_t row);
// Whether row_of can have it.
bool has_row(const attention::AttentionProblem& problem, const attention::Sequence& sequence, int64_t row);

}  // namespace hone::autotune
