// Top-k by a stable sort, and the rules of its arguments.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/rows/topk.h"

namespace hone::rows {

Status check(const TopK& problem, const TopKArgs& args) {
  auto wrong = [](const std::string& what) { return invalid_argument("top-k: " + what); };
  if (args.rows < 0) return wrong(fmt::format("rows is {}", args.rows));
  if (args.rows == 0) return {};
  if (args.x == nullptr || args.values == nullptr || args.indices == nullptr) return wrong("an operand is null");
  if (args.x_stride < 0) return wrong(fmt::format("the stride of x is {}", args.x_stride));
  for (const int64_t stride : {args.values_stride, args.indices_stride})
    if (stride < 0 || (args.rows > 1 && stride < problem.k))
      return wrong(fmt::format("the stride of an output is {}, expected {} at least", stride, problem.k));
  return {};
}

Status reference(const TopK& problem, const TopKArgs& args) {
  HONE_RETURN_IF_ERROR(validate(problem));
  HONE_RETURN_IF_ERROR(check(problem, args));
  for (int64_t r = 0; r < args.rows; ++r) {
    const float* x = args.x + r * args.x_stride;
    std::vector<int32_t> order(static_cast<size_t>(problem.n));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      if (std::isnan(x[a]) || std::isnan(x[b])) return std::isnan(x[a]) && !std::isnan(x[b]);
      return x[a] > x[b];
    });
    for (int64_t k = 0; k < problem.k; ++k) {
      const int32_t at = order[static_cast<size_t>(k)];
      args.values[r * args.values_stride + k] = x[at];
      args.indices[r * args.indices_stride + k] = at;
    }
  }
  return {};
}

}  // namespace hone::rows
