// The protocol of one tune, on numbered candidates: noise, search, siblings, confirmation, decision. It knows no
// kernel, so the same code decides on this machine, on stored samples, and in the simulations that bound its error
// rates.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "autotune/search/confirm.h"
#include "autotune/search/strategy.h"

namespace hone::autotune {

struct ProtocolTask {
  int fallback = 0;        // the default plan
  int incumbent = 0;       // who is to be beaten
  std::vector<int> order;  // who is searched, most promising first
  // The same program by other means (code generators): raced against the winner of the search.
  std::function<std::vector<int>(int winner)> siblings;
  // When the fallback cannot run, one of these takes its place.
  std::vector<int> substitutes;
  Strategy strategy;
  int64_t begin_ns = 0;  // what happened since then has used its part of the budget
  int64_t budget_ns = 0;
  bool search_all = false;  // the search ends when all candidates are through; the budget then holds for the rest
  std::function<void(std::string_view phase, int left, double ratio)> on_progress;  // may be empty
  std::function<void(double noise_bound)> on_noise;                                 // may be empty
};

struct ProtocolResult {
  int fallback = 0;  // as it was, or its substitute
  int incumbent = 0;
  double noise_bound = 0;
  SearchResult found;
  Confirmed confirmed;
};

// Errors: internal when no candidate can run at all, with the number of those that were tried; unavailable when
// interrupted before that is known.
Result<ProtocolResult> run_protocol(Race& race, const ProtocolTask& task);

}  // namespace hone::autotune
