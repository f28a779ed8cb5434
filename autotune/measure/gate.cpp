// See gate.h.
#include "autotune/measure/gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <set>

namespace hone::autotune {
namespace {

using matmul::MatmulProblem;

// About 30 ms of the scalar reference.
constexpr int64_t kReferenceWork = int64_t{1} << 23;
// Column tails of any register tile lie within the last 256 columns; masks and vectors within the last 32.
constexpr int64_t kTailColumns = 48;
constexpr int64_t kSampledRows = 6;

bool same_bits(float x, float y) {
  if (std::isnan(x) && std::isnan(y)) return true;
  return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y);
}

Status differs(int64_t item, int64_t i, int64_t j, float got, float want, matmul::Dot dot) {
  return data_loss(fmt::format("C[{}, {}, {}] is {:.9g} (bits {:08x}), class {} has {:.9g} (bits {:08x})", item, i, j,
                               got, std::bit_cast<uint32_t>(got), dot == matmul::Dot::kNone ? "ordered" : "bf16", want,
                               std::bit_cast<uint32_t>(want)));
}

}  // namespace

OutputCheck::OutputCheck(const Operands& operands, uint64_t seed, matmul::Dot dot)
    : operands_(operands), state_(seed | 1), dot_(dot) {
  const MatmulProblem& p = operands.problem();
  agreed_.resize(static_cast<size_t>(p.batch * p.m * p.columns()));
}

Status OutputCheck::check(const MatmulProblem& shape, std::span<const float> c, bool* refuted) {
  *refuted = false;
  if (shape.m == 0 || shape.n == 0) return {};
  HONE_RETURN_IF_ERROR(check_gaps(shape, c));
  const MatmulProblem& p = operands_.problem();
  const int64_t known = std::min(agreed_rows_, shape.m), n = p.columns();
  for (int64_t item = 0; item < shape.batch; ++item) {
    for (int64_t i = 0; i < known; ++i) {
      const float* got = c.data() + item * shape.batch_stride_c() + i * shape.row_stride_c();
      const float* want = agreed_.data() + (item * p.m + i) * n;
      if (std::memcmp(got, want, static_cast<size_t>(n) * sizeof(float)) == 0) continue;
      for (int64_t j = 0; j < n; ++j) {
        if (same_bits(got[j], want[j])) continue;
        const float truth = operands_.reference({item, {i}, {j}}, dot_)[0];
        if (!same_bits(got[j], truth)) return differs(item, i, j, got[j], truth, dot_);
        // What was agreed is wrong: start again from this output.
        *refuted = true;
        agreed_rows_ = 0;
        return check_new_rows(shape, c);
      }
    }
  }
  return check_new_rows(shape, c);
}

Status OutputCheck::check_new_rows(const MatmulProblem& shape, std::span<const float> c) {
  if (shape.m <= agreed_rows_) return {};
  const MatmulProblem& p = operands_.problem();
  for (int64_t item : std::set<int64_t>{0, shape.batch - 1}) {
    const Cells cells = sample(item, agreed_rows_, shape.m);
    const std::vector<float> truth = operands_.reference(cells, dot_);
    size_t at = 0;
    for (int64_t i : cells.rows) {
      for (int64_t j : cells.cols) {
        const float got = c[static_cast<size_t>(item * shape.batch_stride_c() + i * shape.row_stride_c() + j)];
        if (!same_bits(got, truth[at])) return differs(item, i, j, got, truth[at], dot_);
        ++at;
      }
    }
  }
  for (int64_t item = 0; item < shape.batch; ++item)
    for (int64_t i = agreed_rows_; i < shape.m; ++i)
      std::copy_n(c.data() + item * shape.batch_stride_c() + i * shape.row_stride_c(), p.columns(),
                  agreed_.data() + (item * p.m + i) * p.columns());
  agreed_rows_ = shape.m;
  return {};
}

Cells OutputCheck::sample(int64_t item, int64_t first_row, int64_t end_row) {
  const MatmulProblem& p = operands_.problem();
  auto random_below = [&](int64_t n) {
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
    return static_cast<int64_t>(state_ % static_cast<uint64_t>(n));
  };
  const int64_t k = std::max<int64_t>(p.k, 1), n = p.columns(), rows = end_row - first_row;
  std::set<int64_t> chosen_rows, chosen_cols;
  const bool whole = rows <= kReferenceWork / k / std::max<int64_t>(n, 1);
  if (whole) {
    for (int64_t i = first_row; i < end_row; ++i) chosen_rows.insert(i);
    for (int64_t j = 0; j < n; ++j) chosen_cols.insert(j);
  } else {
    chosen_rows = {first_row, end_row - 1};
    while (static_cast<int64_t>(chosen_rows.size()) < std::min(rows, kSampledRows))
      chosen_rows.insert(first_row + random_below(rows));
    for (int64_t j = std::max<int64_t>(0, n - kTailColumns); j < n; ++j) chosen_cols.insert(j);
    const int64_t affordable = kReferenceWork / k / static_cast<int64_t>(chosen_rows.size());
    const int64_t wanted = std::clamp<int64_t>(affordable, std::min<int64_t>(n, 16 + kTailColumns), n);
    for (int64_t j = 0; j < std::min<int64_t>(n, 16); ++j) chosen_cols.insert(j);
    if (wanted == n) {
      for (int64_t j = 0; j < n; ++j) chosen_cols.insert(j);
    }
    while (static_cast<int64_t>(chosen_cols.size()) < wanted) chosen_cols.insert(random_below(n));
  }
  return {item, {chosen_rows.begin(), chosen_rows.end()}, {chosen_cols.begin(), chosen_cols.end()}};
}

Status OutputCheck::check_gaps(const MatmulProblem& shape, std::span<const float> c) const {
  auto untouched = [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at)
      if (std::bit_cast<uint32_t>(c[static_cast<size_t>(at)]) != 0xffffffffU) return at;
    return int64_t{-1};
  };
  std::vector<int64_t> rows;
  rows.reserve(static_cast<size_t>(shape.batch * shape.m));
  for (int64_t item = 0; item < shape.batch; ++item)
    for (int64_t i = 0; i < shape.m; ++i) rows.push_back(item * shape.batch_stride_c() + i * shape.row_stride_c());
  // Batch items may be woven: the rows of one lie between those of another.
  std::sort(rows.begin(), rows.end());
  int64_t previous = 0;
  for (int64_t row : rows) {
    if (const int64_t at = untouched(previous, row); at >= 0)
      return data_loss(fmt::format("element {} of C lies between rows and was written", at));
    previous = row + shape.columns();
  }
  return {};
}

}  // namespace hone::autotune
