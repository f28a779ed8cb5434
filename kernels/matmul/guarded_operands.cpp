// See guarded_operands.h.
#include "kernels/matmul/guarded_operands.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "kernels/matmul/program.h"

namespace hone::matmul {
namespace {

int64_t elements_of(int64_t batch, int64_t stride, int64_t rows, int64_t cols, int64_t ld) {
  if (rows == 0 || cols == 0) return 0;
  return (batch - 1) * stride + (rows - 1) * ld + cols;
}

}  // namespace

GuardedOperands::GuardedOperands(const MatmulProblem& problem, int64_t panel, uint64_t seed, int specials)
    : problem_(problem), random_(seed), values_(random_, specials) {
  const MatmulProblem& p = problem_;
  operands_.a = matrix(a_, p.batch_stride_a(), p.m, p.k, p.row_stride_a(), true);
  make_b(panel);
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

void GuardedOperands::make_b(int64_t panel) {
  const MatmulProblem& p = problem_;
  if (p.b != BLayout::kPacked) {
    const bool nt = p.b == BLayout::kNt;
    operands_.b = matrix(b_, p.batch_stride_b(), nt ? p.n : p.k, nt ? p.k : p.n, p.row_stride_b(), true);
    return;
  }
  MatmulProblem source = p;
  source.b = BLayout::kNn;
  source.ldb = 0;
  const int64_t items = p.sb == 0 ? 1 : p.batch;
  std::vector<float> rows(static_cast<size_t>(items * p.k * p.n));
  for (float& f : rows) f = values_.next();
  source.batch = items;
  const std::vector<float> panels = pack_b_reference(source, rows.data(), panel);
  float* b = allocate(b_, static_cast<int64_t>(panels.size()));
  std::copy(panels.begin(), panels.end(), b);
  operands_.b = b;
  packed_ = {.width = panel, .batch_stride = items == 1 ? 0 : packed_elements(p.n, p.k, panel)};
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
  ordered_f32(problem_, reference, packed_);
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
