// Kernels that the tests of this folder share: a blocked matmul with everything the IR has in its loops, and helpers to
// edit and run text.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "kernels/ir/ir.h"

namespace hone::ir {

// C[m, n] = A[m, k] * B, B in panels [ceil(n / 32)][k][32], tasks over blocks of 8 rows and pairs of panels.
struct SampleMatmul {
  int64_t n = 72, k = 37;
  int64_t mc = 8, kc = 20, ku = 4, ncp = 2, mr = 4;
  bool batch = false;       // a parallel loop with runtime strides sa, sc around it
  bool split_tail = false;  // the last panel by an if instead of masks everywhere

  static constexpr int64_t kNr = 32;
  int64_t panels() const { return (n + kNr - 1) / kNr; }
};
Kernel sample_matmul(const SampleMatmul& shape);

// y[i] = a * x[i] + y[i] in tasks of 64 with a masked tail.
extern const char* const kAxpyText;

// y[8*i ..] = row T[i] of x, the rows being `stride` apart: an index that is loaded.
extern const char* const kGatherText;

// y[i] = sum of the bytes x[.., 3 + i].
extern const char* const kBytesText;

// `text` with `from`, which must occur, replaced by `to` (the first occurrence, or all).
std::string edited(std::string text, std::string_view from, std::string_view to, bool all = false);

// Parses; a failure fails the test and returns an empty kernel.
Kernel parsed(const std::string& text);

// Runs all tasks through one Interpreter, with a workspace of NaNs.
void run_all_tasks(const Kernel& kernel, const std::vector<void*>& buffers, const std::vector<int64_t>& params);

}  // namespace hone::ir
