// Estimators on paired log-ratios. Two candidates are compared by log(ns_x / ns_y) within a round, as whatever slows a
// round (another tenant, a lower clock) slows both; the median over rounds forgets the rounds in which it did not.
//
// Its uncertainty comes in two strengths, both from order statistics alone, so nothing is assumed about tails:
// - median_interval: the percentile bootstrap of the median, in closed form. What resampling converges to is a binomial
//   sum, so there are no resamples, no seed and no noise of its own. It undercovers with few values, which elimination
//   can bear: what is lost is one candidate among many.
// - order_interval: the exact interval of the sign test. With n values it cannot exceed confidence 1 - 2^(1-n), and it
//   says so. Decisions rest on it, as their error rates are promised.
#pragma once

#include <span>
#include <vector>

namespace hone::autotune {

double median(std::vector<double> values);       // 0 of none
double median_of(std::vector<double>& scratch);  // the same, reordering its argument

struct Interval {
  double lo = 0, mid = 0, hi = 0;
};

// Ratios, of their logarithms.
Interval ratio_of(const Interval& log);

// Median and its two-sided bootstrap interval at `confidence`. With fewer than 5 values the interval is their range.
Interval median_interval(std::span<const double> values, double confidence);

// Median and the interval that misses the true median with probability at most `tail` on each side, whatever the
// distribution. Infinite where so few values cannot say that much.
Interval order_interval(std::span<const double> values, double tail);

// From the log-ratios of a kernel raced against itself: what a comparison of `rounds` rounds can show without a cause.
// Half the width of the bootstrap interval of the median, scaled to that many rounds; as a ratio minus 1, never below
// kNoiseFloor. The true ratio is known to be 1 and rounds are in random order, so where the median itself fell says
// nothing more.
inline constexpr double kNoiseFloor = 0.005;
double noise_bound(std::span<const double> log_ratios, int rounds);

}  // namespace hone::autotune
