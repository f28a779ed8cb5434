// See stats.h.
#include "autotune/search/stats.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace hone::autotune {
namespace {

constexpr int kResamples = 400;

double median_in_place(std::vector<double>& v) {
  if (v.empty()) return 0;
  const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  if (v.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(v.begin(), middle)) / 2;
}

}  // namespace

double median(std::vector<double> values) { return median_in_place(values); }

Interval median_interval(std::span<const double> values, double confidence, uint64_t seed) {
  if (values.empty()) return {};
  std::vector<double> sorted(values.begin(), values.end());
  Interval interval;
  interval.mid = median_in_place(sorted);
  if (values.size() < 5) {
    const auto [lo, hi] = std::minmax_element(values.begin(), values.end());
    return {*lo, interval.mid, *hi};
  }
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<size_t> pick(0, values.size() - 1);
  std::vector<double> medians(kResamples), resample(values.size());
  for (double& m : medians) {
    for (double& v : resample) v = values[pick(random)];
    m = median_in_place(resample);
  }
  std::sort(medians.begin(), medians.end());
  const double tail = (1 - confidence) / 2 * (kResamples - 1);
  interval.lo = medians[static_cast<size_t>(tail)];
  interval.hi = medians[static_cast<size_t>(std::ceil(kResamples - 1 - tail))];
  return interval;
}

double noise_bound(std::span<const double> log_ratios, int rounds, uint64_t seed) {
  if (log_ratios.empty()) return kNoiseFloor;
  const Interval interval = median_interval(log_ratios, 0.95, seed);
  const double scale = std::sqrt(static_cast<double>(log_ratios.size()) / std::max(rounds, 1));
  const double half = (interval.hi - interval.lo) / 2 * std::min(scale, 1.0);
  const double bound = std::expm1(std::max(half, std::fabs(interval.mid)));
  return std::max(bound, kNoiseFloor);
}

}  // namespace hone::autotune
