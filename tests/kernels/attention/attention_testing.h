// What tests of attention share: one sequence in guarded memory with NaN in every gap, random problems.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string_view>
#include <vector>

#include "engine/base/guarded_buffer.h"
#include "kernels/attention/program.h"
#include "kernels/attention/reference.h"

namespace hone::attention {

// What a test wants to be unusual; what it does not name is random by the seed.
struct SequenceStyle {
  bool dense = false;   // set_dense_strides; else heads woven into rows where they fit, gaps, shared heads and masks
  bool bad_key = true;  // sometimes one key holds NaN: rows that see it are NaN, others do not notice
};

// Operands of one sequence. Each buffer ends (or begins) at a guard page. NaN, or an entry that is no page, is
// everything that the contract says is not read: padding, keys that no row sees, pages that the table does not name,
// masks of hidden pairs. Out and lse are NaN before a run.
class TestSequence {
 public:
  TestSequence(const AttentionProblem& problem, int64_t q, int64_t kv, uint64_t seed, SequenceStyle style = {});
  TestSequence(const AttentionProblem& problem, uint64_t seed) : TestSequence(problem, problem.q, problem.kv, seed) {}

  const AttentionProblem& problem() const { return problem_; }
  const Sequence& sequence() const { return sequence_; }
  // For tests that plant values.
  float* query() { return query_; }
  float& key(int64_t g, int64_t j, int64_t c);
  float& value(int64_t g, int64_t j, int64_t c);
  float* mask() { return mask_; }

  // Out and lse against class_f32, bit for bit, and the gaps between them against their poison.
  Comparison compare_with_class(std::string_view numerics) const;
  // Out and lse as before the first run.
  void reset();

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
  int64_t below(int64_t n) { return static_cast<int64_t>(rng_() % static_cast<uint64_t>(n)); }
  float uniform() { return std::uniform_real_distribution<float>(-1, 1)(rng_); }

  AttentionProblem problem_;
  std::mt19937_64 rng_;
  Guard guard_;
  Buffer query_buffer_, key_buffer_, value_buffer_, out_buffer_, mask_buffer_, lse_buffer_, table_buffer_;
  float* query_ = nullptr;
  float* key_ = nullptr;
  float* value_ = nullptr;
  float* mask_ = nullptr;
  Visible seen_;  // keys that some row sees
  Sequence sequence_;
};

struct ProblemLimits {
  int64_t max_q, max_kv, max_d;
};
// Any heads, head sizes, strides, layouts, pages, visibility, mask and options; sizes favour edges of blocks and tiles.
AttentionProblem random_problem(uint64_t seed, const ProblemLimits& limits);

// A legal program for the problem, small blocks and tiles, any knob; none when chance finds none.
std::optional<AttentionProgram> random_program(const AttentionProblem& problem, uint64_t seed, Isa isa);

}  // namespace hone::attention
