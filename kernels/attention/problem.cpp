// What an attention problem means: visible keys, what is legal, and the canonical text. Parsing is in
// problem_parse.cpp.
//
// Sizes are computed in 128 bits, so that "too large" is an answer and never an overflow. Row i sees one interval of
// keys whose ends both move up by one from row to row, so counts of all rows are differences of clamped sums.
#include "kernels/attention/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/text/problem_text.h"

namespace hone::attention {
namespace {

__extension__ typedef __int128 int128;  // wide enough for a product of two 63-bit sizes

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
// Empty items cost no memory, but each costs a step of a loop.
constexpr int64_t kMaxBatch = int64_t{1} << 32;

// Ends of the interval of row i before they are cut to [0, kv).
int128 raw_begin(const AttentionProblem& p, int64_t q, int64_t kv, int64_t i) {
  return p.window > 0 ? static_cast<int128>(i) + kv - q - p.window + 1 : 0;
}
int128 raw_end(const AttentionProblem& p, int64_t q, int64_t kv, int64_t i) {
  const int128 position = static_cast<int128>(i) + kv - q;
  if (p.causal) return position + 1;
  return p.window > 0 ? position + p.window : kv;
}

int64_t cut(int128 x, int64_t kv) { return static_cast<int64_t>(std::clamp<int128>(x, 0, kv)); }

// Sum of cut(first + i) for i in [0, q).
int128 sum_of_cuts(int128 first, int64_t q, int64_t kv) {
  // Rows in [a, b) lie within the cut; those from b on give kv.
  const int128 a = std::clamp<int128>(-first, 0, q), b = std::clamp<int128>(kv - first, a, q);
  const int128 n = b - a;
  return n * (first + a) + n * (n - 1) / 2 + (q - b) * kv;
}

bool fits(int128 x) { return x >= 0 && x <= kMax; }

// Bytes of heads x rows x stride fit 63 bits, also where one of them is 0.
bool product_fits(std::initializer_list<int64_t> factors) {
  int128 product = static_cast<int64_t>(sizeof(float));
  for (int64_t f : factors) {
    product *= std::max<int64_t>(f, 1);
    if (!fits(product)) return false;
  }
  return true;
}

Status check_sizes(const AttentionProblem& p) {
  const struct {
    const char* name;
    int64_t value, lowest;
  } sizes[] = {{"b", p.batch, 0}, {"hq", p.heads, 1},  {"hkv", p.kv_heads, 1}, {"q", p.q, 0},     {"kv", p.kv, 0},
               {"d", p.d, 1},     {"dv", p.dv, 0},     {"ldq", p.ldq, 0},      {"ldk", p.ldk, 0}, {"ldv", p.ldv, 0},
               {"ldo", p.ldo, 0}, {"page", p.page, 0}, {"window", p.window, 0}};
  for (const auto& s : sizes) {
    if (s.value < s.lowest) {
      return invalid_argument(fmt::format("{}={} must be at least {}", s.name, s.value, s.lowest));
    }
  }
  if (p.batch > kMaxBatch) return invalid_argument(fmt::format("b={} is too large: at most {}", p.batch, kMaxBatch));
  if (p.heads % p.kv_heads != 0) {
    return invalid_argument(fmt::format("hq={} is no multiple of hkv={}: every KV head serves equally many query heads",
                                        p.heads, p.kv_heads));
  }
  return {};
}

Status check_strides(const AttentionProblem& p) {
  const struct {
    const char *name, *row;
    int64_t stride, least;
  } strides[] = {{"ldq", "Q (d", p.ldq, p.d},
                 {"ldk", "K (d", p.ldk, p.d},
                 {"ldv", "V (dv", p.ldv, p.value_dim()},
                 {"ldo", "O (dv", p.ldo, p.value_dim()}};
  if (p.k == KeyLayout::kBlocked && p.ldk != 0) {
    return invalid_argument(fmt::format("ldk={} has no meaning with k=blocked; leave it out", p.ldk));
  }
  for (const auto& s : strides) {
    if (s.stride != 0 && s.stride < s.least) {
      return invalid_argument(fmt::format("{}={} is less than a row of {}={})", s.name, s.stride, s.row, s.least));
    }
  }
  if (p.k == KeyLayout::kBlocked && p.page % kKeyGroup != 0) {
    return invalid_argument(fmt::format("page={} with k=blocked must be a multiple of {}", p.page, kKeyGroup));
  }
  return {};
}

Status check_bytes(const AttentionProblem& p) {
  const auto too_large = [&p](std::string_view what) {
    return invalid_argument(
        fmt::format("too large: the bytes of {} do not fit 63 bits (b={}, hq={}, hkv={}, q={}, kv={}, d={}, dv={})",
                    what, p.batch, p.heads, p.kv_heads, p.q, p.kv, p.d, p.value_dim()));
  };
  const int64_t unit = std::max(kKeyGroup, p.page);  // rows of a cache come in groups or pages
  const int128 rounded = (static_cast<int128>(p.kv) + unit - 1) / unit * unit;
  if (!fits(rounded)) return too_large("K");
  const auto keys = static_cast<int64_t>(rounded);
  if (!product_fits({p.batch, p.heads, p.q, p.row_stride_q()})) return too_large("Q");
  if (!product_fits({p.batch, p.kv_heads, keys, p.row_stride_k()})) return too_large("K");
  if (!product_fits({p.batch, p.kv_heads, keys, p.row_stride_v()})) return too_large("V");
  if (!product_fits({p.batch, p.heads, p.q, p.row_stride_o()})) return too_large("O");
  // Also without a mask: the number of pairs must be a number.
  if (!product_fits({p.batch, p.heads, p.q, keys})) return too_large("the scores");
  return {};
}

Status check_numbers(const AttentionProblem& p) {
  if (!std::isfinite(p.softcap) || p.softcap < 0) {
    return invalid_argument(fmt::format("softcap={} must be positive and finite, or 0 for none", p.softcap));
  }
  if (!std::isfinite(p.scale)) return invalid_argument(fmt::format("scale={} must be finite", p.scale));
  return {};
}

float default_scale(int64_t d) { return static_cast<float>(1 / std::sqrt(static_cast<double>(d))); }

}  // namespace

float AttentionProblem::scale_in_force() const { return scale != 0 ? scale : default_scale(d); }

int64_t AttentionProblem::visible_pairs() const {
  if (q <= 0 || kv <= 0) return 0;
  const bool sliding = causal || window > 0;  // else every row ends at kv
  const int128 ends = sliding ? sum_of_cuts(raw_end(*this, q, kv, 0), q, kv) : static_cast<int128>(q) * kv;
  const int128 begins = window > 0 ? sum_of_cuts(raw_begin(*this, q, kv, 0), q, kv) : 0;
  return static_cast<int64_t>(ends - begins);
}

double AttentionProblem::flops() const {
  return 2.0 * static_cast<double>(d + value_dim()) * static_cast<double>(visible_pairs()) *
         static_cast<double>(batch) * static_cast<double>(heads);
}

double AttentionProblem::kv_bytes() const {
  if (q <= 0) return 0;
  // The rows' intervals overlap or adjoin, so their union reaches from the first begin to the last end.
  const int64_t keys = cut(raw_end(*this, q, kv, q - 1), kv) - cut(raw_begin(*this, q, kv, 0), kv);
  return static_cast<double>(dtype_bytes(dtype)) * static_cast<double>(d + value_dim()) * static_cast<double>(keys) *
         static_cast<double>(batch) * static_cast<double>(kv_heads);
}

Visible visible_keys(const AttentionProblem& p, int64_t q, int64_t kv, int64_t i) {
  return {cut(raw_begin(p, q, kv, i), kv), cut(raw_end(p, q, kv, i), kv)};
}

Status validate(const AttentionProblem& p) {
  if (p.dtype != DType::kF32) {
    return unsupported(fmt::format("attention of {} is not supported; dtypes: {}", dtype_name(p.dtype),
                                   dtype_name(kAttentionDTypes.front())));
  }
  HONE_RETURN_IF_ERROR(check_sizes(p));
  HONE_RETURN_IF_ERROR(check_strides(p));
  HONE_RETURN_IF_ERROR(check_numbers(p));
  return check_bytes(p);
}

AttentionProblem canonical(AttentionProblem p) {
  if (p.ldq == p.d) p.ldq = 0;
  if (p.ldk == p.d) p.ldk = 0;
  if (p.ldv == p.value_dim()) p.ldv = 0;
  if (p.ldo == p.value_dim()) p.ldo = 0;
  if (p.dv == p.d) p.dv = 0;
  if (static_cast<int128>(p.window) >= static_cast<int128>(p.kv) + p.q) p.window = 0;
  if (p.scale == default_scale(p.d)) p.scale = 0;
  p.softcap += 0.0f;  // -0 becomes +0
  p.scale += 0.0f;
  return p;
}

namespace {

std::string text_of(const AttentionProblem& given, bool with_sizes) {
  const AttentionProblem p = canonical(given);
  std::string s = fmt::format("attention:{}:", dtype_name(p.dtype));
  if (with_sizes) s += fmt::format("b={},", p.batch);
  s += fmt::format("hq={},hkv={},", p.heads, p.kv_heads);
  if (with_sizes) s += fmt::format("q={},kv={},", p.q, p.kv);
  s += fmt::format("d={}", p.d);
  const std::pair<const char*, int64_t> sizes[] = {
      {"dv", p.dv}, {"ldq", p.ldq}, {"ldk", p.ldk}, {"ldv", p.ldv}, {"ldo", p.ldo}};
  for (const auto& [name, value] : sizes)
    if (value != 0) s += fmt::format(",{}={}", name, value);
  if (p.k == KeyLayout::kBlocked) s += ",k=blocked";
  if (p.page != 0) s += fmt::format(",page={}", p.page);
  if (p.causal) s += ":causal";
  if (p.window != 0) s += fmt::format(":window={}", p.window);
  if (p.mask != MaskKind::kNone) s += p.mask == MaskKind::kAdditive ? ":mask" : ":boolmask";
  if (p.softcap != 0) s += ":softcap=" + text::float_text(p.softcap);
  if (p.scale != 0) s += ":scale=" + text::float_text(p.scale);
  if (p.lse) s += ":lse";
  return s;
}

}  // namespace

std::string to_string(const AttentionProblem& problem) { return text_of(problem, true); }
std::string family(const AttentionProblem& problem) { return text_of(problem, false); }

}  // namespace hone::attention
