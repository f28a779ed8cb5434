// See experts_route_internal.h.
#include "engine/experts_route_internal.h"

#include <fmt/format.h>

#include <algorithm>

namespace hone {

Status check_indices(const int32_t* indices, int64_t tokens, int64_t top_k, int64_t experts) {
  for (int64_t i = 0; i < tokens * top_k; ++i)
    if (indices[i] < 0 || indices[i] >= experts)
      return invalid_argument(fmt::format("indices[{}, {}] is {}, and experts are numbered 0 to {}", i / top_k,
                                          i % top_k, indices[i], experts - 1));
  return {};
}

void route(const int32_t* indices, int64_t tokens, int64_t top_k, const ExpertsRoute& out) {
  std::ranges::fill(out.rows, 0);
  for (int64_t i = 0; i < tokens * top_k; ++i) ++out.rows[static_cast<size_t>(indices[i])];
  int64_t rows = 0;
  for (size_t e = 0; e < out.rows.size(); ++e) out.first[e] = rows, rows += out.rows[e];
  // `first` walks to the end of each expert's rows, and back.
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t j = 0; j < top_k; ++j) {
      const int64_t row = out.first[static_cast<size_t>(indices[t * top_k + j])]++;
      out.token[static_cast<size_t>(row)] = static_cast<int32_t>(t);
      out.position[static_cast<size_t>(j * tokens + t)] = static_cast<int32_t>(row);
    }
  }
  for (size_t e = 0; e < out.rows.size(); ++e) out.first[e] -= out.rows[e];
}

void route_dense(const int32_t* indices, int64_t tokens, int64_t top_k, const ExpertsRoute& out) {
  for (size_t e = 0; e < out.rows.size(); ++e) out.rows[e] = tokens, out.first[e] = static_cast<int64_t>(e) * tokens;
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t j = 0; j < top_k; ++j)
      out.position[static_cast<size_t>(j * tokens + t)] = static_cast<int32_t>(indices[t * top_k + j] * tokens + t);
}

}  // namespace hone
