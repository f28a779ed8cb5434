// Ops that sum or search along axes: the axes go to the end, then each row is worked on by itself.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/graph/reference_internal.h"
#include "kernels/rows/decoder.h"
#include "kernels/rows/reference.h"

namespace hone::graph {

namespace {

bool contains(std::span<const int64_t> list, int64_t v) { return std::find(list.begin(), list.end(), v) != list.end(); }

// Axes that are in none of the lists, ascending.
std::vector<int64_t> others(int64_t rank, std::span<const int64_t> a, std::span<const int64_t> b = {}) {
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < rank; ++i)
    if (!contains(a, i) && !contains(b, i)) axes.push_back(i);
  return axes;
}

int64_t product(const std::vector<int64_t>& shape, std::span<const int64_t> axes) {
  int64_t n = 1;
  for (const int64_t axis : axes) n *= shape[static_cast<size_t>(axis)];
  return n;
}

int32_t reduced(std::span<const int32_t> row, const std::string& kind) {
  if (kind == "sum") {
    uint32_t sum = 0;  // wraps
    for (const int32_t v : row) sum += static_cast<uint32_t>(v);
    return static_cast<int32_t>(sum);
  }
  using Limits = std::numeric_limits<int32_t>;
  int32_t best = kind == "max" ? Limits::min() : Limits::max();
  for (const int32_t v : row) best = kind == "max" ? std::max(best, v) : std::min(best, v);
  return best;
}

Status reduce(const Call& c) {
  const auto listed = c.node.integers("axes");
  // Row-major order of the axes that go, whatever order they are named in.
  std::vector<int64_t> axes(listed.begin(), listed.end());
  std::sort(axes.begin(), axes.end());
  std::vector<int64_t> perm = others(static_cast<int64_t>(c.shape(0).size()), axes);
  perm.insert(perm.end(), axes.begin(), axes.end());
  Tensor x = transposed(c.operands[0], perm);
  const int64_t n = product(c.shape(0), axes), rows = c.results[0].elements();
  const std::string kind = c.node.text("kind");
  if (x.dtype == DType::kS32) {
    for (int64_t i = 0; i < rows; ++i)
      c.y<int32_t>()[static_cast<size_t>(i)] =
          reduced(x.as<int32_t>().subspan(static_cast<size_t>(i * n), static_cast<size_t>(n)), kind);
    return {};
  }
  using rows::StepOp;
  const StepOp step = kind == "sum" ? StepOp::kReduceSum : kind == "max" ? StepOp::kReduceMax : StepOp::kReduceMin;
  float none = 0;  // what an operand without elements points to
  rows::RowArgs args;
  args.extents[0] = rows;
  args.n = n;
  args.operands[0].data = x.data.empty() ? static_cast<void*>(&none) : x.data.data();
  args.operands[0].strides[0] = n;
  args.operands[1].data = c.results[0].data.data();
  args.operands[1].strides[0] = 1;
  if (rows == 0) return {};
  return rows::reference(rows::reduce_columns({.outer = 1, .n = rows::kRuntime}, step), args);
}

void dot_general(const Call& c) {
  const auto lb = c.node.integers("lhs_batch"), rb = c.node.integers("rhs_batch");
  const auto lc = c.node.integers("lhs_contract"), rc = c.node.integers("rhs_contract");
  const auto arranged = [](const View& x, std::span<const int64_t> batch, const std::vector<int64_t>& kept,
                           std::span<const int64_t> contract) {
    std::vector<int64_t> perm(batch.begin(), batch.end());
    perm.insert(perm.end(), kept.begin(), kept.end());
    perm.insert(perm.end(), contract.begin(), contract.end());
    return transposed(x, perm);
  };
  const std::vector<int64_t> rows = others(static_cast<int64_t>(c.shape(0).size()), lb, lc);
  const std::vector<int64_t> columns = others(static_cast<int64_t>(c.shape(1).size()), rb, rc);
  const Tensor a = arranged(c.operands[0], lb, rows, lc), b = arranged(c.operands[1], rb, columns, rc);
  const int64_t items = product(c.shape(0), lb), k = product(c.shape(0), lc);
  const OrderedShape shape{
      .m = product(c.shape(0), rows), .n = product(c.shape(1), columns), .k = k, .b_row = 1, .b_column = k};
  for (int64_t i = 0; i < items; ++i)
    ordered_matmul(shape, a.as<float>().data() + i * shape.m * k, b.as<float>().data() + i * shape.n * k,
                   c.y<float>().data() + i * shape.m * shape.n);
}

// NaN counts as the largest; of equal ones the lower index comes first.
void top_k(const Call& c) {
  const int64_t n = c.last(0), k = c.node.integer("k");
  const auto greater = [](float a, float b) { return std::isnan(a) ? !std::isnan(b) : a > b; };
  for (int64_t row = 0; row * k < c.results[0].elements(); ++row) {
    const float* x = c.x<float>(0).data() + row * n;
    std::vector<int32_t> order(static_cast<size_t>(n));
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return greater(x[a], x[b]); });
    for (int64_t j = 0; j < k; ++j) {
      const int32_t best = order[static_cast<size_t>(j)];
      c.y<float>(0)[static_cast<size_t>(row * k + j)] = x[best];
      c.y<int32_t>(1)[static_cast<size_t>(row * k + j)] = best;
    }
  }
}

}  // namespace

Status evaluate_sums(const Call& c) {
  if (c.node.op == OpKind::reduce) return reduce(c);
  if (c.node.op == OpKind::dot_general) dot_general(c);
  if (c.node.op == OpKind::top_k) top_k(c);
  return {};
}

}  // namespace hone::graph
