// Ops on elements. What a row program can compute is computed by the reference of row programs (kernels/rows), so that
// there is one definition of each function's bits; the rest is plain C++.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/graph/reference_internal.h"
#include "kernels/rows/decoder.h"
#include "kernels/rows/reference.h"

namespace hone::graph {

namespace {

template <typename T, typename F>
void map(const Call& c, const F& f) {
  const auto x = c.x<T>(0);
  const auto y = c.y<T>();
  for (size_t i = 0; i < y.size(); ++i) y[i] = f(x[i]);
}

template <typename T, typename F>
void map2(const Call& c, const F& f) {
  const auto a = c.x<T>(0), b = c.x<T>(1);
  const auto y = c.y<T>();
  for (size_t i = 0; i < y.size(); ++i) y[i] = f(a[i], b[i]);
}

// s32 wraps.
template <typename F>
void map2_wrapping(const Call& c, const F& f) {
  map2<int32_t>(c, [&](int32_t a, int32_t b) {
    return static_cast<int32_t>(f(static_cast<uint32_t>(a), static_cast<uint32_t>(b)));
  });
}

// x / 0 is -1 and the least number / -1 itself, as XLA has it.
int32_t divide(int32_t a, int32_t b) {
  if (b == 0) return -1;
  return b == -1 ? static_cast<int32_t>(0 - static_cast<uint32_t>(a)) : a / b;
}

// NaN where either is; of equal ones the second.
float largest(float a, float b) { return std::isnan(a) || a > b ? a : b; }
float smallest(float a, float b) { return std::isnan(a) || a < b ? a : b; }

// Beyond s32 the nearest that it has; NaN gives 0.
int32_t truncated(float v) {
  if (std::isnan(v)) return 0;
  if (v >= 0x1p31F) return std::numeric_limits<int32_t>::max();
  if (v < -0x1p31F) return std::numeric_limits<int32_t>::min();
  return static_cast<int32_t>(v);
}

Status arithmetic_f32(const Call& c) {
  switch (c.node.op) {
    case OpKind::add:
      map2<float>(c, [](float a, float b) { return a + b; });
      return {};
    case OpKind::sub:
      map2<float>(c, [](float a, float b) { return a - b; });
      return {};
    case OpKind::mul:
      map2<float>(c, [](float a, float b) { return a * b; });
      return {};
    case OpKind::div:
      map2<float>(c, [](float a, float b) { return a / b; });
      return {};
    case OpKind::max:
      map2<float>(c, largest);
      return {};
    case OpKind::min:
      map2<float>(c, smallest);
      return {};
    case OpKind::pow:
      map2<float>(c, [](float a, float b) { return static_cast<float>(std::pow(double{a}, double{b})); });
      return {};
    default:
      return c.wrong("no such op of f32");
  }
}

Status arithmetic_s32(const Call& c) {
  switch (c.node.op) {
    case OpKind::add:
      map2_wrapping(c, [](uint32_t a, uint32_t b) { return a + b; });
      return {};
    case OpKind::sub:
      map2_wrapping(c, [](uint32_t a, uint32_t b) { return a - b; });
      return {};
    case OpKind::mul:
      map2_wrapping(c, [](uint32_t a, uint32_t b) { return a * b; });
      return {};
    case OpKind::div:
      map2<int32_t>(c, divide);
      return {};
    case OpKind::max:
      map2<int32_t>(c, [](int32_t a, int32_t b) { return std::max(a, b); });
      return {};
    case OpKind::min:
      map2<int32_t>(c, [](int32_t a, int32_t b) { return std::min(a, b); });
      return {};
    default:
      return c.wrong("no such op of s32");
  }
}

Status logic(const Call& c) {
  const bool both = c.node.op == OpKind::logical_and;
  if (c.node.op == OpKind::logical_not) {
    map<uint8_t>(c, [](uint8_t a) { return static_cast<uint8_t>(a == 0); });
  } else {
    map2<uint8_t>(
        c, [&](uint8_t a, uint8_t b) { return static_cast<uint8_t>(both ? a != 0 && b != 0 : a != 0 || b != 0); });
  }
  return {};
}

template <typename T>
Status compare(const Call& c) {
  const std::string direction = c.node.text("direction");
  const auto a = c.x<T>(0), b = c.x<T>(1);
  const auto y = c.y<uint8_t>();
  for (size_t i = 0; i < y.size(); ++i) {
    if (direction == "EQ") y[i] = a[i] == b[i];
    if (direction == "NE") y[i] = a[i] != b[i];
    if (direction == "LT") y[i] = a[i] < b[i];
    if (direction == "LE") y[i] = a[i] <= b[i];
    if (direction == "GT") y[i] = a[i] > b[i];
    if (direction == "GE") y[i] = a[i] >= b[i];
  }
  return {};
}

Status select(const Call& c) {
  const auto chooser = c.x<uint8_t>(0);
  const size_t bytes = static_cast<size_t>(dtype_bytes(c.results[0].dtype));
  const bool one = c.shape(0).empty();
  for (size_t i = 0; i * bytes < c.results[0].data.size(); ++i) {
    const std::byte* from = c.operands[chooser[one ? 0 : i] != 0 ? 1 : 2].data + i * bytes;
    std::copy_n(from, bytes, c.results[0].data.data() + i * bytes);
  }
  return {};
}

Status iota(const Call& c) {
  const std::vector<int64_t>& shape = c.results[0].shape;
  const auto axis = static_cast<size_t>(c.node.integer("axis"));
  int64_t inner = 1;
  for (size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  for (int64_t i = 0; i < c.results[0].elements(); ++i) {
    const int64_t index = i / inner % shape[axis];
    if (c.results[0].dtype == DType::kF32) c.y<float>()[static_cast<size_t>(i)] = static_cast<float>(index);
    if (c.results[0].dtype == DType::kS32) c.y<int32_t>()[static_cast<size_t>(i)] = static_cast<int32_t>(index);
  }
  return {};
}

template <typename From>
void convert_from(const Call& c) {
  const auto x = c.x<From>(0);
  for (size_t i = 0; i < x.size(); ++i) {
    if (c.results[0].dtype == DType::kF32) c.y<float>()[i] = static_cast<float>(x[i]);
    if (c.results[0].dtype == DType::kU8) c.y<uint8_t>()[i] = x[i] != 0;
    if (c.results[0].dtype != DType::kS32) continue;
    if constexpr (std::is_same_v<From, float>) {
      c.y<int32_t>()[i] = truncated(x[i]);
    } else {
      c.y<int32_t>()[i] = static_cast<int32_t>(x[i]);
    }
  }
}

Status convert(const Call& c) {
  switch (c.operands[0].dtype) {
    case DType::kF32:
      convert_from<float>(c);
      break;
    case DType::kS32:
      convert_from<int32_t>(c);
      break;
    case DType::kU8:
      convert_from<uint8_t>(c);
      break;
    case DType::kBf16:
    case DType::kF16:
      break;  // no operand of it (infer.h)
  }
  return {};
}

Status negate(const Call& c) {
  const bool is_abs = c.node.op == OpKind::abs;
  if (c.operands[0].dtype == DType::kF32) {
    map<float>(c, [&](float v) { return is_abs ? std::fabs(v) : -v; });
  } else {
    map<int32_t>(c,
                 [&](int32_t v) { return is_abs && v >= 0 ? v : static_cast<int32_t>(0 - static_cast<uint32_t>(v)); });
  }
  return {};
}

}  // namespace

Status evaluate_elements(const Call& c) {
  using rows::StepOp;
  switch (c.node.op) {
    case OpKind::iota:
      return iota(c);
    case OpKind::convert:
      return convert(c);
    case OpKind::neg:
    case OpKind::abs:
      return negate(c);
    case OpKind::exp:
      return unary_rows(c, StepOp::kExp);
    case OpKind::log:
      return unary_rows(c, StepOp::kLog);
    case OpKind::tanh:
      return unary_rows(c, StepOp::kTanh);
    case OpKind::erf:
      return unary_rows(c, StepOp::kErf);
    case OpKind::logistic:
      return unary_rows(c, StepOp::kLogistic);
    case OpKind::sqrt:
      return unary_rows(c, StepOp::kSqrt);
    case OpKind::rsqrt:
      return unary_rows(c, StepOp::kRsqrt);
    case OpKind::sin:
      map<float>(c, [](float v) { return static_cast<float>(std::sin(double{v})); });
      return {};
    case OpKind::cos:
      map<float>(c, [](float v) { return static_cast<float>(std::cos(double{v})); });
      return {};
    case OpKind::logical_not:
    case OpKind::logical_and:
    case OpKind::logical_or:
      return logic(c);
    case OpKind::compare:
      if (c.operands[0].dtype == DType::kF32) return compare<float>(c);
      return c.operands[0].dtype == DType::kS32 ? compare<int32_t>(c) : compare<uint8_t>(c);
    case OpKind::select:
      return select(c);
    default:
      return c.operands[0].dtype == DType::kF32 ? arithmetic_f32(c) : arithmetic_s32(c);
  }
}

Status unary_rows(const Call& c, rows::StepOp step) {
  rows::RowArgs args;
  args.n = c.operands[0].elements();
  args.operands[0].data = const_cast<std::byte*>(c.operands[0].data);  // inputs are not written
  args.operands[1].data = c.results[0].data.data();
  if (args.n == 0) return {};
  return rows::reference(rows::unary_map({.outer = 0, .n = rows::kRuntime}, step), args);
}

}  // namespace hone::graph
