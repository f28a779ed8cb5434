// See guarded_operands.h.
#include "kernels/matmul/guarded_operands.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "engine/base/half.h"

namespace hone::matmul {
namespace {

int64_t elements_of(int64_t batch, int64_t stride, int64_t rows, int64_t cols, int64_t ld) {
  if (rows == 0 || cols == 0) return 0;
  return (batch - 1) * stride + (rows - 1) * ld + cols;
}

}  // namespace

GuardedOperands::GuardedOperands(const MatmulProblem& problem, int64_t panel, uint64_t seed, int specials, Dot dot)
    : problem_(problem), random_(seed), values_(random_, specials), specials_(specials), dot_(dot) {
  const MatmulProblem& p = problem_;
  operands_.a = matrix(a_, p.batch_stride_a(), p.m, p.k, p.row_stride_a(), true);
  is_16bit_float(p.dtype) ? make_b<uint16_t>(panel) : make_b<float>(panel);
  operands_.c = matrix(c_, p.batch_stride_c(), p.m, p.columns(), p.row_stride_c(), p.beta != 0);
  initial_c_.assign(operands_.c, operands_.c + c_elements());
  if (p.has(EpilogueOp::kBias)) {
    float* bias = allocate(bias_, p.n);
    for (int64_t j = 0; j < p.n; ++j) bias[j] = values_.next();
    operands_.bias = bias;
  }
  if (p.has(EpilogueOp::kGate))
    operands_.gate = matrix(gate_, p.batch_stride_c(), p.m, p.columns(), p.row_stride_c(), true);
  if (p.has(EpilogueOp::kResidual))
    operands_.residual = matrix(residual_, p.batch_stride_c(), p.m, p.columns(), p.row_stride_c(), true);
  if (p.has(EpilogueOp::kRowScale)) operands_.row_scale = matrix(row_scale_, 0, p.m, 1, 1, true);
}

float* GuardedOperands::allocate(Buffer& buffer, int64_t elements) {
  Result<GuardedBuffer> made = GuardedBuffer::create(elements * 4);
  if (!made.ok()) throw std::bad_alloc();
  buffer.emplace(std::move(made).value());
  return reinterpret_cast<float*>(buffer->data());
}

float* GuardedOperands::matrix(Buffer& buffer, int64_t stride, int64_t rows, int64_t cols, int64_t ld, bool fill) {
  float* base = allocate(buffer, elements_of(problem_.batch, stride, rows, cols, ld));
  if (!fill) return base;
  for (int64_t b = 0; b < problem_.batch; ++b)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j) base[b * stride + i * ld + j] = values_.next();
  return base;
}

template <>
float GuardedOperands::next_weight() {
  return values_.next();
}
template <>
uint16_t GuardedOperands::next_weight() {
  if (specials_ > 0 && random_.below(1000) < specials_) return static_cast<uint16_t>(random_.next());
  const float value = values_.next();
  return problem_.dtype == DType::kBf16 ? f32_to_bf16(value) : f32_to_f16(value);
}

template <typename Element>
void GuardedOperands::make_b(int64_t panel) {
  const MatmulProblem& p = problem_;
  auto memory = [&](int64_t elements) {
    Result<GuardedBuffer> made = GuardedBuffer::create(elements * static_cast<int64_t>(sizeof(Element)));
    if (!made.ok()) throw std::bad_alloc();
    b_.emplace(std::move(made).value());
    operands_.b = b_->data();
    return reinterpret_cast<Element*>(b_->data());
  };
  if (p.b != BLayout::kPacked) {
    const bool nt = p.b == BLayout::kNt;
    const int64_t rows = nt ? p.n : p.k, cols = nt ? p.k : p.n, ld = p.row_stride_b(), stride = p.batch_stride_b();
    Element* base = memory(elements_of(p.batch, stride, rows, cols, ld));
    for (int64_t item = 0; item < p.batch; ++item)
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < cols; ++j) base[item * stride + i * ld + j] = next_weight<Element>();
    return;
  }
  MatmulProblem source = p;
  source.b = BLayout::kNn;
  source.ldb = 0;
  const int64_t items = p.sb == 0 ? 1 : p.batch;
  std::vector<Element> rows(static_cast<size_t>(items * p.k * p.n));
  for (Element& e : rows) e = next_weight<Element>();
  source.batch = items;
  packed_ = {.width = panel, .kr = kr_of(dot_)};
  if (items != 1) packed_.batch_stride = packed_.elements(p.n, p.k);
  const std::vector<Element> panels = pack_b_reference(source, rows.data(), panel, packed_.kr);
  std::copy(panels.begin(), panels.end(), memory(static_cast<int64_t>(panels.size())));
}

int64_t GuardedOperands::c_elements() const {
  return elements_of(problem_.batch, problem_.batch_stride_c(), problem_.m, problem_.columns(),
                     problem_.row_stride_c());
}

void GuardedOperands::reset_c() { std::copy(initial_c_.begin(), initial_c_.end(), operands_.c); }

std::vector<const GuardedBuffer*> GuardedOperands::memory() const {
  std::vector<const GuardedBuffer*> all;
  for (const Buffer* buffer : {&a_, &b_, &c_, &bias_, &gate_, &residual_, &row_scale_})
    if (*buffer) all.push_back(&**buffer);
  return all;
}

Comparison GuardedOperands::compare_with_reference() const {
  std::vector<float> expected = initial_c_;
  MatmulOperands reference = operands_;
  reference.c = expected.data();
  class_f32(problem_, reference, packed_, dot_);
  Comparison comparison = compare_bits(problem_, operands_.c, expected.data());
  // What lies between the rows of C was NaN in both; anything else there was written.
  for (int64_t i = 0; i < c_elements(); ++i) {
    if (std::isnan(expected[static_cast<size_t>(i)]) != std::isnan(operands_.c[i])) {
      ++comparison.mismatches;
      comparison.text += " element " + std::to_string(i) + " of C's memory was written though it is padding";
      break;
    }
  }
  return comparison;
}

}  // namespace hone::matmul
