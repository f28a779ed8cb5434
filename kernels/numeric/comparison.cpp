// See comparison.h.
#include "kernels/numeric/comparison.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>

namespace hone::numeric {
namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();
}

Mismatches::Verdict Mismatches::judge(float got, double want, double bound) {
  if (bound == kInf) return {};
  if (std::isnan(want) || std::isnan(got)) {
    if (std::isnan(want) == std::isnan(got)) return {};
    return {true, kInf, "(NaN)"};
  }
  if (static_cast<double>(got) == want) return {};
  const bool may_overflow = std::fabs(want) + bound >= std::numeric_limits<float>::max();
  if (std::isinf(got) && may_overflow && (got > 0) == (want > 0)) return {};
  const double error = std::fabs(got - want);
  const bool infinite = std::isinf(want) || std::isinf(got);
  const double ratio = infinite || bound <= 0 ? kInf : error / bound;
  if (!infinite && error <= bound) return {false, ratio, {}};
  return {true, ratio, fmt::format("(error {:.3g}, bound {:.3g})", error, bound)};
}

Mismatches::Verdict Mismatches::judge_bits(float got, float want) {
  if (std::isnan(got) && std::isnan(want)) return {};
  if (std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(want)) return {};
  double size = std::fabs(static_cast<double>(got) - want);
  if (std::isnan(size)) size = kInf;
  return {true, size,
          fmt::format("(bits {:08x}, want {:08x})", std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(want))};
}

void Mismatches::add(float got, double want, const Verdict& verdict, const std::string& place) {
  const std::string text = fmt::format("{} = {:.9g}, want {:.9g} {}", place, got, want, verdict.rule);
  if (result_.mismatches++ == 0) first_ = text;
  if (result_.mismatches == 1 || verdict.ratio > result_.worst) worst_ = text;
  result_.worst = std::fmax(result_.worst, verdict.ratio);
}

Comparison Mismatches::finish() {
  if (result_.mismatches == 0) return result_;
  result_.text = fmt::format("{} of {} elements wrong; first: {}", result_.mismatches, result_.elements, first_);
  if (worst_ != first_) result_.text += "; worst: " + worst_;
  return result_;
}

}  // namespace hone::numeric
