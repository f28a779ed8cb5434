// See experts_policy.h.
#include "engine/plan/experts_policy.h"

#include <algorithm>

namespace hone::plan {
namespace {

// What reading an expert's weights costs, in rows: m=1, 4 and 16 rows of n=5632, k=1024, packed, one thread of a Zen 4
// VM, take 0.54, 0.72 and 1.63 ms.
constexpr int64_t kWeightsInRows = 6;

int64_t cost(int64_t rows) { return rows == 0 ? 0 : kWeightsInRows + rows; }

}  // namespace

std::string_view strategy_name(ExpertsStrategy strategy) {
  switch (strategy) {
    case ExpertsStrategy::kPerExpert:
      return "per_expert";
    case ExpertsStrategy::kGrouped:
      return "grouped";
    case ExpertsStrategy::kDense:
      return "dense";
  }
  return "?";
}

ExpertsChoice choose_experts(const ExpertsLoad& load) {
  int64_t hit = 0, routed = 0;
  for (const int64_t rows : load.rows) hit += rows > 0 ? 1 : 0, routed += cost(rows);
  if (load.dense_fits && static_cast<int64_t>(load.rows.size()) * cost(load.tokens) <= routed)
    return {ExpertsStrategy::kDense, "every expert has every token: nothing to gather"};
  if (hit <= 1) return {ExpertsStrategy::kPerExpert, "one expert has all rows: its matmul is shared out by itself"};
  if (load.threads <= 1) return {ExpertsStrategy::kPerExpert, "one thread: each expert runs the plan for its own rows"};
  return {ExpertsStrategy::kGrouped, "several experts and threads: one region, whoever is free takes the next task"};
}

}  // namespace hone::plan
