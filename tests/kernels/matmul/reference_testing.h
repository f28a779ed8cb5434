// Operands of a matmul for tests: random values, NaN in all padding, C filled with NaN unless beta reads it.
#pragma once

#include <limits>
#include <random>
#include <vector>

#include "kernels/matmul/operands.h"
#include "kernels/matmul/reference.h"

namespace hone::matmul {

struct TestMatmul {
  MatmulProblem problem;
  PackedB packed;
  std::vector<float> a, b, c, bias, gate, residual, row_scale;

  // `width`: of the panels where b=packed.
  TestMatmul(const MatmulProblem& p, int64_t width, unsigned seed) : problem(p), packed{width, 0} {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 1);
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    auto matrix = [&](int64_t stride, int64_t rows, int64_t ld, int64_t cols, bool filled) {
      const int64_t size = (p.batch - 1) * stride + (rows > 0 ? (rows - 1) * ld + cols : 0);
      std::vector<float> data(static_cast<size_t>(size), kNan);
      for (int64_t item = 0; filled && item < p.batch; ++item)
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t j = 0; j < cols; ++j) data[static_cast<size_t>(item * stride + i * ld + j)] = normal(random);
      return data;
    };
    a = matrix(p.batch_stride_a(), p.m, p.row_stride_a(), p.k, true);
    const bool nt = p.b == BLayout::kNt;
    b = matrix(p.batch_stride_b(), nt ? p.n : p.k, p.row_stride_b(), nt ? p.k : p.n, true);
    if (p.b == BLayout::kPacked) {
      MatmulProblem source = p;
      source.b = BLayout::kNn;
      b = pack_b_reference(source, b.data(), width);
      packed.batch_stride = p.batch_stride_b() == 0 ? 0 : packed.elements(p.n, p.k);
    }
    auto like_c = [&](bool filled) { return matrix(p.batch_stride_c(), p.m, p.row_stride_c(), p.columns(), filled); };
    c = like_c(p.beta != 0);
    gate = like_c(true);
    residual = like_c(true);
    for (int64_t j = 0; j < p.n; ++j) bias.push_back(normal(random));
    for (int64_t i = 0; i < p.m; ++i) row_scale.push_back(normal(random));
  }

  MatmulOperands operands() {
    return {a.data(), b.data(), c.data(), bias.data(), gate.data(), residual.data(), row_scale.data()};
  }
};

}  // namespace hone::matmul
