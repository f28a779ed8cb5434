// Overlap of C with what is read. Intervals are a little stricter than sets of elements: interleaving C with A in one
// allocation is refused too, because a vector kernel makes no promise about the order of its loads and stores.
#include "kernels/matmul/operands.h"

#include <fmt/format.h>

#include "engine/base/half.h"

namespace hone::matmul {
namespace {

// Elements from the first to one past the last. The problem is valid, so nothing overflows.
int64_t span(int64_t batch, int64_t batch_stride, int64_t rows, int64_t row_stride, int64_t cols) {
  if (batch == 0 || rows == 0 || cols == 0) return 0;
  return (batch - 1) * batch_stride + (rows - 1) * row_stride + cols;
}

bool overlap(const void* x, int64_t bytes_x, const void* y, int64_t bytes_y) {
  if (bytes_x == 0 || bytes_y == 0) return false;
  const auto a = reinterpret_cast<uintptr_t>(x), b = reinterpret_cast<uintptr_t>(y);
  return a < b ? b - a < static_cast<uintptr_t>(bytes_x) : a - b < static_cast<uintptr_t>(bytes_y);
}

int64_t span_b(const MatmulProblem& p, const PackedB& packed) {
  if (p.b == BLayout::kPacked) return (p.batch - 1) * packed.batch_stride + packed.elements(p.n, p.k);
  const bool nt = p.b == BLayout::kNt;
  return span(p.batch, p.batch_stride_b(), nt ? p.n : p.k, p.row_stride_b(), nt ? p.k : p.n);
}

}  // namespace

float element_b(DType dtype, const void* b, int64_t at) {
  if (dtype == DType::kBf16) return bf16_to_f32(static_cast<const uint16_t*>(b)[at]);
  if (dtype == DType::kF16) return f16_to_f32(static_cast<const uint16_t*>(b)[at]);
  return static_cast<const float*>(b)[at];
}

Status check_overlap(const MatmulProblem& p, const MatmulOperands& o, const PackedB& packed) {
  if (p.m == 0 || p.n == 0) return {};
  const bool product = p.k > 0 && p.alpha != 0;
  if (product && p.b == BLayout::kPacked && packed.width < 1) {
    return invalid_argument("b=packed needs the width of its panels, got " + std::to_string(packed.width));
  }
  const int64_t c = span(p.batch, p.batch_stride_c(), p.m, p.row_stride_c(), p.columns());
  const struct {
    const char* name;
    const void* data;
    int64_t elements;
    bool read;
    int64_t bytes = sizeof(float);  // of an element
  } reads[] = {
      {"A", o.a, span(p.batch, p.batch_stride_a(), p.m, p.row_stride_a(), p.k), product},
      {"B", o.b, product ? span_b(p, packed) : 0, product, p.bytes_b()},
      {"bias", o.bias, p.n, p.has(EpilogueOp::kBias)},
      {"gate", o.gate, c, p.has(EpilogueOp::kGate)},
      {"residual", o.residual, c, p.has(EpilogueOp::kResidual)},
      {"row_scale", o.row_scale, p.m, p.has(EpilogueOp::kRowScale)},
  };
  if (o.c == nullptr) return invalid_argument("C is null");
  for (const auto& r : reads) {
    if (!r.read) continue;
    if (r.data == nullptr) return invalid_argument(fmt::format("{} is null but the problem reads it", r.name));
    if (overlap(o.c, c * static_cast<int64_t>(sizeof(float)), r.data, r.elements * r.bytes)) {
      return invalid_argument(fmt::format("C overlaps {} ({} elements at {}, C {} at {}); give C memory of its own",
                                          r.name, r.elements, fmt::ptr(r.data), c, fmt::ptr(o.c)));
    }
  }
  return {};
}

}  // namespace hone::matmul
