// Estimators on paired log-ratios. Two candidates are compared by log(ns_x / ns_y) within a round, as whatever slows a
// round (another tenant, a lower clock) slows both; the median over rounds forgets the rounds in which it did not. The
// uncertainty is a percentile bootstrap of that median: it assumes nothing about tails.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hone::autotune {

double median(std::vector<double> values);  // 0 of none

struct Interval {
  double lo = 0, mid = 0, hi = 0;
};

// Median and its two-sided interval at `confidence`. With fewer than 5 values the interval is their range.
Interval median_interval(std::span<const double> values, double confidence, uint64_t seed);

// From the log-ratios of a kernel raced against itself: what a comparison of `rounds` rounds can show without a cause.
// The larger of half the width of the bootstrap interval of the median, scaled to that many rounds, and the median
// itself; as a ratio minus 1, never below kNoiseFloor.
inline constexpr double kNoiseFloor = 0.005;
double noise_bound(std::span<const double> log_ratios, int rounds, uint64_t seed);

}  // namespace hone::autotune
