// What a tune prints: a row or an object a problem.
#pragma once

#include <optional>
#include <vector>

#include "autotune/tune.h"
#include "tools/hone/json.h"
#include "tools/hone/table.h"

namespace hone::cli {

struct TuneRow {
  autotune::TuneReport report;
  double ceiling_gflops = 0;  // what the winner's threads could do at most, measured right after it; 0: not known
  bool resumed = false;       // decided by an earlier process of the session
  // --exhaustive: the tune that measured everything, with the report's winner as its incumbent.
  std::optional<autotune::TuneReport> exhaustive;
};

// A problem without elements needs no decision of the store's.
bool is_decided(const autotune::TuneReport& report);
// The fastest of everything, as far as can be told: what met the choice in the end, or the choice itself.
const autotune::TunedPlan& best_of_all(const autotune::TuneReport& exhaustive);
// By how much the best of all is faster than what the ordinary tune chose (0.02: 2%); never under 0, as the choice is
// one of them.
double regret(const autotune::TuneReport& exhaustive);

Table report_table(const std::vector<TuneRow>& rows);
Json report_json(const TuneRow& row);

}  // namespace hone::cli
