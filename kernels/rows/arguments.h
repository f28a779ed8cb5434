// One call of a row program: its extents and its operands in memory; what reference.h runs on, and what bind() turns
// into the arguments of the kernel that lower.h makes.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/rows/program.h"

namespace hone::rows {

// Strides count elements. Of an output each is > 0 where its extent is above 1; of an input 0 means that all rows along
// the dimension share one.
struct Tensor {
  void* data = nullptr;  // column 0 of row (0, .., 0); inputs are not written
  std::array<int64_t, kMaxOuter> strides{};
  int64_t column_stride = 1;       // kStrided
  const int32_t* table = nullptr;  // gather: extents[gather] indices, each in [0, rows)
  int64_t rows = 0;
};

struct RowArgs {
  std::array<int64_t, kMaxOuter> extents{};
  int64_t n = 0;  // of a program whose n is kRuntime
  std::array<Tensor, kMaxOperands> operands;
};

// The rules of arguments: extents, strides, pointers, and each index of each table. A caller who knows all but the
// tables to be right calls check_table() alone. Errors: invalid_argument naming the operand and the value.
Status check(const RowProgram& program, const RowArgs& args);
Status check_table(const int32_t* table, int64_t count, int64_t rows);

struct Arguments {
  std::array<void*, 2 * kMaxOperands> buffers;
  std::array<int64_t, kMaxOuter + 1 + kMaxOperands*(kMaxOuter + 2)> params;
};

// The arguments of lower(program), of args that check() accepts. Allocates nothing.
void bind(const RowProgram& program, const RowArgs& args, Arguments* out);

}  // namespace hone::rows
