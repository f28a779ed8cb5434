// One sequence of attention in memory that shows every access which is not its own: guard pages, NaN in every gap. What
// tests and `hone fuzz` (trial.h) run kernels on.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/base/guarded_buffer.h"
#include "engine/base/random.h"
#include "kernels/attention/reference.h"
#include "kernels/numeric/trial_values.h"

namespace hone::attention {

// What is wanted; what is not named is random by the seed.
struct SequenceStyle {
  bool dense = false;   // set_dense_strides; else heads woven into rows where they fit, gaps, shared heads and masks
  bool bad_key = true;  // sometimes one key holds NaN: rows that see it are NaN, others do not notice
  int specials = 0;     // of 1000 values of Q, K and (without a mask) V: NaN, infinite, denormal, zero or huge
};

// Each buffer ends (or begins) at a guard page. NaN, or an entry that is no page, is everything that the contract says
// is not read: padding, keys that no row sees, pages that the table does not name, masks of hidden pairs. Out and lse
// are NaN before a run. Constructors throw std::bad_alloc.
class GuardedSequence {
 public:
  GuardedSequence(const AttentionProblem& problem, int64_t q, int64_t kv, uint64_t seed, SequenceStyle style = {});
  GuardedSequence(const AttentionProblem& problem, uint64_t seed)
      : GuardedSequence(problem, problem.q, problem.kv, seed) {}

  // What check_sequence() says: anything but ok is a fault of this class.
  const Status& checked() const { return checked_; }
  const AttentionProblem& problem() const { return problem_; }
  const Sequence& sequence() const { return sequence_; }
  // For who plants values.
  float* query() { return query_; }
  float& key(int64_t g, int64_t j, int64_t c);
  float& value(int64_t g, int64_t j, int64_t c);
  float* mask() { return mask_; }

  GuardedSequence(const GuardedSequence&) = delete;
  GuardedSequence& operator=(const GuardedSequence&) = delete;

  // The memory of out and lse as class_f32 leaves it.
  struct Expected {
    std::vector<float> out, lse;
  };
  Expected expected(std::string_view numerics) const;
  // Out and lse bit for bit, and the gaps between them against their poison.
  Comparison compare(const Expected& want) const;
  Comparison compare_with_class(std::string_view numerics) const { return compare(expected(numerics)); }
  // Out and lse as before the first run.
  void reset();
  std::vector<const GuardedBuffer*> memory() const;

 private:
  using Buffer = std::optional<GuardedBuffer>;
  float* allocate(Buffer& buffer, int64_t elements);
  void choose_strides(bool dense);
  int64_t head_stride(int64_t rows, int64_t row, int64_t heads, int64_t width);
  void make_pages();
  void make_keys_and_values();
  void make_query();
  void make_mask();
  void fill_mask_row(int64_t h, int64_t i, const Visible& visible);
  void poison_a_key();
  int64_t page_base(int64_t j, int64_t stride) const;
  int64_t below(int64_t n) { return random_.below(n); }
  float uniform() { return random_.uniform(-1, 1); }

  AttentionProblem problem_;
  Random random_;
  numeric::TrialValues values_;
  Guard guard_;
  Buffer query_buffer_, key_buffer_, value_buffer_, out_buffer_, mask_buffer_, lse_buffer_, table_buffer_;
  float* query_ = nullptr;
  float* key_ = nullptr;
  float* value_ = nullptr;
  float* mask_ = nullptr;
  Visible seen_;  // keys that some row sees
  Status checked_;
  Sequence sequence_;
};

}  // namespace hone::attention
