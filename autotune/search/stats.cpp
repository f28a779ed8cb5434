// See stats.h.
#include "autotune/search/stats.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace hone::autotune {
namespace {

// P(Bin(n, p) >= m) for m >= n p, where the terms fall from the first on.
double binomial_tail(size_t n, double p, size_t m) {
  if (m > n) return 0;
  const auto count = static_cast<double>(n);
  double log_term = static_cast<double>(m) * std::log(p) + static_cast<double>(n - m) * std::log1p(-p);
  for (size_t i = 1; i <= m; ++i) log_term += std::log((count - static_cast<double>(m - i)) / static_cast<double>(i));
  double term = std::exp(log_term), sum = 0;
  for (size_t j = m; j <= n && term > 1e-12 * sum; ++j) {
    sum += term;
    const auto at = static_cast<double>(j);
    term *= (count - at) / (at + 1) * p / (1 - p);
  }
  return sum;
}

// The largest k of 1 .. half that `holds`, as long as smaller ones do; 0 when none.
template <typename Predicate>
size_t last_of(size_t half, Predicate holds) {
  size_t lo = 0, hi = half;
  while (lo < hi) {
    const size_t middle = (lo + hi + 1) / 2;
    if (holds(middle)) {
      lo = middle;
    } else {
      hi = middle - 1;
    }
  }
  return lo;
}

// Ranks depend on the count and the tail alone, and a search asks for few of either.
class Ranks {
 public:
  template <typename Compute>
  size_t of(size_t n, double tail, Compute compute) {
    const auto [at, fresh] = known_.try_emplace({n, tail});
    if (fresh) at->second = compute();
    return at->second;
  }

 private:
  std::map<std::pair<size_t, double>, size_t> known_;
};

// The median, and the values `rank` places from either end.
Interval at_ranks(std::span<const double> values, size_t rank) {
  std::vector<double> v(values.begin(), values.end());
  const auto lo = v.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(v.begin(), lo, v.end());
  Interval interval{.lo = *lo, .mid = 0, .hi = 0};
  const auto hi = v.end() - 1 - static_cast<std::ptrdiff_t>(rank);
  std::nth_element(lo, hi, v.end());
  interval.hi = *hi;
  interval.mid = median_of(v);
  return interval;
}

}  // namespace

double median_of(std::vector<double>& v) {
  if (v.empty()) return 0;
  const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  if (v.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(v.begin(), middle)) / 2;
}

Interval ratio_of(const Interval& log) { return {std::exp(log.lo), std::exp(log.mid), std::exp(log.hi)}; }

double median(std::vector<double> values) { return median_of(values); }

Interval median_interval(std::span<const double> values, double confidence) {
  const size_t n = values.size();
  if (n == 0) return {};
  if (n < 5) return at_ranks(values, 0);
  // A resample of n has its (lower) median at or below the k-th smallest value when at least half of its n draws fall
  // on the first k: Bin(n, k/n). The tail is cut at the first k whose probability exceeds it.
  const double tail = (1 - confidence) / 2;
  static thread_local Ranks ranks;
  return at_ranks(values, ranks.of(n, tail, [&] {
    return last_of((n - 1) / 2, [&](size_t below) {
      return binomial_tail(n, static_cast<double>(below) / static_cast<double>(n), (n + 1) / 2) <= tail;
    });
  }));
}

Interval order_interval(std::span<const double> values, double tail) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const size_t n = values.size();
  if (n == 0) return {-kInfinity, 0, kInfinity};
  // The k-th smallest is above the median when fewer than k of n values fell below it: Bin(n, 1/2) <= k - 1, which is
  // as likely as >= n - k + 1.
  static thread_local Ranks ranks;
  const size_t k = ranks.of(n, tail, [&] {
    return last_of(n / 2, [&](size_t rank) { return binomial_tail(n, 0.5, n - rank + 1) <= tail; });
  });
  Interval interval = at_ranks(values, k == 0 ? 0 : k - 1);
  if (k == 0) interval.lo = -kInfinity, interval.hi = kInfinity;
  return interval;
}

double noise_bound(std::span<const double> log_ratios, int rounds) {
  if (log_ratios.empty()) return kNoiseFloor;
  const Interval interval = median_interval(log_ratios, 0.95);
  const double scale = std::sqrt(static_cast<double>(log_ratios.size()) / std::max(rounds, 1));
  const double half = (interval.hi - interval.lo) / 2 * std::min(scale, 1.0);
  return std::max(std::expm1(half), kNoiseFloor);
}

}  // namespace hone::autotune
