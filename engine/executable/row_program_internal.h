// From a dispatch over rows to a row program (kernels/rows) and the places of its operands.
#pragma once

#include <optional>
#include <vector>

#include "engine/executable/step_internal.h"
#include "kernels/rows/program.h"

namespace hone::executable {

// An operand of the program: where a value lies, as the program walks it.
struct RowOperand {
  graph::ValueId value = -1;  // -1: `buffer`, which the plan made
  int buffer = -1;
  graph::Dim offset;                // on top of the value's own
  std::vector<graph::Dim> strides;  // per outer dimension
  graph::Dim column_stride = 1;     // rows::Columns::kStrided
  graph::ValueId table = -1;        // gathered: the indices
  graph::Dim rows;                  // gathered: how many there are
};

struct RowWork {
  rows::RowProgram program;
  graph::Shape extents;               // of the outer dimensions
  std::optional<graph::Dim> columns;  // where they are a parameter
  std::vector<RowOperand> operands;
};

// A dispatch of elementwise ops, norms, softmax, sums over rows, or a copy. Error: unsupported naming the node.
Result<RowWork> row_work(const Preparation& p, const passes::Dispatch& dispatch);

// Outer dimensions that all operands walk alike become one, those of size 1 go. Error: unsupported when more than
// rows::kMaxOuter are left.
Status collapse(RowWork& work, const std::string& node);

// The step that runs it. Error: that of collapse() and of compiling.
Result<std::unique_ptr<Step>> make_rows_step(Preparation& p, RowWork work, const passes::Dispatch& dispatch);

}  // namespace hone::executable
