// The registry and the exhaustive strategy: all candidates, equally many rounds, as long as there is time.
#include "autotune/search/strategy.h"

#include <fmt/format.h>

#include <algorithm>

#include "autotune/search/stats.h"

namespace hone::autotune {

Result<Strategy> find_strategy(std::string_view name) {
  std::string known;
#define HONE_STRATEGY(row_name, function)          \
  if (name == row_name) return Strategy{function}; \
  known += known.empty() ? row_name : ", " row_name;
#include "autotune/search/strategies.inc"
#undef HONE_STRATEGY
  return not_found(fmt::format("no search strategy '{}'; there are {}", name, known));
}

double score(const Race& race, const SearchTask& task, int candidate) {
  if (candidate == task.baseline) return 0;
  return median(race.log_ratios(db::Phase::kSearch, candidate, task.baseline));
}

int best_of(const Race& race, const SearchTask& task, std::span<const int> candidates) {
  int best = task.baseline;
  double best_score = 0;
  for (int c : candidates) {
    if (!race.alive(c)) continue;
    const double s = score(race, task, c);
    if (s < best_score) best = c, best_score = s;
  }
  return best;
}

SearchResult search_exhaustively(Race& race, const SearchTask& task) {
  constexpr int kRounds = 15;
  std::vector<int> arms = {task.baseline};
  for (int c : task.order) {
    if (race.stopped() || race.now() >= task.deadline_ns) break;
    if (c != task.baseline && race.prepare(c)) arms.push_back(c);
  }
  SearchResult result{.winner = task.baseline, .complete = arms.size() >= task.order.size()};
  for (int round = 0; round < kRounds; ++round) {
    if (round > 0 && race.now() + race.expected_ns(arms) > task.deadline_ns) {
      result.complete = false;
      break;
    }
    if (!race.round(db::Phase::kSearch, arms)) break;
    result.winner = best_of(race, task, arms);
    if (task.on_progress)
      task.on_progress(static_cast<int>(arms.size()), result.winner, score(race, task, result.winner));
  }
  return result;
}

}  // namespace hone::autotune
