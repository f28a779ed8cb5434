// Noise and confirmation: what the first round of the protocol measures, the last one uses.
//
// Confirmation: who was fastest while searching was so partly by luck, so its samples from the search may not say how
// fast it is. The challenger meets the incumbent (and the default plan) in fresh interleaved rounds after equal
// warm-up, and only these rounds enter the decision and the reported times.
#pragma once

#include <span>

#include "autotune/search/race.h"
#include "autotune/search/stats.h"

namespace hone::autotune {

struct Finalists {
  int challenger = 0;
  int incumbent = 0;
  int fallback = 0;  // the default plan
};

struct Confirmed {
  db::Verdict verdict = db::Verdict::kKept;
  int winner = 0;
  double ns = 0, fallback_ns = 0;  // medians of the confirmation rounds; ns is 0 when nobody could run to the end
  Interval speedup;                // default over winner, a ratio
  int challenger = 0;
  Interval gain;  // who was to be beaten over challenger, a ratio, whoever won
  int rounds = 0;
  bool cut_short = false;  // stopped before it could decide: whatever it says, it was not given the time to say it
};

// The rule, by itself: log_gain is log(incumbent / challenger) per round; `noise` is noise_bound for kConfirmRounds and
// grows with the square root when there are fewer. `kNew` when the median gain exceeds the noise bound and its exact
// interval (order_interval with `tail`) excludes 0; `kKept` when the challenger is slower by the same rule; otherwise
// `kTie`. On kTie and kKept the incumbent stays. Fewer rounds than such an interval needs decide only when every one of
// at least kFewestConfirmRounds exceeds the bound.
db::Verdict decide(std::span<const double> log_gain, double noise, double tail);

// Confirmation may end at a few fixed looks, each of which spends its part of the error that a tie may be called a win:
// kTail one-sided, in all.
struct Look {
  int rounds = 0;
  double share = 0;
};
inline constexpr double kTail = 0.005;
inline constexpr Look kLooks[] = {{11, 0.1}, {21, 0.15}, {41, 0.25}, {81, 0.5}};
inline constexpr int kConfirmRounds = 81;  // at most; an odd number has a median that was measured
inline constexpr int kFewestConfirmRounds = 3;

// Races a candidate against itself until the deadline (kFewestNoiseRounds at least, kMostNoiseRounds at most, counting
// those of an earlier process) and returns the noise bound of a comparison of kConfirmRounds.
inline constexpr int kFewestNoiseRounds = 2;
inline constexpr int kMostNoiseRounds = 81;
double race_noise(Race& race, int candidate, int64_t deadline_ns);

// Races until the deadline or kConfirmRounds calm rounds; with `early` it ends at the first look that decides. A
// finalist that is refused on the way cannot win: the default plan takes the place of such an incumbent.
Confirmed confirm(Race& race, const Finalists& finalists, double noise, int64_t deadline_ns, bool early);

}  // namespace hone::autotune
