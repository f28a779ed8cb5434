// From a problem and its operands to the arguments of the lowered kernel.
#pragma once

#include <array>

#include "kernels/matmul/operands.h"
#include "kernels/matmul/problem.h"

namespace hone::matmul {

struct Arguments {
  std::array<void*, 7> buffers{};   // a, b, c, then bias, gate, residual, row_scale as far as used
  std::array<int64_t, 4> params{};  // m, sa, sb, sc
};

// `packed` is read for b=packed only. A kernel that reads pairs counts them where others count elements.
inline Arguments bind(const MatmulProblem& p, const MatmulOperands& o, const PackedB& packed = {}) {
  auto erase_const = [](const void* data) { return const_cast<void*>(data); };
  Arguments args;
  args.buffers = {erase_const(o.a), erase_const(o.b), o.c};
  size_t next = 3;
  if (p.has(EpilogueOp::kBias)) args.buffers[next++] = erase_const(o.bias);
  if (p.has(EpilogueOp::kGate)) args.buffers[next++] = erase_const(o.gate);
  if (p.has(EpilogueOp::kResidual)) args.buffers[next++] = erase_const(o.residual);
  if (p.has(EpilogueOp::kRowScale)) args.buffers[next++] = erase_const(o.row_scale);
  args.params = {p.m, p.batch_stride_a(),
                 p.b == BLayout::kPacked ? packed.batch_stride / packed.kr : p.batch_stride_b(), p.batch_stride_c()};
  return args;
}

}  // namespace hone::matmul
