// What follows from a program's steps: the type of each value, and the passes over a row. Shared by all who read
// programs.
#pragma once

#include <vector>

#include "kernels/rows/program.h"

namespace hone::rows {

enum class ValueType : uint8_t { kNone, kF32, kS32, kMask };

struct ValueInfo {
  ValueType type = ValueType::kNone;
  bool per_row = false;
  int pass = 0;  // the first pass in which it is known; of a store, the one that does it
};

// A pass is one loop over the columns; a reduction's result is known from the next pass on. Values that several passes
// need are computed in each.
struct RowPlan {
  std::vector<ValueInfo> values;          // by step
  std::vector<std::vector<int>> per_row;  // by pass: steps that are done once a row, before the columns
  std::vector<std::vector<int>> columns;  // by pass: steps in the loop, reductions and stores included
};

Result<RowPlan> make_plan(const RowProgram& program);

inline bool is_store(const Step& step) { return step.op == StepOp::kStore; }
inline bool is_constant(const Step& step) { return step_info(step.op).family == StepFamily::kConst; }
inline bool is_reduction(const Step& step) { return step_info(step.op).family == StepFamily::kReduce; }
inline bool has_two_parts(Columns columns) { return columns == Columns::kHalves || columns == Columns::kPairs; }

}  // namespace hone::rows
