// How the matmuls of routed experts become regions. A pure function of the load of a call: every strategy gives the
// same bits, so only time is at stake.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace hone::plan {

enum class ExpertsStrategy : uint8_t {
  kPerExpert,  // a region for each expert's matmul, with the plan for the rows that this expert has
  kGrouped,    // one region over the tasks of all experts, with the plan for the rows of the busiest
  kDense,      // every expert on every token, in place: nothing is gathered, more may be computed than is used
};
std::string_view strategy_name(ExpertsStrategy strategy);  // "per_expert", "grouped", "dense"

struct ExpertsLoad {
  int64_t tokens = 0;
  std::span<const int64_t> rows;  // of each expert, those with none included
  bool dense_fits = false;        // there is memory for `tokens` rows of every expert
  int threads = 1;
};

struct ExpertsChoice {
  ExpertsStrategy strategy = ExpertsStrategy::kPerExpert;
  std::string_view reason;  // static text
};

ExpertsChoice choose_experts(const ExpertsLoad& load);

}  // namespace hone::plan
