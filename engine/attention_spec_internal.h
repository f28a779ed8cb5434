// From the public description of an attention, and of one sequence of a call, to what kernels are made for and take.
#pragma once

#include "hone/attention.hpp"
#include "kernels/attention/operands.h"
#include "kernels/attention/problem.h"

namespace hone {

// A checked AttentionSpec.
struct AttentionForm {
  attention::AttentionProblem problem;  // q = kv = 0, batch as the spec has it; K and V as attention reads them
  HeadLayout layout = HeadLayout::kHeadsFirst;
  bool cache = false;
  int64_t append_ldk = 0, append_ldv = 0;  // of rows for the cache

  // From head to head: one after another, or side by side in a row.
  int64_t head_stride(int64_t rows, int64_t row, int64_t dim) const {
    return layout == HeadLayout::kRowsFirst ? dim : rows * row;
  }
};

// `keys` is what KeyLayout::kChosen means. Error: invalid_argument naming the field.
Result<AttentionForm> form_of(const AttentionSpec& spec, KeyLayout keys);

// Strides of -1 filled in; K and V of a cache are left to it. Error: invalid_argument naming the operand.
Result<attention::Sequence> sequence_of(const AttentionForm& form, const AttentionSequence& sequence);

}  // namespace hone
