// The error bounds promised in kernels/math/vector_math.h, as a function of argument and result, against libm in
// double.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/math/array_math.h"

namespace hone::math {

inline double exact(Activation a, double x) {
  switch (a) {
    case Activation::kExp:
    case Activation::kExpNonPositive:
      return std::exp(x);
    case Activation::kLog:
      return std::log(x);
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kErf:
      return std::erf(x);
    case Activation::kSilu:
      return std::isinf(x) ? (x > 0 ? x : 0.0) : x / (1 + std::exp(-x));
    case Activation::kGeluTanh:  // as x sigmoid(2 u), because 1 + tanh(u) cancels even in double
      if (std::isinf(x)) return x > 0 ? x : 0.0;
      return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kGeluErf:
      return std::isinf(x) ? (x > 0 ? x : 0.0) : 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::kRelu:
      return x > 0 ? x : 0.0;
  }
  return 0;
}

inline double ulp(double result) {
  const double size = std::fabs(result);
  return size < 0x1p-126 ? 0x1p-149 : std::ldexp(1.0, std::ilogb(size) - 23);
}

// The error that is allowed for a finite exact result.
inline double allowed(Activation a, double x, double want) {
  constexpr double kT = 0x1p-24;
  const double size = std::fabs(want);
  switch (a) {
    case Activation::kLog:
      return 1.25 * 0x1p-23 + ulp(want);
    case Activation::kExp:
    case Activation::kExpNonPositive:
      return size >= 0x1p-126 ? ulp(want) : 0x1p-126;
    case Activation::kTanh:
      return 3 * ulp(want);
    case Activation::kErf:
      return 6.5 * kT * size + 0x1p-149;
    case Activation::kSilu:
      return 5 * kT * size + (x < -87 ? 3e-37 : 0x1p-149);
    case Activation::kGeluTanh: {
      const double arg = std::fabs(1.6 * x * (1 + 0.0447 * x * x));
      return std::fmin(2.5 * kT * std::fabs(x), (5 + 2.5 * arg) * kT * size + 1e-36) + 0x1p-149;
    }
    case Activation::kGeluErf:
      return 4 * kT * std::fabs(x) + 0x1p-149;
    case Activation::kRelu:
      return 0;
  }
  return 0;
}

// Whether anything is promised for x.
inline bool in_domain(Activation a, float x) {
  if (std::isnan(x)) return true;
  if (a == Activation::kExpNonPositive) return x <= 0;
  if (a == Activation::kLog) return x >= 0x1p-126f && x <= 0x1p126f;
  return true;
}

struct Worst {
  double ratio = 0;  // error / allowed; above 1 is a failure, infinite for a NaN or infinity out of place
  float x = 0, got = 0;
  double want = 0;
};

inline void check_one(Activation a, float x, float got, Worst* worst) {
  if (!in_domain(a, x)) return;
  const double want = exact(a, x);
  double ratio = 0;
  if (std::isnan(x)) {
    ratio = std::isnan(got) ? 0 : INFINITY;
  } else if (std::isinf(want) || std::fabs(want) >= 0x1.ffffffp127) {  // rounds to inf
    ratio = std::isinf(got) && (got > 0) == (want > 0) ? 0 : INFINITY;
  } else if (std::isnan(got)) {
    ratio = INFINITY;
  } else {
    const double error = std::fabs(got - want);
    ratio = error == 0 ? 0 : error / allowed(a, x, want);
  }
  const bool squashed = a == Activation::kTanh || a == Activation::kErf;
  if (squashed && std::fabs(got) > 1) ratio = INFINITY;
  if (ratio > worst->ratio) *worst = {ratio, x, got, want};
}

// Every `step`-th bit pattern.
inline Worst check_patterns(Activation a, uint64_t step) {
  constexpr size_t kBatch = 4096;
  std::vector<float> x, y(kBatch);
  Worst worst;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32;) {
    x.clear();
    for (; x.size() < kBatch && bits < uint64_t{1} << 32; bits += step) {
      x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    }
    activate_array(a, x.data(), y.data(), static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); ++i) check_one(a, x[i], y[i], &worst);
  }
  return worst;
}

inline std::vector<Activation> all_activations() {
  std::vector<Activation> all;
  for (int i = 0; i <= static_cast<int>(Activation::kRelu); ++i) all.push_back(static_cast<Activation>(i));
  return all;
}

}  // namespace hone::math
