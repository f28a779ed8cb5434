// Ops that move elements: each is one or a few strided copies.
#include <algorithm>
#include <numeric>

#include "engine/graph/reference_internal.h"

namespace hone::graph {

namespace {

int64_t element_bytes(const Call& c) { return dtype_bytes(c.results[0].dtype); }

// To the whole result.
void copy_to_result(const Call& c, const std::byte* from, std::vector<int64_t> strides) {
  Tensor& y = c.results[0];
  copy_strided(y.shape, element_bytes(c), {from, std::move(strides)}, {y.data.data(), dense_strides(y.shape)});
}

int64_t offset_of(const std::vector<int64_t>& index, const std::vector<int64_t>& strides) {
  return std::inner_product(index.begin(), index.end(), strides.begin(), int64_t{0});
}

void broadcast(const Call& c) {
  const std::vector<int64_t> own = dense_strides(c.shape(0));
  std::vector<int64_t> strides(c.results[0].shape.size(), 0);
  for (size_t i = 0; i < own.size(); ++i)
    if (c.shape(0)[i] != 1) strides[static_cast<size_t>(c.node.integers("dims")[i])] = own[i];
  copy_to_result(c, c.operands[0].data, strides);
}

void slice(const Call& c) {
  const auto start = c.node.integers("start"), stride = c.node.integers("stride");
  std::vector<int64_t> strides = dense_strides(c.shape(0));
  const int64_t offset = offset_of({start.begin(), start.end()}, strides);
  for (size_t i = 0; i < stride.size(); ++i) strides[i] *= stride[i];
  if (c.results[0].data.empty()) return;
  copy_to_result(c, c.operands[0].data + offset * element_bytes(c), strides);
}

void concatenate(const Call& c) {
  const auto axis = static_cast<size_t>(c.node.integer("axis"));
  const std::vector<int64_t> strides = dense_strides(c.results[0].shape);
  int64_t at = 0;
  for (const View& x : c.operands) {
    std::byte* to = c.results[0].data.data() + at * strides[axis] * element_bytes(c);
    copy_strided(x.shape, element_bytes(c), {x.data, dense_strides(x.shape)}, {to, strides});
    at += x.shape[axis];
  }
}

Status gather(const Call& c) {
  const int64_t rows = c.shape(0)[0];
  const DType stored = c.operands[0].dtype;
  int64_t row = dtype_bytes(stored), columns = 1;
  for (size_t i = 1; i < c.shape(0).size(); ++i) columns *= c.shape(0)[i];
  row *= columns;
  const auto indices = c.x<int32_t>(1);
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0 || indices[i] >= rows)
      return c.fail("index {} at {} is not in 0..{}, the rows of operand 0 (x)", indices[i], i, rows - 1);
    const std::byte* from = c.operands[0].data + indices[i] * row;
    if (is_16bit_float(stored)) {
      const std::vector<float> wide = widened({stored, {columns}, from});
      std::copy(wide.begin(), wide.end(), c.y<float>().begin() + static_cast<int64_t>(i) * columns);
    } else {
      std::copy_n(from, row, c.results[0].data.data() + static_cast<int64_t>(i) * row);
    }
  }
  return {};
}

// Clamped so that a block of `sizes` fits into `whole`.
std::vector<int64_t> starts(const Call& c, size_t first, const std::vector<int64_t>& whole,
                            const std::vector<int64_t>& sizes) {
  std::vector<int64_t> start;
  for (size_t i = 0; i < whole.size(); ++i)
    start.push_back(std::clamp<int64_t>(c.x<int32_t>(first + i)[0], 0, whole[i] - sizes[i]));
  return start;
}

void dynamic_slice(const Call& c) {
  const std::vector<int64_t> strides = dense_strides(c.shape(0));
  const int64_t offset = offset_of(starts(c, 1, c.shape(0), c.results[0].shape), strides);
  if (c.results[0].data.empty()) return;
  copy_to_result(c, c.operands[0].data + offset * element_bytes(c), strides);
}

void dynamic_update_slice(const Call& c) {
  const std::vector<int64_t> strides = dense_strides(c.shape(0));
  const int64_t offset = offset_of(starts(c, 2, c.shape(0), c.shape(1)), strides);
  std::copy_n(c.operands[0].data, c.results[0].data.size(), c.results[0].data.begin());
  if (c.operands[1].elements() == 0) return;
  std::byte* to = c.results[0].data.data() + offset * element_bytes(c);
  copy_strided(c.shape(1), element_bytes(c), {c.operands[1].data, dense_strides(c.shape(1))}, {to, strides});
}

}  // namespace

std::vector<int64_t> dense_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

void copy_strided(const std::vector<int64_t>& shape, int64_t element_bytes, const ConstStrided& from,
                  const Strided& to) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return;
  std::vector<int64_t> index(shape.size(), 0);
  for (;;) {
    const std::byte* source = from.data + offset_of(index, from.strides) * element_bytes;
    std::copy_n(source, element_bytes, to.data + offset_of(index, to.strides) * element_bytes);
    size_t axis = shape.size();
    while (axis > 0 && ++index[axis - 1] == shape[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

Tensor transposed(const View& x, const std::vector<int64_t>& perm) {
  const std::vector<int64_t> own = dense_strides(x.shape);
  std::vector<int64_t> shape, strides;
  for (const int64_t axis : perm) {
    shape.push_back(x.shape[static_cast<size_t>(axis)]);
    strides.push_back(own[static_cast<size_t>(axis)]);
  }
  Tensor t = Tensor::make(x.dtype, shape);
  copy_strided(shape, dtype_bytes(x.dtype), {x.data, strides}, {t.data.data(), dense_strides(shape)});
  return t;
}

Status evaluate_shapes(const Call& c) {
  switch (c.node.op) {
    case OpKind::broadcast:
      broadcast(c);
      return {};
    case OpKind::reshape:
      std::copy_n(c.operands[0].data, c.results[0].data.size(), c.results[0].data.begin());
      return {};
    case OpKind::transpose: {
      const auto perm = c.node.integers("perm");
      c.results[0] = transposed(c.operands[0], {perm.begin(), perm.end()});
      return {};
    }
    case OpKind::slice:
      slice(c);
      return {};
    case OpKind::concatenate:
      concatenate(c);
      return {};
    case OpKind::gather:
      return gather(c);
    case OpKind::dynamic_slice:
      dynamic_slice(c);
      return {};
    default:
      dynamic_update_slice(c);
      return {};
  }
}

}  // namespace hone::graph
