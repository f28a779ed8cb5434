// The k largest of each row, with their places: [rows, n] -> values f32 and indices s32, both [rows, k].
//
//   order: NaN counts as the largest number; among NaN, and among equal numbers (+0 and -0 are equal), the lower index
//   comes first. A value is the element as it is, but for the payload of a NaN.
//
// One pass over the row for each of the k: made for a router's 8 to 256 experts and small k, bearable for a few
// thousand columns.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "engine/base/isa.h"
#include "engine/base/status.h"
#include "kernels/ir/ir.h"

namespace hone::rows {

inline constexpr int64_t kMaxTopK = 64;
// Indices travel through f32 registers, which hold integers up to 2^24.
inline constexpr int64_t kMaxTopKColumns = int64_t{1} << 24;

struct TopK {
  int64_t n = 1;  // columns
  int64_t k = 1;  // <= n
  bool operator==(const TopK&) const = default;
};

struct TopKArgs {
  int64_t rows = 0;
  const float* x = nullptr;
  int64_t x_stride = 0;  // elements from one row to the next; 0: all rows are one
  float* values = nullptr;
  int64_t values_stride = 0;  // >= k where there are several rows
  int32_t* indices = nullptr;
  int64_t indices_stride = 0;
};

struct TopKArguments {
  std::array<void*, 3> buffers;
  std::array<int64_t, 4> params;
};

// Errors: invalid_argument naming n, k or the argument.
Status validate(const TopK& problem);
Status check(const TopK& problem, const TopKArgs& args);

std::string kernel_name(const TopK& problem, Isa isa);  // "rows_topk_2_of_8_avx512"
// A task is a few rows. Outputs must not share memory with the input.
Result<ir::Kernel> lower(const TopK& problem, Isa isa);
TopKArguments bind(const TopKArgs& args);

// The same by sorting. Error: that of validate() or check().
Status reference(const TopK& problem, const TopKArgs& args);

}  // namespace hone::rows
