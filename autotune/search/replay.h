// Tuning again on what was measured before: a Racer over the stored samples of one run, on a clock that is not one. It
// answers what another strategy, order or budget would have chosen, in milliseconds and on any machine.
//
// A replayed round begins with a round that was stored, drawn at random: the time of the baseline in it brings along
// that moment's drift and disturbance. A candidate then takes that time x one of its own stored ratios to the baseline,
// drawn anew (a bootstrap of its rounds), so that the noise between candidates is what it was. What is not kept is how
// long a disturbance lasts: rounds are drawn independently.
//
// The truth that a choice is judged by is the median of all stored ratios. It is the run's own estimate, good for
// candidates that survived long, and it flatters those with few samples; so regrets of a run that was searched
// exhaustively mean more than those of a short one.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "autotune/search/strategy.h"

namespace hone::autotune {

// What one run measured of one problem, as far as it can be replayed.
struct Recording {
  struct Arm {
    db::Candidate candidate;
    std::vector<double> log_ratios;  // to the baseline, of the rounds in which both ran
    double truth = 0;                // their median
  };
  std::vector<Arm> arms;            // of at least one ratio; arms[0] is the baseline
  std::vector<double> baseline_ns;  // by stored round
  std::vector<double> log_self;     // baseline to itself, of noise rounds
  int64_t prepare_ns = 0;           // of one candidate, with all that is not its samples
  int best = 0;                     // lowest truth
};

// Of what Store::samples gave. The baseline is who ran in the noise rounds, else who ran in most. `spent_seconds` is
// what the run took (0: not known). Error: failed_precondition saying what is missing.
using StoredSamples = std::vector<std::pair<db::Candidate, std::vector<db::Sample>>>;
Result<Recording> make_recording(const StoredSamples& samples, double spent_seconds);

struct ReplayTask {
  std::vector<int> order;  // of arms, as a tune would measure them
  double budget_seconds = 10;
  int seeds = 100;
  const std::atomic<bool>* stop = nullptr;  // ends it between two seeds; the result then counts for nothing
};

// Medians and 95th percentiles over seeds.
struct ReplayResult {
  int chosen = 0;                     // the arm that was chosen most often
  double regret = 0, regret_p95 = 0;  // truth of the chosen one over the best, minus 1
  double best_share = 0;              // how often the best was chosen
  double measured = 0, seconds = 0;
};

ReplayResult replay(const Recording& recording, const Strategy& strategy, const ReplayTask& task);

}  // namespace hone::autotune
