// See race.h.
#include "autotune/search/race.h"

#include <algorithm>
#include <cmath>

namespace hone::autotune {
namespace {

constexpr int64_t kStepNs = 200'000'000;

}  // namespace

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
  if (!state.ready) eliminate(candidate, prepared);
  return state.ready;
}

void Race::drop(int candidate) {
  State& state = states_[candidate];
  if (state.ready) racer_.release(candidate);
  state.ready = false;
}

void Race::restore(const Earlier& earlier) {
  for (const RoundSample& s : earlier.samples) {
    std::vector<Round>& rounds = rounds_[static_cast<size_t>(s.sample.phase)];
    const auto number = static_cast<size_t>(s.sample.round);
    if (rounds.size() <= number) rounds.resize(number + 1);
    rounds[number].emplace(s.candidate, s.sample.ns);
    states_[s.candidate].sampled = true;
  }
  for (int candidate : earlier.dead) states_[candidate].dead = true;
}

bool Race::round(db::Phase phase, std::span<const int> arms) {
  std::vector<int> order;
  for (int candidate : arms)
    if (alive(candidate)) order.push_back(candidate);
  std::shuffle(order.begin(), order.end(), random_);
  std::vector<RoundSample> samples;
  // Ctrl-C must not wait for a long round, nor the progress line.
  for (size_t i = 0; i < order.size() && !stopped();) {
    size_t count = 0;
    int64_t expected = 0;
    while (i + count < order.size() && (count == 0 || expected < kStepNs)) {
      const int next[] = {order[i + count++]};
      expected += expected_ns(next);
    }
    time_arms(phase, std::span(order).subspan(i, count), &samples);
    i += count;
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
  std::vector<int> living;
  for (int candidate : arms)
    if (alive(candidate)) living.push_back(candidate);
  // What they took, or that one was refused, will show in the rounds that follow.
  if (!living.empty() && !stopped()) (void)racer_.round(living);
}

void Race::time_arms(db::Phase phase, std::span<const int> order, std::vector<RoundSample>* samples) {
  const std::vector<Timing> timings = racer_.round(order);
  const auto number = static_cast<int64_t>(rounds_[static_cast<size_t>(phase)].size());
  for (size_t i = 0; i < timings.size(); ++i) {
    int64_t ns = 0;
    if (!settle(order[i], timings[i], &ns)) continue;
    samples->push_back(
        {order[i], {.round = number, .order = static_cast<int>(samples->size()), .ns = ns, .phase = phase}});
  }
}

bool Race::settle(int candidate, Timing timing, int64_t* ns) {
  if (!alive(candidate)) return false;  // the same arm was out in this very round
  auto zero = [](Timing& t) {
    if (t.outcome == db::Outcome::kMeasured && t.ns <= 0)
      t = {.wall_ns = t.wall_ns, .outcome = db::Outcome::kRefused, .detail = "a time of 0"};
  };
  zero(timing);
  if (timing.outcome == db::Outcome::kRefused) {
    const int alone[] = {candidate};
    timing = racer_.round(alone).front();
    zero(timing);
  }
  if (timing.outcome != db::Outcome::kMeasured) {
    eliminate(candidate, {timing.outcome, timing.detail});
    return false;
  }
  State& state = states_[candidate];
  state.wall_ns = timing.wall_ns;
  state.sampled = true;
  *ns = timing.ns;
  return true;
}

void Race::eliminate(int candidate, const Prepared& why) {
  State& state = states_[candidate];
  state.dead = true;
  state.ready = false;
  if (Status s = hooks_.on_outcome(candidate, why); !s.ok()) status_ = s;
  racer_.release(candidate);
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
