// A machine in a box: candidates with known true times, measured by a clock that drifts, steps, and is interrupted, on
// a machine that is not ours alone. Everything is drawn from one seed.
#pragma once

#include <cmath>
#include <numbers>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "autotune/measure/clock.h"
#include "autotune/search/racer.h"

namespace hone::autotune {

class FakeClock final : public Clock {
 public:
  int64_t now_ns() override { return now_; }
  void advance(int64_t ns) { now_ += ns; }

 private:
  int64_t now_ = 0;
};

struct Weather {
  std::string name = "calm";
  double jitter = 0.01;    // standard deviation of the log of a sample
  double drift = 0.15;     // slow swing of the clock over a second, for all alike
  double outliers = 0.03;  // share of samples that a neighbour or interrupt makes up to 4 times longer
  double lucky_first = 0;  // first sample of each candidate is this much faster than the truth
  double lucky = 0;        // share of samples that are twice as fast as the truth
  double steps = 0;        // frequency steps a second: all 20-30% up or down for 0.1-1 s
  double corunner = 0;     // share of time with a neighbour, 1-3 s each: all 1.3-2x slower, unequally
  double cauchy = 0;       // scale of a Cauchy error of the log
  double mixture = 0;      // share of samples with ten times the jitter
  double zeros = 0;        // share of times that are 0
  int64_t quantum_ns = 1;  // of the clock
};

class SimulatedRacer final : public Racer {
 public:
  SimulatedRacer(FakeClock& clock, std::vector<double> truth_ns, uint64_t seed, Weather weather = {})
      : clock_(clock), truth_(std::move(truth_ns)), random_(seed), weather_(std::move(weather)) {
    std::uniform_real_distribution<double> share(0.5, 1.5);
    for (size_t i = 0; i < truth_.size(); ++i) memory_bound_.push_back(share(random_));
  }

  std::set<int> wrong, zero, crash_later;  // candidates that compute wrongly; give times of 0; crash at their third run
  int64_t prepare_ns = 5'000'000;
  int64_t overhead_ns = 1000;  // of a sample
  int samples = 0, prepared = 0;
  std::vector<int> runs_of;  // by candidate

  Prepared prepare(int candidate) override {
    clock_.advance(prepare_ns);
    ++prepared;
    if (wrong.contains(candidate)) return {db::Outcome::kWrong, "planted"};
    return {};
  }

  std::vector<Timing> round(std::span<const int> arms) override {
    std::vector<Timing> timings;
    for (int arm : arms) {
      const int64_t begin = clock_.now_ns();
      if (runs_of.size() <= static_cast<size_t>(arm)) runs_of.resize(truth_.size());
      const int run = ++runs_of[static_cast<size_t>(arm)];
      if (crash_later.contains(arm) && run == 3) {
        timings.push_back({.outcome = db::Outcome::kCrashed, .detail = "planted"});
        continue;
      }
      const int64_t ns = sample(arm);
      timings.push_back({.ns = ns, .wall_ns = clock_.now_ns() - begin});
    }
    return timings;
  }

  void release(int) override {}

 private:
  struct Spell {
    int64_t from = 0, to = 0;
    double factor = 1;
  };

  double uniform() { return std::uniform_real_distribution<double>(0, 1)(random_); }
  double between(double lo, double hi) { return lo + (hi - lo) * uniform(); }

  // The spell that covers now or is the next to come; the mean gap between spells is `gap` seconds.
  template <typename Draw>
  const Spell& spell(Spell& current, double gap, Draw draw) {
    while (current.to <= clock_.now_ns()) {
      const double wait = -gap * std::log(1 - uniform());
      const auto [seconds, factor] = draw();
      current.from = current.to + static_cast<int64_t>(wait * 1e9);
      current.to = current.from + static_cast<int64_t>(seconds * 1e9);
      current.factor = factor;
    }
    return current;
  }

  double slowdown(int candidate) {
    double factor = 1;
    if (weather_.steps > 0) {
      const Spell& s = spell(step_, 1 / weather_.steps, [&] {
        const double by = between(1.2, 1.3);
        return std::pair(between(0.1, 1), uniform() < 0.5 ? by : 1 / by);
      });
      if (clock_.now_ns() >= s.from) factor *= s.factor;
    }
    if (weather_.corunner > 0) {
      const double gap = 2 * (1 - weather_.corunner) / weather_.corunner;
      const Spell& s = spell(neighbour_, gap, [&] { return std::pair(between(1, 3), between(1.3, 2)); });
      if (clock_.now_ns() >= s.from) factor *= 1 + (s.factor - 1) * memory_bound_[static_cast<size_t>(candidate)];
    }
    return factor;
  }

  int64_t sample(int candidate) {
    ++samples;
    if (zero.contains(candidate)) return 0;
    const double phase = static_cast<double>(clock_.now_ns()) * 1e-9 * 2 * std::numbers::pi;
    double error = std::normal_distribution<double>(0, weather_.jitter)(random_);
    if (weather_.mixture > 0 && uniform() < weather_.mixture) error *= 10;
    if (weather_.cauchy > 0) {
      const double tail = weather_.cauchy * std::tan(std::numbers::pi * (uniform() - 0.5));
      error += std::clamp(tail, -0.7, 1.4);
    }
    double ns = truth_[static_cast<size_t>(candidate)] * std::exp(error) * (1 + weather_.drift * std::sin(phase) / 2) *
                slowdown(candidate);
    if (uniform() < weather_.outliers) ns *= 1 + 3 * uniform();
    if (weather_.lucky_first > 0 && first_.insert(candidate).second) ns /= 1 + weather_.lucky_first;
    if (weather_.lucky > 0 && uniform() < weather_.lucky) ns /= 2;
    clock_.advance(static_cast<int64_t>(ns) + overhead_ns);
    if (weather_.zeros > 0 && uniform() < weather_.zeros) return 0;
    const int64_t q = weather_.quantum_ns;
    return (static_cast<int64_t>(ns) + q / 2) / q * q;
  }

  FakeClock& clock_;
  std::vector<double> truth_, memory_bound_;
  std::mt19937_64 random_;
  Weather weather_;
  std::set<int> first_;
  Spell step_, neighbour_;
};

}  // namespace hone::autotune
