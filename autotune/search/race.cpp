// See race.h.
#include "autotune/search/race.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "autotune/search/stats.h"

namespace hone::autotune {
namespace {

constexpr int64_t kStepNs = 200'000'000;
// Twice what jitter and a step of the clock within a round leave between two calls of one kernel on a busy virtual
// machine; a false alarm costs one sample, so it need not be rarer.
const double kSuspicious = std::log(1.15);
constexpr size_t kUsual = 9;
// Clocks swing by 10-15% without favouring anybody; a neighbour costs 30% and more.
const double kDisturbed = std::log(1.18);
// Which pace is calm: that of the fastest eighth of the time, for a machine that is undisturbed less than that has
// nothing to say.
constexpr double kCalmShare = 0.125;
// What lasts longer than this is what the machine is: a clock that turbo has left, a neighbour who stays.
constexpr double kMemorySeconds = 6;

}  // namespace

Race::Race(Racer& racer, Clock& clock, uint64_t seed, Hooks hooks)
    : racer_(racer), clock_(clock), random_(seed), hooks_(std::move(hooks)) {}

Race::State& Race::state(int candidate) {
  const auto index = static_cast<size_t>(candidate);
  if (states_.size() <= index) states_.resize(index + 1);
  return states_[index];
}

const Race::State* Race::find(int candidate) const {
  const auto index = static_cast<size_t>(candidate);
  return index < states_.size() ? &states_[index] : nullptr;
}

bool Race::alive(int candidate) const {
  const State* s = find(candidate);
  return s != nullptr && s->ready && !s->dead;
}

bool Race::dead(int candidate) const {
  const State* s = find(candidate);
  return s != nullptr && s->dead;
}

bool Race::prepare(int candidate) {
  State& at = state(candidate);
  if (at.dead) return false;
  if (at.ready) return true;
  const int64_t begin = clock_.now_ns();
  const Prepared prepared = racer_.prepare(candidate);
  prepare_total_ += clock_.now_ns() - begin;
  ++prepared_;
  at.ready = prepared.outcome == db::Outcome::kMeasured;
  if (!at.ready) eliminate(candidate, prepared);
  return at.ready;
}

void Race::drop(int candidate) {
  State& at = state(candidate);
  if (at.ready) racer_.release(candidate);
  at.ready = false;
}

void Race::restore(const Earlier& earlier) {
  for (int candidate : earlier.dead) state(candidate).dead = true;
  std::vector<RoundSample> samples = earlier.samples;
  // As they happened: noise, search, confirmation.
  auto when = [](const RoundSample& s) {
    const int phase = s.sample.phase == db::Phase::kNoise ? 0 : s.sample.phase == db::Phase::kSearch ? 1 : 2;
    return std::tuple(phase, s.sample.round, s.sample.order);
  };
  std::sort(samples.begin(), samples.end(),
            [&](const RoundSample& a, const RoundSample& b) { return when(a) < when(b); });
  for (auto first = samples.begin(); first != samples.end();) {
    const db::Sample& at = first->sample;
    const auto last = std::find_if(first, samples.end(), [&](const RoundSample& s) {
      return s.sample.phase != at.phase || s.sample.round != at.round;
    });
    keep(at.phase, static_cast<size_t>(at.round), std::span(first, last));
    first = last;
  }
}

bool Race::round(db::Phase phase, std::span<const int> arms) {
  std::vector<int> order;
  for (int candidate : arms)
    if (alive(candidate)) order.push_back(candidate);
  shuffle(order);
  std::vector<RoundSample> samples;
  // Ctrl-C must not wait for a long round, nor the progress line.
  for (size_t i = 0; i < order.size() && !stopped();) {
    size_t count = 0;
    int64_t expected = 0;
    while (i + count < order.size() && (count == 0 || expected < kStepNs)) {
      const int next[] = {order[i + count++]};
      expected += expected_ns(next);
    }
    time_arms(std::span(order).subspan(i, count), &samples);
    i += count;
    if (hooks_.on_step) hooks_.on_step();
  }
  take_again_what_is_suspicious(&samples);
  // A round that was cut short still has pairs in it.
  const size_t number = paces_[static_cast<size_t>(phase)].size();
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i].sample.phase = phase;
    samples[i].sample.round = static_cast<int64_t>(number);
    samples[i].sample.order = static_cast<int>(i);
  }
  if (samples.empty()) return !stopped();
  keep(phase, number, samples);
  hooks_.on_round(samples);
  return !stopped();
}

void Race::warm_up(std::span<const int> arms) {
  std::vector<int> living;
  for (int candidate : arms)
    if (alive(candidate)) living.push_back(candidate);
  // What they took, or that one was refused, will show in the rounds that follow.
  if (!living.empty() && !stopped()) (void)racer_.round(living);
}

void Race::time_arms(std::span<const int> order, std::vector<RoundSample>* samples) {
  const std::vector<Timing> timings = racer_.round(order);
  for (size_t i = 0; i < timings.size(); ++i) {
    int64_t ns = 0;
    if (settle(order[i], timings[i], &ns)) samples->push_back({order[i], {.ns = ns}});
  }
}

// The median over arms of how much longer than usual they took; where no arm (but `except`) has a past, the last one.
// Those speak that were seen often: what is usual for a newcomer was itself judged by the pace, so that letting it vote
// would let errors feed on themselves.
double Race::pace(std::span<const RoundSample> samples, int except) const {
  size_t most = 1;
  for (const RoundSample& s : samples)
    if (s.candidate != except) most = std::max(most, states_[static_cast<size_t>(s.candidate)].usual.size());
  scratch_.clear();
  for (const RoundSample& s : samples) {
    const State& at = states_[static_cast<size_t>(s.candidate)];
    if (s.candidate != except && 2 * at.usual.size() >= most)
      scratch_.push_back(std::log(static_cast<double>(s.sample.ns)) - at.level);
  }
  return scratch_.empty() ? last_pace_ : median_of(scratch_);
}

// Faster than it ever is; or, at first sight, than anybody is.
bool Race::suspicious(int candidate, int64_t ns, double pace) const {
  const State& at = states_[static_cast<size_t>(candidate)];
  if (!any_level_) return false;
  const double usual = at.usual.empty() ? best_ : at.level;
  return std::log(static_cast<double>(ns)) - pace < usual - kSuspicious;
}

// The first is kept where the second agrees, as it belongs to its round; else the second stands, as if the first had
// never been.
void Race::take_again_what_is_suspicious(std::vector<RoundSample>* samples) {
  const double all = pace(*samples, -1);
  for (size_t i = 0; i < samples->size();) {
    RoundSample& s = (*samples)[i];
    // Its own haste must not excuse it; but the others' pace is computed for few only.
    if (stopped() || !suspicious(s.candidate, s.sample.ns, all + kSuspicious / 2) ||
        !suspicious(s.candidate, s.sample.ns, pace(*samples, s.candidate))) {
      ++i;
      continue;
    }
    const int alone[] = {s.candidate};
    int64_t again = 0;
    if (!settle(s.candidate, racer_.round(alone).front(), &again)) {
      std::erase_if(*samples, [c = alone[0]](const RoundSample& other) { return other.candidate == c; });
      i = 0;
      continue;
    }
    const double apart = std::log(static_cast<double>(again) / static_cast<double>(s.sample.ns));
    if (apart > kSuspicious / 2) s.sample.ns = again;
    ++i;
  }
}

void Race::learn_what_is_calm(double pace, double seconds) {
  const PaceFor now{pace, seconds};
  recent_.push_back(now);
  sorted_paces_.insert(std::upper_bound(sorted_paces_.begin(), sorted_paces_.end(), now), now);
  seconds_ += seconds;
  while (seconds_ - recent_.front().second > kMemorySeconds) {
    seconds_ -= recent_.front().second;
    sorted_paces_.erase(std::lower_bound(sorted_paces_.begin(), sorted_paces_.end(), recent_.front()));
    recent_.pop_front();
  }
  double fastest = 0;
  for (const auto& [its_pace, took] : sorted_paces_) {
    calm_below_ = its_pace + kDisturbed;
    if ((fastest += took) > kCalmShare * seconds_) return;
  }
}

void Race::keep(db::Phase phase, size_t number, std::span<const RoundSample> samples) {
  std::vector<double>& paces = paces_[static_cast<size_t>(phase)];
  for (const RoundSample& s : samples) (void)state(s.candidate);
  last_pace_ = pace(samples, -1);
  if (paces.size() <= number) paces.resize(number + 1, last_pace_);
  paces[number] = last_pace_;
  double seconds = 0;
  for (const RoundSample& s : samples) seconds += static_cast<double>(s.sample.ns) * 1e-9;
  learn_what_is_calm(last_pace_, seconds);
  for (const RoundSample& s : samples) {
    State& at = states_[static_cast<size_t>(s.candidate)];
    const double log_ns = std::log(static_cast<double>(s.sample.ns));
    at.entries[static_cast<size_t>(phase)].push_back({static_cast<int>(number), s.sample.ns, log_ns});
    if (at.usual.size() < kUsual) {
      at.usual.push_back(log_ns - last_pace_);
    } else if (last_pace_ < calm_below_) {
      at.usual[at.next++ % kUsual] = log_ns - last_pace_;
    } else {
      continue;  // what is usual is not learned on a disturbed machine
    }
    scratch_ = at.usual;
    at.level = median_of(scratch_);
  }
  any_level_ = false;
  for (const State& at : states_) {
    if (at.dead || at.usual.empty()) continue;
    best_ = any_level_ ? std::min(best_, at.level) : at.level;
    any_level_ = true;
  }
}

bool Race::calm(db::Phase phase, int round) const {
  return paces_[static_cast<size_t>(phase)][static_cast<size_t>(round)] < calm_below_;
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
  // One sample that an interrupt made long must not make a round look unaffordable.
  int64_t& wall = state(candidate).wall_ns;
  wall = wall == 0 ? timing.wall_ns : std::min(timing.wall_ns, 2 * wall);
  *ns = timing.ns;
  return true;
}

void Race::eliminate(int candidate, const Prepared& why) {
  State& at = state(candidate);
  at.ready = false;
  if (why.outcome == db::Outcome::kRefused && stopped()) return racer_.release(candidate);
  at.dead = true;
  hooks_.on_outcome(candidate, why);
  racer_.release(candidate);
}

int64_t Race::expected_ns(std::span<const int> arms) const {
  int64_t known = 0, sum = 0;
  for (int arm : arms) {
    const State* at = find(arm);
    if (at == nullptr || at->wall_ns == 0) continue;
    ++known;
    sum += at->wall_ns;
  }
  return known == 0 ? 0 : sum * static_cast<int64_t>(arms.size()) / known;
}

template <typename Visit>
void Race::for_each_meeting(db::Phase phase, int x, int y, Visit visit) const {
  const State *a = find(x), *b = find(y);
  if (a == nullptr || b == nullptr) return;
  const auto &left = a->entries[static_cast<size_t>(phase)], &right = b->entries[static_cast<size_t>(phase)];
  const bool swap = right.size() < left.size();
  const auto &few = swap ? right : left, &many = swap ? left : right;
  auto at = many.begin();
  for (const Entry& e : few) {
    at = std::lower_bound(at, many.end(), e.round, [](const Entry& m, int round) { return m.round < round; });
    if (at == many.end()) return;
    if (at->round == e.round) visit(e.round, swap ? at->log_ns - e.log_ns : e.log_ns - at->log_ns);
  }
}

std::vector<double> Race::log_ratios(db::Phase phase, int x, int y) const {
  std::vector<double> all, undisturbed;
  for_each_meeting(phase, x, y, [&](int round, double ratio) {
    all.push_back(ratio);
    if (calm(phase, round)) undisturbed.push_back(ratio);
  });
  return undisturbed.size() >= kEnoughCalm ? undisturbed : all;
}

Race::Met Race::met(db::Phase phase, int x, int y) const {
  Met met;
  for_each_meeting(phase, x, y, [&](int round, double) {
    ++met.rounds;
    met.calm += calm(phase, round);
  });
  return met;
}

std::vector<double> Race::self_log_ratios(int candidate) const {
  std::vector<double> ratios;
  const State* at = find(candidate);
  if (at == nullptr) return ratios;
  const std::vector<Entry>& entries = at->entries[static_cast<size_t>(db::Phase::kNoise)];
  for (size_t i = 0; i + 1 < entries.size(); ++i) {
    if (entries[i].round != entries[i + 1].round) continue;
    ratios.push_back(entries[i].log_ns - entries[i + 1].log_ns);
    ++i;
  }
  return ratios;
}

std::vector<double> Race::times(db::Phase phase, int candidate) const {
  std::vector<double> times;
  if (const State* at = find(candidate))
    for (const Entry& e : at->entries[static_cast<size_t>(phase)]) times.push_back(static_cast<double>(e.ns));
  return times;
}

int Race::samples(db::Phase phase, int candidate) const {
  const State* at = find(candidate);
  return at == nullptr ? 0 : static_cast<int>(at->entries[static_cast<size_t>(phase)].size());
}

int Race::measured() const {
  return static_cast<int>(
      std::count_if(states_.begin(), states_.end(), [](const State& s) { return !s.usual.empty(); }));
}

}  // namespace hone::autotune
