// Row programs on guarded memory: the reference in one copy, a kernel in another, and every byte of both compared.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "engine/base/guarded_buffer.h"
#include "kernels/ir/ir.h"
#include "kernels/rows/arguments.h"

namespace hone::rows {

// How one operand lies in memory. Rows are `pad` elements further apart than they are long; what no row holds is NaN.
struct Style {
  int64_t pad = 0;
  unsigned shared_rows = 0;   // bit d: stride 0 along outer dimension d
  int64_t column_stride = 3;  // kStrided
  int64_t table_rows = 5;     // gather
  int same_as = -1;           // the memory of this operand
};

struct RowCase {
  RowProgram program;
  std::array<int64_t, kMaxOuter> extents{};
  int64_t n = 0;
  std::vector<Style> styles;  // by operand; missing ones are as Style() is
  int specials = 20;          // of 1000 inputs: NaN, infinities, zeros, denormals
  std::string text() const;   // for messages
};

// The operands of a case, filled by its seed; equal seeds give equal memory.
class RowMemory {
 public:
  RowMemory(const RowCase& test, uint64_t seed);
  const RowArgs& args() const { return args_; }
  // "" when every element is as in `expected` and nothing around was written; else the first difference.
  std::string difference(const RowMemory& expected) const;

 private:
  struct Held {
    GuardedBuffer memory;
    DType dtype;
  };
  int64_t place(size_t operand, const RowCase& test);

  RowArgs args_;
  std::vector<Held> held_;
  std::vector<std::vector<int32_t>> tables_;
};

// Lowers for every instruction set, verifies, and runs with each code generator that runs here, and in the interpreter
// for those that do not; expects the reference's bits. A difference fails the calling test.
void expect_like_reference(const RowCase& test, uint64_t seed);

// Runs every task of a kernel in turn. `mirrored`: from the last to the first.
void run_kernel(const ir::Kernel& kernel, const RowCase& test, RowMemory& memory, bool mirrored = false);

}  // namespace hone::rows
