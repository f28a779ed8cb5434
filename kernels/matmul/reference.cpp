// Slow and obvious. Nothing here is shared with a kernel except the scalar activations and the scalar product of pairs,
// which define the bits.
#include "kernels/matmul/reference.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "kernels/ir/bf16_pairs.h"
#include "kernels/math/scalar_ops.h"

namespace hone::matmul {
namespace {

constexpr double kU = 0x1p-24;

int64_t index_a(const MatmulProblem& p, int64_t item, int64_t i, int64_t q) {
  return item * p.batch_stride_a() + i * p.row_stride_a() + q;
}

int64_t index_b(const MatmulProblem& p, const PackedB& packed, int64_t item, int64_t q, int64_t j) {
  switch (p.b) {
    case BLayout::kNn:
      return item * p.batch_stride_b() + q * p.row_stride_b() + j;
    case BLayout::kNt:
      return item * p.batch_stride_b() + j * p.row_stride_b() + q;
    case BLayout::kPacked:
      return item * packed.batch_stride + packed.index(p.k, q, j);
  }
  return 0;
}

int64_t index_c(const MatmulProblem& p, int64_t item, int64_t i, int64_t j) {
  return item * p.batch_stride_c() + i * p.row_stride_c() + j;
}

// A value and how far f32 arithmetic may be from it.
struct Bounded {
  double v = 0, e = 0;

  // After an operation whose exact result is `result` and whose operand errors have grown to `error`.
  void round(double result, double error) {
    v = result;
    e = error + kU * (std::fabs(result) + error) + 0x1p-149;
  }
  void activation(double result) {
    e = 1.13 * e + 6 * kU * (std::fabs(v) + e) + 1e-36;
    v = result;
  }
};

double gelu_tanh(double v) {
  if (std::isinf(v)) return v > 0 ? v : 0;
  return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
}
double gelu_erf(double v) {
  if (std::isinf(v)) return v > 0 ? v : 0;
  return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0)));
}
double silu(double v) {
  if (std::isinf(v)) return v > 0 ? v : 0;
  return v / (1 + std::exp(-v));
}
double relu(double v) { return std::isnan(v) ? v : std::fmax(0.0, v); }

void apply(EpilogueOp op, const MatmulOperands& o, int64_t i, int64_t j, int64_t at_c, Bounded* x) {
  switch (op) {
    case EpilogueOp::kBias:
      return x->round(x->v + o.bias[j], x->e);
    case EpilogueOp::kGate:
      return x->round(x->v * o.gate[at_c], x->e * std::fabs(o.gate[at_c]));
    case EpilogueOp::kResidual:
      return x->round(x->v + o.residual[at_c], x->e);
    case EpilogueOp::kRowScale:
      return x->round(x->v * o.row_scale[i], x->e * std::fabs(o.row_scale[i]));
    case EpilogueOp::kGeluTanh:
      return x->activation(gelu_tanh(x->v));
    case EpilogueOp::kGeluErf:
      return x->activation(gelu_erf(x->v));
    case EpilogueOp::kSilu:
      return x->activation(silu(x->v));
    case EpilogueOp::kRelu:
      x->v = relu(x->v);
      return;
    case EpilogueOp::kSwiglu:
      return;  // element_f64
  }
}

float apply(EpilogueOp op, const MatmulOperands& o, int64_t i, int64_t j, int64_t at_c, float v) {
  switch (op) {
    case EpilogueOp::kBias:
      return v + o.bias[j];
    case EpilogueOp::kGate:
      return v * o.gate[at_c];
    case EpilogueOp::kResidual:
      return v + o.residual[at_c];
    case EpilogueOp::kRowScale:
      return v * o.row_scale[i];
    case EpilogueOp::kGeluTanh:
      return math::scalar_activation(math::Activation::kGeluTanh, v);
    case EpilogueOp::kGeluErf:
      return math::scalar_activation(math::Activation::kGeluErf, v);
    case EpilogueOp::kSilu:
      return math::scalar_activation(math::Activation::kSilu, v);
    case EpilogueOp::kRelu:
      return math::scalar_activation(math::Activation::kRelu, v);
    case EpilogueOp::kSwiglu:
      break;  // element_f32
  }
  return v;
}

// What a sum is made of besides the problem.
struct Sum {
  const PackedB& packed;
  Dot dot;
};

Bounded sum_f64(const MatmulProblem& p, const MatmulOperands& o, const Sum& s, int64_t item, int64_t i, int64_t j) {
  double sum = 0, magnitude = 0, operands = 0;
  for (int64_t q = 0; p.alpha != 0 && q < p.k; ++q) {
    const double a = o.a[index_a(p, item, i, q)], b = element_b(p.dtype, o.b, index_b(p, s.packed, item, q, j));
    sum += a * b;
    magnitude += std::fabs(a * b);
    operands += std::fabs(a) + std::fabs(b) + 2;
  }
  const double k = static_cast<double>(p.k);
  // The sum in double has an error too, 2^29 times smaller per operation.
  // From 2^24 roundings on nothing is known. Not infinite: times a magnitude of 0 it must be 0.
  const double gamma = k * kU < 1 ? k * kU / (1 - k * kU) : 0x1p500;
  Bounded x{sum, gamma * magnitude * (1 + 1e-6) + k * 0x1p-149};
  if (s.dot == Dot::kBf16) x.e += 0x1p-8 * (magnitude + x.e) + 0x1p-126 * operands;
  if (p.alpha != 1) x.round(p.alpha * x.v, std::fabs(p.alpha) * x.e);
  return x;
}

Bounded element_f64(const MatmulProblem& p, const MatmulOperands& o, const Sum& s, int64_t item, int64_t i, int64_t j) {
  const int64_t column = p.swiglu() ? gate_column(j) : j;
  const int64_t at_c = index_c(p, item, i, j);
  Bounded x = sum_f64(p, o, s, item, i, column);
  if (p.beta != 0) x.round(x.v + static_cast<double>(p.beta) * o.c[at_c], x.e);
  for (EpilogueOp op : p.epilogue) {
    if (op != EpilogueOp::kSwiglu) {
      apply(op, o, i, column, at_c, &x);
      continue;
    }
    Bounded up = sum_f64(p, o, s, item, i, up_column(j));
    for (EpilogueOp before : {EpilogueOp::kRowScale, EpilogueOp::kBias})
      if (p.has(before)) apply(before, o, i, up_column(j), at_c, &up);
    x.activation(silu(x.v));
    x.round(x.v * up.v, x.e * std::fabs(up.v) + std::fabs(x.v) * up.e + x.e * up.e);
  }
  return x;
}

// Class `bf16`, of k-steps q and q + 1. Rounding leaves B as it is: its elements are bf16, or were.
float add_pair(const MatmulProblem& p, const MatmulOperands& o, const PackedB& packed, int64_t item, int64_t i,
               int64_t q, int64_t j, float v) {
  uint16_t a[2] = {}, b[2] = {};
  for (int64_t h = 0; h < 2 && q + h < p.k; ++h) {
    a[h] = ir::round_to_bf16(std::bit_cast<uint32_t>(o.a[index_a(p, item, i, q + h)]));
    b[h] = ir::round_to_bf16(std::bit_cast<uint32_t>(element_b(p.dtype, o.b, index_b(p, packed, item, q + h, j))));
  }
  return ir::dot_bf16_pairs(ir::bf16_pair(a[0], a[1]), ir::bf16_pair(b[0], b[1]), v);
}

float sum_f32(const MatmulProblem& p, const MatmulOperands& o, const Sum& s, int64_t item, int64_t i, int64_t j) {
  float v = 0;
  for (int64_t q = 0; p.alpha != 0 && q < p.k; q += kr_of(s.dot)) {
    v = s.dot == Dot::kBf16
            ? add_pair(p, o, s.packed, item, i, q, j, v)
            : std::fma(o.a[index_a(p, item, i, q)], element_b(p.dtype, o.b, index_b(p, s.packed, item, q, j)), v);
  }
  return p.alpha != 1 ? p.alpha * v : v;
}

float element_f32(const MatmulProblem& p, const MatmulOperands& o, const Sum& s, int64_t item, int64_t i, int64_t j) {
  const int64_t column = p.swiglu() ? gate_column(j) : j;
  const int64_t at_c = index_c(p, item, i, j);
  float v = sum_f32(p, o, s, item, i, column);
  if (p.beta != 0) v = std::fma(p.beta, o.c[at_c], v);
  for (EpilogueOp op : p.epilogue) {
    if (op != EpilogueOp::kSwiglu) {
      v = apply(op, o, i, column, at_c, v);
      continue;
    }
    float up = sum_f32(p, o, s, item, i, up_column(j));
    for (EpilogueOp before : {EpilogueOp::kRowScale, EpilogueOp::kBias})
      if (p.has(before)) up = apply(before, o, i, up_column(j), at_c, up);
    v = math::scalar_activation(math::Activation::kSilu, v) * up;
  }
  return v;
}

template <typename Body>
void each_element(const MatmulProblem& p, const Body& body) {
  for (int64_t item = 0; item < p.batch; ++item)
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.columns(); ++j) body(item, i, j);
}

}  // namespace

Reference reference_f64(const MatmulProblem& p, const MatmulOperands& o, const PackedB& packed, Dot dot) {
  Reference r;
  r.value.reserve(static_cast<size_t>(p.batch * p.m * p.columns()));
  r.bound.reserve(static_cast<size_t>(p.batch * p.m * p.columns()));
  each_element(p, [&](int64_t item, int64_t i, int64_t j) {
    const Bounded x = element_f64(p, o, {packed, dot}, item, i, j);
    r.value.push_back(x.v);
    r.bound.push_back(x.e);
  });
  return r;
}

void class_f32(const MatmulProblem& p, const MatmulOperands& o, const PackedB& packed, Dot dot) {
  each_element(p, [&](int64_t item, int64_t i, int64_t j) {
    o.c[index_c(p, item, i, j)] = element_f32(p, o, {packed, dot}, item, i, j);
  });
}

void ordered_f32(const MatmulProblem& p, const MatmulOperands& o, const PackedB& packed) {
  class_f32(p, o, packed, Dot::kNone);
}

template <typename Element>
std::vector<Element> pack_b_reference(const MatmulProblem& source, const Element* b, int64_t width, int64_t kr) {
  const PackedB packed{width, 0, kr};
  const int64_t items = source.batch_stride_b() == 0 ? 1 : source.batch;
  const int64_t each = packed.elements(source.n, source.k);
  std::vector<Element> panels(static_cast<size_t>(items * each), Element{0});
  for (int64_t item = 0; item < items; ++item)
    for (int64_t q = 0; q < source.k; ++q)
      for (int64_t j = 0; j < source.n; ++j) {
        const int64_t at = item * each + packed.index(source.k, q, j);
        panels[static_cast<size_t>(at)] = b[index_b(source, packed, item, q, j)];
      }
  return panels;
}
template std::vector<float> pack_b_reference(const MatmulProblem&, const float*, int64_t, int64_t);
template std::vector<uint16_t> pack_b_reference(const MatmulProblem&, const uint16_t*, int64_t, int64_t);

Comparison compare(const MatmulProblem& p, const float* c, const Reference& reference) {
  numeric::Mismatches found;
  size_t at = 0;
  each_element(p, [&](int64_t item, int64_t i, int64_t j) {
    found.within(c[index_c(p, item, i, j)], reference.value[at], reference.bound[at],
                 [&] { return fmt::format("C[{}][{},{}]", item, i, j); });
    ++at;
  });
  return found.finish();
}

Comparison compare_bits(const MatmulProblem& p, const float* c, const float* expected) {
  numeric::Mismatches found;
  each_element(p, [&](int64_t item, int64_t i, int64_t j) {
    const int64_t at = index_c(p, item, i, j);
    found.bits(c[at], expected[at], [&] { return fmt::format("C[{}][{},{}]", item, i, j); });
  });
  return found.finish();
}

}  // namespace hone::matmul
