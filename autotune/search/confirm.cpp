// See confirm.h.
#include "autotune/search/confirm.h"

#include <algorithm>
#include <cmath>

namespace hone::autotune {

double race_noise(Race& race, int candidate, int64_t deadline_ns) {
  const int arms[] = {candidate, candidate};
  for (int round = 0; round < kMostNoiseRounds && !race.stopped(); ++round) {
    if (round >= kFewestNoiseRounds && race.now() + race.expected_ns(arms) > deadline_ns) break;
    race.round(db::Phase::kNoise, arms);
  }
  return noise_bound(race.self_log_ratios(candidate), kConfirmRounds, race.seed());
}

db::Verdict decide(std::span<const double> log_gain, double noise, uint64_t seed) {
  if (log_gain.empty()) return db::Verdict::kTie;
  const Interval gain = median_interval(log_gain, 0.95, seed);
  // The bound was scaled to kConfirmRounds; fewer rounds show less.
  const double rounds = std::min(static_cast<double>(log_gain.size()), static_cast<double>(kConfirmRounds));
  const double bound = std::log1p(noise) * std::sqrt(kConfirmRounds / rounds);
  if (gain.mid > bound && gain.lo > 0) return db::Verdict::kNew;
  if (gain.hi < 0 && gain.mid < -bound) return db::Verdict::kKept;
  return db::Verdict::kTie;
}

namespace {

// Who is to be beaten: the incumbent; the default plan where the incumbent cannot run here (any more); the challenger
// where that cannot either.
int holder(const Race& race, const Finalists& f) {
  if (race.alive(f.incumbent)) return f.incumbent;
  return race.alive(f.fallback) ? f.fallback : f.challenger;
}

Interval as_ratio(const Interval& log) { return {std::exp(log.lo), std::exp(log.mid), std::exp(log.hi)}; }

}  // namespace

Confirmed confirm(Race& race, const Finalists& f, double noise, int64_t deadline_ns) {
  std::vector<int> arms = {f.incumbent};
  for (int c : {f.challenger, f.fallback})
    if (std::find(arms.begin(), arms.end(), c) == arms.end()) arms.push_back(c);
  std::erase_if(arms, [&](int c) { return !race.prepare(c); });

  // Equal warm-up, where it does not cost a round of the decision.
  if (race.now() + (kFewestConfirmRounds + 1) * race.expected_ns(arms) <= deadline_ns) race.warm_up(arms);
  for (int round = 0; round < kConfirmRounds && !race.stopped(); ++round) {
    if (round >= kFewestConfirmRounds && race.now() + race.expected_ns(arms) > deadline_ns) break;
    race.round(db::Phase::kConfirm, arms);
  }

  Confirmed result;
  result.challenger = f.challenger;
  result.gain = {1, 1, 1};
  result.rounds = race.rounds(db::Phase::kConfirm);
  result.winner = holder(race, f);
  if (race.alive(f.challenger) && f.challenger != result.winner) {
    const std::vector<double> gain = race.log_ratios(db::Phase::kConfirm, result.winner, f.challenger);
    result.verdict = decide(gain, noise, race.seed());
    result.gain = as_ratio(median_interval(gain, 0.95, race.seed()));
    if (result.verdict == db::Verdict::kNew) result.winner = f.challenger;
  }
  if (result.winner != f.incumbent) result.verdict = db::Verdict::kNew;
  result.speedup = {1, 1, 1};
  if (!race.alive(result.winner)) return result;  // nobody is left: no time, and so no decision
  result.ns = median(race.times(db::Phase::kConfirm, result.winner));
  result.fallback_ns = median(race.times(db::Phase::kConfirm, f.fallback));
  if (result.winner != f.fallback) {
    result.speedup =
        as_ratio(median_interval(race.log_ratios(db::Phase::kConfirm, f.fallback, result.winner), 0.95, race.seed()));
  }
  return result;
}

}  // namespace hone::autotune
