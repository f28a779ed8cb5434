// A machine in a box: candidates with known true times, measured by a clock that drifts, steps, and is interrupted.
#pragma once

#include <cmath>
#include <numbers>
#include <random>
#include <set>
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
  double jitter = 0.01;      // standard deviation of the log of a sample
  double drift = 0.15;       // slow swing of the clock over a second, for all alike
  double outliers = 0.03;    // share of samples that a neighbour or interrupt makes up to 4 times longer
  double lucky_first = 0.0;  // first sample of each candidate is this much faster than the truth
};

class SimulatedRacer final : public Racer {
 public:
  SimulatedRacer(FakeClock& clock, std::vector<double> truth_ns, uint64_t seed, Weather weather = {})
      : clock_(clock), truth_(std::move(truth_ns)), random_(seed), weather_(weather) {}

  std::set<int> wrong, zero;  // candidates that compute wrongly; give times of 0
  int64_t prepare_ns = 5'000'000;
  int samples = 0;

  Prepared prepare(int candidate) override {
    clock_.advance(prepare_ns);
    if (wrong.contains(candidate)) return {db::Outcome::kWrong, "planted"};
    return {};
  }

  std::vector<Timing> round(std::span<const int> arms) override {
    std::vector<Timing> timings;
    for (int arm : arms) {
      const int64_t begin = clock_.now_ns();
      const int64_t ns = sample(arm);
      timings.push_back({.ns = ns, .wall_ns = clock_.now_ns() - begin});
    }
    return timings;
  }

  void release(int) override {}

 private:
  int64_t sample(int candidate) {
    ++samples;
    if (zero.contains(candidate)) return 0;
    std::normal_distribution<double> normal(0, weather_.jitter);
    std::uniform_real_distribution<double> uniform(0, 1);
    const double phase = static_cast<double>(clock_.now_ns()) * 1e-9 * 2 * std::numbers::pi;
    double ns =
        truth_[static_cast<size_t>(candidate)] * std::exp(normal(random_)) * (1 + weather_.drift * std::sin(phase) / 2);
    if (uniform(random_) < weather_.outliers) ns *= 1 + 3 * uniform(random_);
    if (weather_.lucky_first > 0 && first_.insert(candidate).second) ns /= 1 + weather_.lucky_first;
    clock_.advance(static_cast<int64_t>(ns) + 1000);
    return static_cast<int64_t>(ns);
  }

  FakeClock& clock_;
  std::vector<double> truth_;
  std::mt19937_64 random_;
  Weather weather_;
  std::set<int> first_;
};

}  // namespace hone::autotune
