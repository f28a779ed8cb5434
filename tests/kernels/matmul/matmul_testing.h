// What tests of matmul share: operands in guarded memory with NaN in every gap, random problems, random legal programs.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "engine/base/guarded_buffer.h"
#include "kernels/matmul/bind.h"
#include "kernels/matmul/program.h"
#include "kernels/matmul/reference.h"

namespace hone::matmul {

// Operands of one problem. Each buffer ends at a guard page; padding is NaN; C is NaN unless beta reads it.
class TestOperands {
 public:
  // `panel`: width of packed panels, used for b=packed only.
  TestOperands(const MatmulProblem& problem, int64_t panel, uint64_t seed);

  Arguments arguments() const { return bind(problem_, operands_, packed_.batch_stride); }
  const MatmulOperands& operands() const { return operands_; }
  const PackedB& packed() const { return packed_; }

  // C against the scalar chain, bit for bit, and everything around C against its poison.
  Comparison compare_with_reference() const;
  // Makes C what it was before the first run.
  void reset_c();

 private:
  using Buffer = std::optional<GuardedBuffer>;
  float* allocate(Buffer& buffer, int64_t elements);
  // [batch][rows][cols] at the given strides.
  float* matrix(Buffer& buffer, int64_t stride, int64_t rows, int64_t cols, int64_t ld, bool fill);
  void make_b(int64_t panel);
  int64_t c_elements() const;

  MatmulProblem problem_;
  std::mt19937_64 rng_;
  Buffer a_, b_, c_, bias_, gate_, residual_;
  MatmulOperands operands_;
  PackedB packed_;
  std::vector<float> initial_c_;
};

struct ProblemLimits {
  int64_t max_m, max_n, max_k;
};
// Any layout, row strides, batch (with shared operands), alpha, beta and epilogue chain; sizes favour the edges of
// tiles.
MatmulProblem random_problem(uint64_t seed, const ProblemLimits& limits);

// A legal program for the problem, small blocks, any knob. `isa`: one of them, else any.
TransformProgram random_program(const MatmulProblem& problem, uint64_t seed, std::optional<Isa> isa = {});

}  // namespace hone::matmul
