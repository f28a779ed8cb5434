// A search strategy chooses what to race until it has one challenger. It never decides whether the challenger wins:
// that is confirm.h's business, in fresh rounds.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "autotune/search/race.h"

namespace hone::autotune {

struct SearchTask {
  std::vector<int> order;  // candidates, most promising first; the baseline is among them or not
  int baseline = 0;        // runs in every round, so that candidates that never met are comparable through it
  int64_t deadline_ns = 0;
  int64_t settle_ns = 0;  // a search that is over before then goes on: so far it has seen one moment of the machine
  // Told after each step: candidates still racing or waiting, the leader, its time over the baseline's.
  std::function<void(int left, int leader, double ratio)> on_progress;
};

struct SearchResult {
  int winner = 0;
  bool complete = false;  // every candidate was raced and the ties were broken, not cut off by the deadline
};

struct Strategy {
  SearchResult (*run)(Race& race, const SearchTask& task);
};

std::vector<std::string_view> strategy_names();
// Error: not_found listing the names.
Result<Strategy> find_strategy(std::string_view name);

// What all strategies share. Score of a candidate: median log-ratio to the baseline (negative: faster).
double score(const Race& race, const SearchTask& task, int candidate);
// Who is surely good: the lowest upper end of the interval of the score, so that one lucky look is not enough.
int best_of(const Race& race, const SearchTask& task, std::span<const int> candidates);

#define HONE_STRATEGY(name, function) SearchResult function(Race& race, const SearchTask& task);
#include "autotune/search/strategies.inc"
#undef HONE_STRATEGY

}  // namespace hone::autotune
