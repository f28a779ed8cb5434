// Which rows each expert works on: the tokens of a call by expert, in the order of tokens, as tables in given memory.
#pragma once

#include <cstdint>
#include <span>

#include "engine/base/status.h"

namespace hone {

struct ExpertsRoute {
  std::span<int64_t> rows;      // of each expert
  std::span<int64_t> first;     // row of each expert, among those of all
  std::span<int32_t> token;     // of each row
  std::span<int32_t> position;  // [top_k][tokens]: the row of a token's j-th expert
};

// indices [tokens, top_k]. Error: invalid_argument naming the first that is no expert.
Status check_indices(const int32_t* indices, int64_t tokens, int64_t top_k, int64_t experts);
// Histogram, its running sum, and the rows one after another. Of indices that have been checked.
void route(const int32_t* indices, int64_t tokens, int64_t top_k, const ExpertsRoute& out);
// For every expert having every token, in the order of tokens: rows and first as those of `tokens` rows each. `token`
// stays as it is.
void route_dense(const int32_t* indices, int64_t tokens, int64_t top_k, const ExpertsRoute& out);

}  // namespace hone
