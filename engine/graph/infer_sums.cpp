// Ops that sum or search along axes.
#include <algorithm>

#include "engine/graph/infer_internal.h"

namespace hone::graph {

namespace {

using enum DType;

bool contains(const std::vector<int64_t>& list, int64_t v) {
  return std::find(list.begin(), list.end(), v) != list.end();
}

Result<Types> infer_reduce(const Rules& r) {
  HONE_RETURN_IF_ERROR(r.word("kind", {"sum", "max", "min"}));
  HONE_RETURN_IF_ERROR(r.dtype(0, {kF32, kS32}));
  const std::vector<int64_t> axes = r.integers("axes");
  HONE_RETURN_IF_ERROR(r.axes("axes", axes, r.x(0).rank()));
  TensorType type{r.x(0).dtype, {}};
  for (int i = 0; i < r.x(0).rank(); ++i)
    if (!contains(axes, i)) type.dims.push_back(r.dim(0, i));
  return Types{type};
}

// Axes of lhs and rhs in pairs, which must be as long as each other.
Status check_pairs(const Rules& r, std::string_view what, const std::vector<int64_t>& lhs,
                   const std::vector<int64_t>& rhs, Shape* dims) {
  if (lhs.size() != rhs.size())
    return r.fail("lhs_{} names {} axes and rhs_{} {}; they go in pairs", what, lhs.size(), what, rhs.size());
  for (size_t i = 0; i < lhs.size(); ++i) {
    dims->push_back(r.dim(0, static_cast<int>(lhs[i])));
    HONE_RETURN_IF_ERROR(
        r.agree(1, static_cast<int>(rhs[i]), &dims->back(), fmt::format("dimension {} of operand 0 (lhs)", lhs[i])));
  }
  return {};
}

Result<Types> infer_dot_general(const Rules& r) {
  HONE_RETURN_IF_ERROR(r.dtype(0, {kF32}));
  HONE_RETURN_IF_ERROR(r.dtype(1, {kF32}));
  std::vector<int64_t> used[2];
  for (int side = 0; side < 2; ++side) {
    const std::string_view batch = side == 0 ? "lhs_batch" : "rhs_batch";
    const std::string_view contract = side == 0 ? "lhs_contract" : "rhs_contract";
    HONE_RETURN_IF_ERROR(r.axes(batch, r.integers(batch), r.x(side).rank()));
    HONE_RETURN_IF_ERROR(r.axes(contract, r.integers(contract), r.x(side).rank()));
    used[side] = r.integers(batch);
    for (const int64_t a : r.integers(contract)) {
      if (contains(used[side], a)) return r.fail("axis {} of {} is in {} and {}", a, r.operand(side), batch, contract);
      used[side].push_back(a);
    }
  }
  TensorType type{kF32, {}};
  Shape contracted;
  HONE_RETURN_IF_ERROR(check_pairs(r, "batch", r.integers("lhs_batch"), r.integers("rhs_batch"), &type.dims));
  HONE_RETURN_IF_ERROR(check_pairs(r, "contract", r.integers("lhs_contract"), r.integers("rhs_contract"), &contracted));
  for (int side = 0; side < 2; ++side)
    for (int i = 0; i < r.x(side).rank(); ++i)
      if (!contains(used[side], i)) type.dims.push_back(r.dim(side, i));
  return Types{type};
}

Result<Types> infer_top_k(const Rules& r) {
  HONE_RETURN_IF_ERROR(r.dtype(0, {kF32}));
  HONE_RETURN_IF_ERROR(r.rank(0, 1, -1));
  const int64_t k = r.integer("k");
  const Dim& last = r.last(0);
  if (k < 1 || k > kMaxElements || (last.is_static() && k > last.value()))
    return r.fail("k is {} and must be in 1..{}, the last dimension of operand 0", k, to_string(last));
  TensorType values = r.x(0);
  values.dims.back() = k;
  TensorType indices = values;
  indices.dtype = kS32;
  return Types{values, indices};
}

}  // namespace

Result<Types> infer_sums(const Rules& r) {
  if (r.op() == OpKind::reduce) return infer_reduce(r);
  return r.op() == OpKind::dot_general ? infer_dot_general(r) : infer_top_k(r);
}

}  // namespace hone::graph
