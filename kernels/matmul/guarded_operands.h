// Operands of one matmul in memory that shows every access which is not its own: each buffer ends at a guard page,
// padding is NaN, and so is C unless beta reads it. What tests and `hone fuzz` (trial.h) run kernels on.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/base/guarded_buffer.h"
#include "engine/base/random.h"
#include "kernels/matmul/bind.h"
#include "kernels/matmul/program.h"
#include "kernels/matmul/reference.h"
#include "kernels/numeric/trial_values.h"

namespace hone::matmul {

class GuardedOperands {
 public:
  // `panel`: width of packed panels, used for b=packed only. `specials`: of 1000 values, how many are NaN, infinite,
  // denormal, zero or huge. `dot`: how B is packed, and the class that C is compared in. Throws std::bad_alloc.
  GuardedOperands(const MatmulProblem& problem, int64_t panel, uint64_t seed, int specials = 0, Dot dot = Dot::kNone);
  GuardedOperands(const GuardedOperands&) = delete;
  GuardedOperands& operator=(const GuardedOperands&) = delete;

  Arguments arguments() const { return bind(problem_, operands_, packed_); }
  const MatmulOperands& operands() const { return operands_; }
  const PackedB& packed() const { return packed_; }

  // C against the scalar chain, bit for bit, and everything around C against its poison.
  Comparison compare_with_reference() const;
  // Makes C what it was before the first run.
  void reset_c();
  std::vector<const GuardedBuffer*> memory() const;

 private:
  using Buffer = std::optional<GuardedBuffer>;
  float* allocate(Buffer& buffer, int64_t elements);
  // [batch][rows][cols] at the given strides.
  float* matrix(Buffer& buffer, int64_t stride, int64_t rows, int64_t cols, int64_t ld, bool fill);
  // B, its elements being of the problem's dtype.
  template <typename Element>
  void make_b(int64_t panel);
  template <typename Element>
  Element next_weight();
  int64_t c_elements() const;

  MatmulProblem problem_;
  Random random_;
  numeric::TrialValues values_;
  int specials_;
  Dot dot_;
  Buffer a_, b_, c_, bias_, gate_, residual_, row_scale_;
  MatmulOperands operands_;
  PackedB packed_;
  std::vector<float> initial_c_;
};

}  // namespace hone::matmul
