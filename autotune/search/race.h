// Rounds: each candidate runs once a round, in a fresh random order, and what it took is kept under its round. So
// drift and steps of the clock hit all candidates of a round alike, and every comparison is within rounds.
//
// Of each round one number is kept besides: its pace, the median over its arms of how much longer they took than they
// usually do. It says what the machine was like, never who is faster. Two rules need it:
// - A sample that is far faster than the pace of its round allows is taken again, alone, before it counts.
// - A round far slower than the race's calm ones is disturbed: a neighbour slows candidates unequally (who needs memory
//   most is hit most), so such rounds do not speak where calm ones do.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "autotune/measure/clock.h"
#include "autotune/search/racer.h"

namespace hone::autotune {

struct RoundSample {
  int candidate = 0;
  db::Sample sample;
};
// Called after every round with what it measured, so that it is durable before the next one starts.
using RoundSink = std::function<void(std::span<const RoundSample>)>;
// Called once for a candidate that will not be sampled (any more). Not for one that is refused after Ctrl-C: it was cut
// short, and nothing is known of it.
using OutcomeSink = std::function<void(int candidate, const Prepared&)>;

class Race {
 public:
  struct Hooks {
    RoundSink on_round;
    OutcomeSink on_outcome;
    std::function<void()> on_step;            // progress, after every few arms; may be empty
    const std::atomic<bool>* stop = nullptr;  // Ctrl-C
  };
  Race(Racer& racer, Clock& clock, uint64_t seed, Hooks hooks);

  // What an earlier process measured of this very race: its rounds are as good as ours, since no comparison leaves a
  // round. Before the first round only. `dead` will not be prepared, and is not recorded again.
  struct Earlier {
    std::vector<RoundSample> samples;
    std::vector<int> dead;
  };
  void restore(const Earlier& earlier);

  // Prepares once; false (and the outcome is recorded) when the candidate cannot race.
  bool prepare(int candidate);
  bool alive(int candidate) const;
  bool dead(int candidate) const;  // was found unfit
  void drop(int candidate);        // releases; it stays measured

  // One round of `arms`, each candidate once per mention (the same one twice is a race against itself). A sample that
  // is refused is taken again, alone; a candidate that is refused twice in a row is recorded as refused and races no
  // more. False when stopped.
  bool round(db::Phase phase, std::span<const int> arms);

  // One run of each, not recorded.
  void warm_up(std::span<const int> arms);

  bool stopped() const { return hooks_.stop != nullptr && hooks_.stop->load(); }
  int64_t now() const { return clock_.now_ns(); }
  // What a round of these arms will take, from what their samples took so far; unknown arms count as the mean.
  int64_t expected_ns(std::span<const int> arms) const;
  int64_t prepare_ns() const { return prepared_ == 0 ? 0 : prepare_total_ / prepared_; }

  // log(ns_x / ns_y) of the rounds in which both ran; of the calm ones alone where there are kEnoughCalm.
  static constexpr size_t kEnoughCalm = 3;
  std::vector<double> log_ratios(db::Phase phase, int x, int y) const;
  // In how many rounds both ran, and how many of those were calm.
  struct Met {
    int rounds = 0, calm = 0;
  };
  Met met(db::Phase phase, int x, int y) const;
  // The two runs of each round of `candidate` against itself.
  std::vector<double> self_log_ratios(int candidate) const;
  std::vector<double> times(db::Phase phase, int candidate) const;
  int rounds(db::Phase phase) const { return static_cast<int>(paces_[static_cast<size_t>(phase)].size()); }
  // Samples of one candidate in one phase.
  int samples(db::Phase phase, int candidate) const;
  int measured() const;  // candidates with at least one sample

  void shuffle(std::vector<int>& list) { std::shuffle(list.begin(), list.end(), random_); }

 private:
  struct Entry {
    int round = 0;
    int64_t ns = 0;
    double log_ns = 0;
  };
  struct State {
    bool ready = false, dead = false;
    int64_t wall_ns = 0;            // of the last sample with all that surrounds it
    std::vector<Entry> entries[3];  // by phase, rounds ascending
    std::vector<double> usual;      // the last log times at pace 0, a ring
    size_t next = 0;                // of the ring
    double level = 0;               // their median
  };

  State& state(int candidate);
  const State* find(int candidate) const;

  // Times the arms in this order and takes what they answer into `samples`; false when stopped on the way.
  void time_arms(std::span<const int> order, std::vector<RoundSample>* samples);
  // Whether `timing` counts; a candidate that is out of the race is recorded and released.
  bool settle(int candidate, Timing timing, int64_t* ns);
  void take_again_what_is_suspicious(std::vector<RoundSample>* samples);
  void eliminate(int candidate, const Prepared& why);

  double pace(std::span<const RoundSample> samples, int except) const;
  bool suspicious(int candidate, int64_t ns, double pace) const;
  void learn_what_is_calm(double pace, double seconds);
  void keep(db::Phase phase, size_t number, std::span<const RoundSample> samples);
  bool calm(db::Phase phase, int round) const;
  template <typename Visit>
  void for_each_meeting(db::Phase phase, int x, int y, Visit visit) const;

  Racer& racer_;
  Clock& clock_;
  std::mt19937_64 random_;
  Hooks hooks_;
  std::vector<State> states_;                 // by candidate
  std::vector<double> paces_[3];              // by phase and round
  using PaceFor = std::pair<double, double>;  // with the seconds that a round took
  std::deque<PaceFor> recent_;                // the last kMemorySeconds
  std::vector<PaceFor> sorted_paces_;         // the same
  double seconds_ = 0, calm_below_ = 0;       // of recent_
  double last_pace_ = 0, best_ = 0;           // best_: the lowest level so far
  bool any_level_ = false;
  mutable std::vector<double> scratch_;
  int64_t prepare_total_ = 0, prepared_ = 0;
};

}  // namespace hone::autotune
