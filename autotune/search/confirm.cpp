// See confirm.h.
#include "autotune/search/confirm.h"

#include <algorithm>
#include <cmath>

namespace hone::autotune {

double race_noise(Race& race, int candidate, int64_t deadline_ns) {
  const int arms[] = {candidate, candidate};
  for (int round = race.samples(db::Phase::kNoise, candidate) / 2; round < kMostNoiseRounds && !race.stopped();
       ++round) {
    if (round >= kFewestNoiseRounds && race.now() + race.expected_ns(arms) > deadline_ns) break;
    race.round(db::Phase::kNoise, arms);
  }
  return noise_bound(race.self_log_ratios(candidate), kConfirmRounds);
}

db::Verdict decide(std::span<const double> log_gain, double noise, double tail) {
  if (log_gain.size() < kFewestConfirmRounds) return db::Verdict::kTie;
  const auto rounds = static_cast<double>(log_gain.size());
  const double bound = std::log1p(noise) * std::sqrt(std::max(kConfirmRounds / rounds, 1.0));
  Interval gain = order_interval(log_gain, tail);
  // Too few for the interval: their range must exclude what the bound allows, not only 0.
  double margin = 0;
  if (std::isinf(gain.lo)) {
    const auto [lo, hi] = std::minmax_element(log_gain.begin(), log_gain.end());
    gain.lo = *lo, gain.hi = *hi, margin = bound;
  }
  if (gain.mid > bound && gain.lo > margin) return db::Verdict::kNew;
  if (gain.mid < -bound && gain.hi < -margin) return db::Verdict::kKept;
  return db::Verdict::kTie;
}

namespace {

// Who is to be beaten: the incumbent; the default plan where the incumbent cannot run here (any more); the challenger
// where that cannot either.
int holder(const Race& race, const Finalists& f) {
  if (race.alive(f.incumbent)) return f.incumbent;
  return race.alive(f.fallback) ? f.fallback : f.challenger;
}

constexpr size_t kTellingSearchRounds = 8;
constexpr int kPatience = 2000;  // rounds of a machine that does not become calm
constexpr size_t kLast = std::size(kLooks) - 1;

// Rounds in which both ran, with the calm ones counted: a disturbed machine is given time to become itself again.
int calm_rounds(const Race& race, const Finalists& f) {
  return race.met(db::Phase::kConfirm, holder(race, f), f.challenger).calm;
}

// The decision on the rounds so far. A win must not contradict what the search saw: its rounds chose the challenger and
// so flatter it, but they are spread over more of the machine's moods, and a gain that only the confirmation shows is
// that of its moment.
db::Verdict verdict(const Race& race, const Finalists& f, double noise, size_t look) {
  const int held = holder(race, f);
  const std::vector<double> gain = race.log_ratios(db::Phase::kConfirm, held, f.challenger);
  const db::Verdict decided = decide(gain, noise, kTail * kLooks[look].share);
  if (decided != db::Verdict::kNew) return decided;
  const std::vector<double> searched = race.log_ratios(db::Phase::kSearch, held, f.challenger);
  const bool contradicted = searched.size() >= kTellingSearchRounds && median(searched) <= std::log1p(noise);
  return contradicted ? db::Verdict::kTie : decided;
}

struct Ended {
  size_t look = kLast;
  bool cut_short = false;
};

// Runs the rounds; answers the look at which it ended.
Ended run_rounds(Race& race, const Finalists& f, const std::vector<int>& arms, double noise, int64_t deadline_ns,
                 bool early) {
  size_t look = 0;
  int counted = 0;
  for (int round = 0; round < kPatience && !race.stopped(); ++round) {
    // Where it takes long, counting must not.
    if (round - counted >= round / 16) {
      counted = round;
      const int calm = calm_rounds(race, f);
      for (; look < kLast && calm >= kLooks[look].rounds; ++look)
        if (early && verdict(race, f, noise, look) != db::Verdict::kTie) return {.look = look};
      if (calm >= kConfirmRounds) return {};
    }
    if (round >= kFewestConfirmRounds && race.now() + race.expected_ns(arms) > deadline_ns) return {};
    if (round > 0 && !race.alive(f.challenger) && !race.alive(f.incumbent) && !race.alive(f.fallback)) return {};
    race.round(db::Phase::kConfirm, arms);
  }
  return {.cut_short = race.stopped()};
}

// 95% over all looks at which it may be told; the range where rounds are too few for that.
Interval told(const std::vector<double>& log_ratios, size_t look) {
  Interval log = order_interval(log_ratios, 0.025 * kLooks[look].share);
  if (std::isinf(log.lo)) {
    const auto [lo, hi] = std::minmax_element(log_ratios.begin(), log_ratios.end());
    log.lo = *lo, log.hi = *hi;
  }
  return ratio_of(log);
}

}  // namespace

Confirmed confirm(Race& race, const Finalists& f, double noise, int64_t deadline_ns, bool early) {
  std::vector<int> arms = {f.incumbent};
  for (int c : {f.challenger, f.fallback})
    if (std::find(arms.begin(), arms.end(), c) == arms.end()) arms.push_back(c);
  std::erase_if(arms, [&](int c) { return !race.prepare(c); });

  // Equal warm-up, where it does not cost a round of the decision.
  if (race.now() + (kFewestConfirmRounds + 1) * race.expected_ns(arms) <= deadline_ns) race.warm_up(arms);
  const auto [look, cut_short] = run_rounds(race, f, arms, noise, deadline_ns, early);

  Confirmed result;
  result.challenger = f.challenger;
  result.gain = {1, 1, 1};
  result.rounds = race.rounds(db::Phase::kConfirm);
  result.cut_short = cut_short;
  result.winner = holder(race, f);
  if (race.alive(f.challenger) && f.challenger != result.winner) {
    const std::vector<double> gain = race.log_ratios(db::Phase::kConfirm, result.winner, f.challenger);
    result.verdict = verdict(race, f, noise, look);
    if (!gain.empty()) result.gain = told(gain, look);
    if (result.verdict == db::Verdict::kNew) result.winner = f.challenger;
  }
  if (result.winner != f.incumbent) result.verdict = db::Verdict::kNew;
  result.speedup = {1, 1, 1};
  if (!race.alive(result.winner)) return result;  // nobody is left: no time, and so no decision
  result.ns = median(race.times(db::Phase::kConfirm, result.winner));
  result.fallback_ns = median(race.times(db::Phase::kConfirm, f.fallback));
  const std::vector<double> faster = race.log_ratios(db::Phase::kConfirm, f.fallback, result.winner);
  if (result.winner != f.fallback && !faster.empty()) result.speedup = told(faster, look);
  return result;
}

}  // namespace hone::autotune
