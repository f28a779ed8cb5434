// One op of one call, as the files of the reference see it. Sizes have been judged by infer_types of the very shapes of
// the call, so an op finds operands that fit and a result of the right size, all zeros.
#pragma once

#include <fmt/format.h>

#include "engine/graph/reference.h"
#include "kernels/rows/program.h"

namespace hone::graph {

// Elements that lie somewhere else, dense.
struct View {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  const std::byte* data = nullptr;

  int64_t elements() const;
  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data), static_cast<size_t>(elements())};
  }
};
View view_of(const Tensor& tensor);
std::vector<float> widened(const View& weights);  // of bf16 or f16: what its elements count as

struct Call {
  const Node& node;
  std::vector<View> operands;
  std::vector<Tensor>& results;
  const Bindings& bindings;
  int64_t position = 0;

  template <typename T>
  std::span<const T> x(size_t i) const {
    return operands[i].as<T>();
  }
  template <typename T>
  std::span<T> y(size_t i = 0) const {
    return results[i].as<T>();
  }
  const std::vector<int64_t>& shape(size_t i) const { return operands[i].shape; }
  int64_t last(size_t i) const { return operands[i].shape.back(); }

  // "op name: what".
  template <typename... Args>
  Status fail(fmt::format_string<Args...> text, Args&&... args) const {
    return wrong(fmt::format(text, std::forward<Args>(args)...));
  }
  Status wrong(const std::string& what) const;
};

// Each for the ops of one section of ops.inc.
Status evaluate_elements(const Call& call);
Status evaluate_shapes(const Call& call);
Status evaluate_sums(const Call& call);
Status evaluate_decoder(const Call& call);

// The step of a row program on every element.
Status unary_rows(const Call& call, rows::StepOp step);

// Elements from one strided place to another: element i of `shape` is at data + sum of i * strides (in elements).
struct Strided {
  std::byte* data = nullptr;
  std::vector<int64_t> strides;
};
struct ConstStrided {
  const std::byte* data = nullptr;
  std::vector<int64_t> strides;
};
void copy_strided(const std::vector<int64_t>& shape, int64_t element_bytes, const ConstStrided& from,
                  const Strided& to);
std::vector<int64_t> dense_strides(const std::vector<int64_t>& shape);
// Dimension i of the result is dimension perm[i] of x.
Tensor transposed(const View& x, const std::vector<int64_t>& perm);

// c[i, j] = sum over q ascending of a[i, q] * b(q, j), one chain of fused multiply-adds from +0: class `ordered`. a and
// c are dense; b(q, j) lies at q * b_row + j * b_column.
struct OrderedShape {
  int64_t m = 0, n = 0, k = 0;
  int64_t b_row = 0, b_column = 0;
};
void ordered_matmul(const OrderedShape& shape, const float* a, const float* b, float* c);

}  // namespace hone::graph
