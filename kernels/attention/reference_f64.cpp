// The mathematical result in double, and how far any class may be from it (the derivation is in reference.h).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention/elements_internal.h"
#include "kernels/attention/reference.h"

namespace hone::attention {
namespace {

constexpr double kU = 0x1p-24;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kTiny = 0x1p-149;
// From here on a sum rounds to infinity in f32.
constexpr double kOverflow = 0x1.ffffffp127;

// From 2^24 roundings on nothing is known. Not infinite: times a magnitude of 0 it must be 0.
double gamma(double n) { return n * kU < 1 ? n * kU / (1 - n * kU) : 0x1p500; }

struct Score {
  double t = 0, e = 0;  // e = inf: f32 may have overflowed, nothing is known
};

Score score(const AttentionProblem& p, const Sequence& s, int64_t h, int64_t i, int64_t j) {
  if (hidden_by_bytes(p, s, h, i, j)) return {-kInf, 0};
  double sum = 0, magnitude = 0, keys = 0, largest = 0;
  bool infinite = false, unknown = false;
  for (int64_t c = 0; c < p.d; ++c) {
    const double x = static_cast<double>(p.scale_in_force()) * query_element(p, s, h, i, c);
    const double k = key_element(p, s, h, j, c);
    sum += x * k;
    if (std::isfinite(x * k)) {
      magnitude += std::fabs(x * k);
      keys += std::fabs(k);
      largest = std::fmax(largest, std::fabs(x));
      continue;
    }
    infinite = true;
    unknown = unknown || (x != 0 && std::fabs(x) < kTiny);  // scale * q may round to 0, and 0 * inf is NaN
  }
  if (std::isnan(sum)) return {kNan, 0};
  const auto d = static_cast<double>(p.d);
  Score out{sum, infinite ? 0 : gamma(d + 2) * magnitude + (keys + d) * kTiny};
  if (unknown || std::fmax(magnitude, largest) >= kOverflow / 2) out.e = kInf;
  if (p.softcap > 0) {
    const double y = std::tanh(out.t / p.softcap);
    const double rounding = infinite ? 0 : kU * (std::fabs(out.t) + out.e) / p.softcap;
    const double argument = 1.01 * (out.e / p.softcap + rounding) + kTiny;
    const double error = p.softcap * (argument + 6 * kU * std::fabs(y) + kTiny);
    out.t = p.softcap * y;
    out.e = error + 2 * kU * (std::fabs(out.t) + error) + kTiny;
  }
  if (p.mask == MaskKind::kAdditive) {
    out.t += mask_element(s, h, i, j);
    if (std::isnan(out.t)) return {kNan, 0};
    if (std::fabs(out.t) + out.e >= kOverflow && std::isfinite(out.t)) out.e = kInf;
    out.e = std::isinf(out.t) ? 0 : out.e + 1.01 * kU * (std::fabs(out.t) + out.e);
  }
  return out;
}

// All that columns of a row have in common.
struct Row {
  std::vector<double> w, error;  // exp(T - m), and how far a weight may be from it
  std::vector<bool> counts;      // a key that no mask hides
  double m = -kInf, l = 0, l_error = 0;
  double slack = 0;      // largest e of a key that counts
  double underflow = 0;  // what a weight that is no normal float may be off
  bool nan = false, unknown = false;
};

Row weigh(const std::vector<Score>& scores, double rescales) {
  Row row;
  for (const Score& s : scores) {
    row.nan = row.nan || std::isnan(s.t) || s.t == kInf;
    row.unknown = row.unknown || s.e == kInf;
    row.m = std::fmax(row.m, s.t);
    row.counts.push_back(s.t > -kInf);
    if (row.counts.back()) row.slack = std::fmax(row.slack, s.e);
  }
  if (row.nan || row.unknown || row.m == -kInf) return row;
  const double g = gamma(static_cast<double>(scores.size()) / 16 + 2 * rescales + 8);
  row.underflow = 0x1p-124 * (rescales + 1) * std::exp(row.slack);
  for (size_t j = 0; j < scores.size(); ++j) {
    const double x = row.m - scores[j].t, e = scores[j].e;
    const double exponent = e + 1.01 * kU * (x + e + row.slack) + 2.1 * kU * (rescales + 2);
    const double w = row.counts[j] ? std::exp(-x) : 0;
    row.w.push_back(w);
    row.error.push_back(row.counts[j] ? std::exp(exponent - x) - w : 0);
    row.l += w;
    row.l_error += row.error.back() * (1 + g) + w * g + (row.counts[j] ? row.underflow : 0);
  }
  return row;
}

// Column c of the row, from the values of its keys.
void column(const Row& row, const std::vector<double>& v, double rescales, double* value, double* bound) {
  const auto n = static_cast<double>(v.size());
  const double g = gamma(n + 2 * rescales + 4);
  double sum = 0, error = 0, largest = 0;
  for (size_t j = 0; j < v.size(); ++j) {
    const double size = std::fabs(v[j]);
    sum += row.w[j] * v[j];
    largest = std::fmax(largest, size);
    error += (row.error[j] * (1 + g) + row.w[j] * g + row.underflow) * size + (2 + rescales) * kTiny;
  }
  *value = sum / row.l;
  if (std::isnan(sum)) return void(*bound = 0);
  // No weight is above 1, so neither is a partial sum above n times the largest value.
  if (n * largest >= kOverflow / 2) return void(*bound = kInf);
  const double below = row.l - row.l_error;
  *bound = below > 0 ? (error + std::fabs(*value) * row.l_error) / below : kInf;
  double furthest = 0;
  for (size_t j = 0; j < v.size(); ++j)
    if (row.counts[j]) furthest = std::fmax(furthest, std::fabs(v[j] - *value));
  furthest += 2 * (gamma(2 * n + 4 * rescales + 12) + 0x1p-124 * n * (rescales + 1)) * largest;
  *bound = std::fmin(*bound, furthest + n * (rescales + 2) * kTiny);
  *bound += 3 * kU * (std::fabs(*value) + *bound) + 2 * kTiny;
}

void log_sum(const Row& row, double n, double* value, double* bound) {
  *value = row.m + std::log(row.l);
  const double ratio = row.l_error / row.l;
  const double error = ratio < 0.5 ? -std::log1p(-ratio) : 2 * row.slack + std::log(n) + 1;
  const double logarithm = 0x1p-22 + 0x1p-23 * (std::log(row.l) + 1 + error);
  *bound = error + logarithm;
  *bound += 1.01 * kU * (std::fabs(*value) + *bound);
}

void add_row(const AttentionProblem& p, const Sequence& s, int64_t h, int64_t i, Reference* r) {
  const Visible visible = visible_keys(p, s.q, s.kv, i);
  std::vector<Score> scores;
  for (int64_t j = visible.begin; j < visible.end; ++j) scores.push_back(score(p, s, h, i, j));
  const double rescales = std::ceil(static_cast<double>(scores.size()) / kKeyGroup) + 1;
  const Row row = weigh(scores, rescales);
  const bool decided = row.nan || row.unknown || row.m == -kInf;
  const double known = row.nan ? kNan : 0;
  const double bound = row.unknown && !row.nan ? kInf : 0;
  std::vector<double> v(scores.size());
  for (int64_t c = 0; c < p.value_dim(); ++c) {
    r->value.push_back(known);
    r->bound.push_back(bound);
    if (decided) continue;
    for (size_t j = 0; j < v.size(); ++j) v[j] = value_element(p, s, h, visible.begin + static_cast<int64_t>(j), c);
    column(row, v, rescales, &r->value.back(), &r->bound.back());
  }
  if (!p.lse) return;
  r->lse.push_back(row.nan ? kNan : -kInf);
  r->lse_bound.push_back(bound);
  if (!decided) log_sum(row, static_cast<double>(scores.size()), &r->lse.back(), &r->lse_bound.back());
}

template <typename Body>
void each_row(const AttentionProblem& p, const Sequence& s, const Body& body) {
  for (int64_t h = 0; h < p.heads; ++h)
    for (int64_t i = 0; i < s.q; ++i) body(h, i);
}

int64_t out_index(const AttentionProblem& p, const Sequence& s, int64_t h, int64_t i, int64_t c) {
  return h * s.o_head + i * p.row_stride_o() + c;
}

}  // namespace

Reference reference_f64(const AttentionProblem& p, const Sequence& s) {
  Reference r;
  each_row(p, s, [&](int64_t h, int64_t i) { add_row(p, s, h, i, &r); });
  return r;
}

Comparison compare(const AttentionProblem& p, const Sequence& s, const Reference& reference) {
  numeric::Mismatches found;
  size_t at = 0, row = 0;
  each_row(p, s, [&](int64_t h, int64_t i) {
    for (int64_t c = 0; c < p.value_dim(); ++c, ++at) {
      found.within(s.out[out_index(p, s, h, i, c)], reference.value[at], reference.bound[at],
                   [&] { return fmt::format("O[{}][{},{}]", h, i, c); });
    }
    if (!p.lse) return;
    found.within(s.lse[h * s.lse_head + i], reference.lse[row], reference.lse_bound[row],
                 [&] { return fmt::format("lse[{}][{}]", h, i); });
    ++row;
  });
  return found.finish();
}

Comparison compare_bits(const AttentionProblem& p, const Sequence& s, const Sequence& expected) {
  numeric::Mismatches found;
  each_row(p, s, [&](int64_t h, int64_t i) {
    for (int64_t c = 0; c < p.value_dim(); ++c) {
      const int64_t at = out_index(p, s, h, i, c);
      found.bits(s.out[at], expected.out[at], [&] { return fmt::format("O[{}][{},{}]", h, i, c); });
    }
    if (!p.lse) return;
    const int64_t at = h * s.lse_head + i;
    found.bits(s.lse[at], expected.lse[at], [&] { return fmt::format("lse[{}][{}]", h, i); });
  });
  return found.finish();
}

}  // namespace hone::attention
