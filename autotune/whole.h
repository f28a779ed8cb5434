// Which tuned plans a whole may keep. A plan that wins alone may cost where it is part of something: its operands come
// from other caches, the threads come from other work, and weights lie as another part wants them. So the whole runs
// with default plans and with tuned ones, in turns, its parts are timed while it does, and who costs there is taken
// back. Times in, names out: nothing here runs or reads anything.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "autotune/search/stats.h"

namespace hone::autotune {

// Times of the same rounds with default plans and with tuned ones.
struct PairedTimes {
  std::vector<double> by_default, tuned;
};
// Default over tuned: the median over rounds and its 95% interval; {0, 1, infinity} of no rounds. To be shown.
Interval speedup_of(const PairedTimes& times);
// The same with the exact interval of the sign test, which misses the true median with probability `tail` at most on
// each side; {0, median, infinity} of fewer rounds than can say so, or than kFewestRounds. To decide by.
Interval sure_speedup_of(const PairedTimes& times, double tail);
inline constexpr size_t kFewestRounds = 7;
// Its upper end is below 1, and the median below what the spread of the rounds makes of two equal plans.
bool surely_slower(const PairedTimes& times, double tail);

// All calls of one problem in each work of the whole (a prompt, an answer).
struct WholePart {
  std::string problem;
  std::string layout;                   // parts with the same text share packed weights
  bool tuned = false;                   // runs another plan than by default
  bool relaid = false;                  // and reads weights that are packed in another way
  std::vector<PairedTimes> works = {};  // by work; without rounds where it does not run
};

enum class Cause { kItself, kLayout, kWork };
struct TakenBack {
  size_t part = 0, work = 0;  // the work in which it costs
  Cause cause = Cause::kItself;
  Interval speedup = {};  // of the part in that work, of the one that suffers from the layout, or of the work
};

// For each of `questions` in each of `passes`, so that a whole trial takes something back with a chance of 5% at most
// where all plans are equal.
double tail_of_each(size_t questions, int passes);
// From which one round that points the other way spoils nothing; kFewestRounds at least.
size_t rounds_for(double tail);

// Who goes back to the default plan, `works` being the times of the whole, where nobody is surely slower by chance of
// `tail` (tail_of_each):
// - a tuned part that is surely slower itself in a work, and does not gain more in the others (one call of a prompt is
//   not held against thousands of an answer); where its weights are packed in another way, every tuned part of that
//   layout, as whoever chose it is to blame (kItself, kLayout);
// - if there is none, of each work that is surely slower the tuned parts that look slower, or, where none does, the
//   half of its tuned parts that takes most of the time (kWork).
// Each call takes back at least one part or says that there is none to blame, so that whoever measures anew after each
// ends with plans that do not cost, or with default ones.
std::vector<TakenBack> take_back(const std::vector<PairedTimes>& works, const std::vector<WholePart>& parts,
                                 double tail);
// When there is no time to ask any further: whoever is slower itself, and every tuned part of a work that is surely
// slower, with its layout.
std::vector<TakenBack> take_all_back(const std::vector<PairedTimes>& works, const std::vector<WholePart>& parts,
                                     double tail);

}  // namespace hone::autotune
