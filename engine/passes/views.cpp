#include "engine/passes/views.h"

#include <algorithm>

namespace hone::passes {

using graph::Dim;
using graph::Shape;

std::vector<Dim> dense_strides(const Shape& dims) {
  std::vector<Dim> strides(dims.size());
  Dim stride(1);
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride = stride * dims[i];
  }
  return strides;
}

namespace {

bool is_one(const Dim& d) { return d.is_static() && d.value() == 1; }

// Dimensions that may be walked as one are joined, ones go: what is left is all that a reshape has to respect.
struct Run {
  Dim size, stride;  // of its innermost element
};

std::vector<Run> runs_of(const Shape& dims, std::span<const Dim> strides) {
  std::vector<Run> runs;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (is_one(dims[i])) continue;
    if (!runs.empty() && surely_equal(runs.back().stride, strides[i] * dims[i])) {
      runs.back().size = runs.back().size * dims[i];
      runs.back().stride = strides[i];
    } else {
      runs.push_back({dims[i], strides[i]});
    }
  }
  return runs;
}

}  // namespace

std::optional<std::vector<Dim>> reshape_strides(const Shape& dims, std::span<const Dim> strides, const Shape& to) {
  const std::vector<Run> runs = runs_of(dims, strides);
  std::vector<Dim> result(to.size());
  size_t run = runs.size();
  Dim covered(1);  // of the run at hand, from its innermost element
  for (size_t i = to.size(); i-- > 0;) {
    if (is_one(to[i])) continue;  // any stride does
    if (run == runs.size() || surely_equal(covered, runs[run].size)) {
      if (run == 0) return std::nullopt;
      --run;
      covered = Dim(1);
    }
    result[i] = runs[run].stride * covered;
    covered = covered * to[i];
    if (covered.is_unknown()) return std::nullopt;
    const Dim left = runs[run].size - covered;
    if (left.is_static() && left.value() < 0) return std::nullopt;
    // Within a run of a symbolic size only whole factors are sure to fit.
    if (covered.is_static() && !runs[run].size.is_static() && !Dim::divide(runs[run].size, covered.value()))
      return std::nullopt;
    if (covered.is_static() && runs[run].size.is_static() &&
        runs[run].size.value() % std::max<int64_t>(covered.value(), 1) != 0)
      return std::nullopt;
  }
  const bool whole = run == 0 && (runs.empty() || surely_equal(covered, runs[0].size));
  const bool empty = runs.empty();
  if (!whole && !empty) return std::nullopt;
  // A dimension of 1 gets the stride that keeps dense views dense.
  for (size_t i = to.size(); i-- > 0;)
    if (is_one(to[i])) result[i] = i + 1 < to.size() ? result[i + 1] * to[i + 1] : Dim(1);
  return result;
}

bool is_dense(const Shape& dims, std::span<const Dim> strides) {
  Dim stride(1);
  for (size_t i = dims.size(); i-- > 0;) {
    if (!is_one(dims[i]) && !surely_equal(strides[i], stride)) return false;
    stride = stride * dims[i];
  }
  return true;
}

}  // namespace hone::passes
