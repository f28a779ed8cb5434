// See race.h.
#include "autotune/search/race.h"

#include <algorithm>
#include <cmath>

namespace hone::autotune {

Race::Race(Racer& racer, Clock& clock, uint64_t seed, Hooks hooks)
    : racer_(racer), clock_(clock), random_(seed), hooks_(std::move(hooks)) {}

bool Race::alive(int candidate) const {
  const auto at = states_.find(candidate);
  return at != states_.end() && at->second.ready && !at->second.dead;
}

bool Race::prepare(int candidate) {
  State& state = states_[candidate];
  if (state.dead) return false;
  if (state.ready) return true;
  const int64_t begin = clock_.now_ns();
  const Prepared prepared = racer_.prepare(candidate);
  prepare_total_ += clock_.now_ns() - begin;
  ++prepared_;
  state.prepared = true;
  state.ready = prepared.outcome == db::Outcome::kMeasured;
  if (state.ready) return true;
  state.dead = true;
  if (Status s = hooks_.on_outcome(candidate, prepared); !s.ok()) status_ = s;
  racer_.release(candidate);
  return false;
}

void Race::drop(int candidate) {
  State& state = states_[candidate];
  if (state.ready) racer_.release(candidate);
  state.ready = false;
}

bool Race::round(db::Phase phase, std::span<const int> arms) {
  std::vector<int> order(arms.begin(), arms.end());
  std::shuffle(order.begin(), order.end(), random_);
  std::vector<RoundSample> samples;
  for (size_t i = 0; i < order.size() && !stopped(); ++i) {
    sample(phase, order[i], static_cast<int>(i), &samples);
    if (hooks_.on_step) hooks_.on_step();
  }
  // A round that was cut short still has pairs in it.
  Round& round = rounds_[static_cast<size_t>(phase)].emplace_back();
  for (const RoundSample& s : samples) round.emplace(s.candidate, s.sample.ns);
  if (!samples.empty()) {
    if (Status s = hooks_.on_round(samples); !s.ok()) status_ = s;
  }
  return !stopped();
}

void Race::warm_up(std::span<const int> arms) {
  for (int candidate : arms) {
    if (!alive(candidate) || stopped()) continue;
    // What it took, or that it was refused, will show in the rounds that follow.
    (void)racer_.sample(candidate);
  }
}

bool Race::sample(db::Phase phase, int candidate, int order, std::vector<RoundSample>* samples) {
  if (!alive(candidate)) return false;
  State& state = states_[candidate];
  Status refused;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const int64_t begin = clock_.now_ns();
    Result<int64_t> ns = racer_.sample(candidate);
    state.wall_ns = clock_.now_ns() - begin;
    if (ns.ok() && *ns > 0) {
      const auto number = static_cast<int64_t>(rounds_[static_cast<size_t>(phase)].size());
      samples->push_back({candidate, {.round = number, .order = order, .ns = *ns, .phase = phase}});
      state.sampled = true;
      return true;
    }
    refused = ns.ok() ? internal_error("a time of 0") : ns.status();
  }
  state.dead = true;
  if (Status s = hooks_.on_outcome(candidate, {db::Outcome::kRefused, refused.message()}); !s.ok()) status_ = s;
  racer_.release(candidate);
  return false;
}

int64_t Race::expected_ns(std::span<const int> arms) const {
  int64_t known = 0, sum = 0;
  for (int arm : arms) {
    const auto at = states_.find(arm);
    if (at == states_.end() || at->second.wall_ns == 0) continue;
    ++known;
    sum += at->second.wall_ns;
  }
  return known == 0 ? 0 : sum * static_cast<int64_t>(arms.size()) / known;
}

std::vector<double> Race::log_ratios(db::Phase phase, int x, int y) const {
  std::vector<double> ratios;
  for (const Round& round : rounds_[static_cast<size_t>(phase)]) {
    const auto a = round.find(x), b = round.find(y);
    if (a == round.end() || b == round.end()) continue;
    ratios.push_back(std::log(static_cast<double>(a->second) / static_cast<double>(b->second)));
  }
  return ratios;
}

std::vector<double> Race::self_log_ratios(int candidate) const {
  std::vector<double> ratios;
  for (const Round& round : rounds_[static_cast<size_t>(db::Phase::kNoise)]) {
    const auto [first, last] = round.equal_range(candidate);
    if (std::distance(first, last) < 2) continue;
    ratios.push_back(std::log(static_cast<double>(first->second) / static_cast<double>(std::next(first)->second)));
  }
  return ratios;
}

std::vector<double> Race::times(db::Phase phase, int candidate) const {
  std::vector<double> times;
  for (const Round& round : rounds_[static_cast<size_t>(phase)])
    for (auto [at, last] = round.equal_range(candidate); at != last; ++at)
      times.push_back(static_cast<double>(at->second));
  return times;
}

int Race::measured() const {
  return static_cast<int>(
      std::count_if(states_.begin(), states_.end(), [](const auto& s) { return s.second.sampled; }));
}

}  // namespace hone::autotune
