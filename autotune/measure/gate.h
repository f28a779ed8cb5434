// The correctness gate: no candidate is timed before its results are known to be right.
//
// What is checked, for every candidate:
//  1. On guarded memory, with as few rows as still have the candidate's whole tile and its row tail (mr + m mod mr): an
//     access past the last element of A, C, bias, gate, residual, row_scale (and of B up to 4 MiB) faults; C starts as
//     NaN, gaps of A, B and C are NaN; afterwards every element of C is compared and every gap of C must be untouched.
//  2. On the operands that will be timed, with all rows and under the schedule that will be timed: the same comparison.
//
// What an output is compared with: rows that an earlier candidate has produced are compared with that output, every
// element, bit for bit. Rows that are new are compared with the naive reference: all elements where that is at most
// kReferenceWork multiply-adds, else all of the last columns (where tails are), the first ones and random others, in
// the first, the last and random rows. When two candidates disagree about an element, the reference decides who is
// wrong.
#pragma once

#include <string>
#include <vector>

#include "autotune/measure/operands.h"

namespace hone::autotune {

class OutputCheck {
 public:
  // Of candidates that multiply by `dot`: those of another class have other bits.
  OutputCheck(const Operands& operands, uint64_t seed, matmul::Dot dot = matmul::Dot::kNone);

  // Checks C of a problem with shape.m <= m rows. Error: data_loss naming the element, what it is and what it should
  // be. `refuted` is set when the reference sides with this candidate against what was agreed so far: whoever passed
  // before must be checked again.
  Status check(const matmul::MatmulProblem& shape, std::span<const float> c, bool* refuted);

 private:
  Status check_gaps(const matmul::MatmulProblem& shape, std::span<const float> c) const;
  Status check_new_rows(const matmul::MatmulProblem& shape, std::span<const float> c);
  Cells sample(int64_t item, int64_t first_row, int64_t end_row);

  const Operands& operands_;
  uint64_t state_;
  matmul::Dot dot_;
  int64_t agreed_rows_ = 0;    // of every item
  std::vector<float> agreed_;  // [batch][m][n]
};

}  // namespace hone::autotune
