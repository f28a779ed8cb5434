// The registry, halving in random order, and the exhaustive strategy: all candidates, equally many rounds, as long as
// there is time. A pass goes in batches, each with the baseline, so that the deadline is met however many candidates
// there are.
#include "autotune/search/strategy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autotune/search/stats.h"

namespace hone::autotune {

std::vector<std::string_view> strategy_names() {
  return {
#define HONE_STRATEGY(row_name, function) row_name,
#include "autotune/search/strategies.inc"
#undef HONE_STRATEGY
  };
}

Result<Strategy> find_strategy(std::string_view name) {
#define HONE_STRATEGY(row_name, function) \
  if (name == row_name) return Strategy{function};
#include "autotune/search/strategies.inc"
#undef HONE_STRATEGY
  return not_found(fmt::format("no search strategy '{}'; there are {}", name, fmt::join(strategy_names(), ", ")));
}

namespace {
// Low, as among survivors with equally many rounds this should not favour who merely varies less.
constexpr double kSureOfBest = 0.5;
}  // namespace

double score(const Race& race, const SearchTask& task, int candidate) {
  if (candidate == task.baseline) return 0;
  return median(race.log_ratios(db::Phase::kSearch, candidate, task.baseline));
}

int best_of(const Race& race, const SearchTask& task, std::span<const int> candidates) {
  int best = task.baseline;
  double lowest = 0;
  for (int c : candidates) {
    if (!race.alive(c) || c == task.baseline) continue;
    const std::vector<double> ratios = race.log_ratios(db::Phase::kSearch, c, task.baseline);
    if (ratios.empty()) continue;
    const double hi = median_interval(ratios, kSureOfBest).hi;
    if (hi < lowest) best = c, lowest = hi;
  }
  return best;
}

SearchResult search_exhaustively(Race& race, const SearchTask& task) {
  constexpr size_t kRounds = 15, kBatch = 8;
  std::vector<int> field;
  bool complete = true;
  auto affordable = [&](int64_t ns) { return !race.stopped() && race.now() + ns <= task.deadline_ns; };
  for (int c : task.order) {
    if (c == task.baseline) continue;
    // All that are prepared must fit into a first pass.
    std::vector<int> arms = field;
    arms.push_back(task.baseline);
    complete = affordable(race.prepare_ns() + race.expected_ns(arms));
    if (!complete) break;
    if (race.prepare(c)) field.push_back(c);
  }
  SearchResult result{.winner = task.baseline};
  for (size_t pass = 0; pass < kRounds && !race.stopped(); ++pass) {
    for (size_t i = 0; i < field.size(); i += kBatch) {
      std::vector<int> arms = {task.baseline};
      for (size_t j = i; j < std::min(i + kBatch, field.size()); ++j)
        if (race.samples(db::Phase::kSearch, field[j]) <= static_cast<int>(pass)) arms.push_back(field[j]);
      if (arms.size() == 1) continue;
      complete = complete && affordable(race.expected_ns(arms));
      if (!affordable(race.expected_ns(arms))) break;
      race.round(db::Phase::kSearch, arms);
    }
    result.winner = best_of(race, task, field);
    if (task.on_progress)
      task.on_progress(static_cast<int>(field.size()), result.winner, std::exp(score(race, task, result.winner)));
  }
  result.complete = complete && !race.stopped();
  return result;
}

// What halving does without a cost model: the difference to it is what the order is worth.
SearchResult search_in_random_order(Race& race, const SearchTask& task) {
  SearchTask shuffled = task;
  race.shuffle(shuffled.order);
  return search_by_halving(race, shuffled);
}

}  // namespace hone::autotune
