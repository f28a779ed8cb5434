// The epilogue as LoopIR. Order is part of the numerics: v = T; v = alpha v; v = fma(beta, C, v); then the chain, one
// rounding per operation, activations as in kernels/math.
#include "kernels/matmul/activation_internal.h"
#include "kernels/matmul/lower_internal.h"

namespace hone::matmul {

using ir::BinaryOp;
using ir::Builder;
using ir::RegRef;

EpilogueEmitter::EpilogueEmitter(Builder& builder, const MatmulProblem& problem, int lanes)
    : b_(builder), p_(problem), ops_(builder, lanes) {
  v_ = b_.reg("v", {.lanes = lanes});
  w_ = b_.reg("w", {.lanes = lanes});
  if (p_.alpha != 1) alpha_ = b_.reg("alpha", {.lanes = lanes});
  if (p_.beta != 0) beta_ = b_.reg("beta", {.lanes = lanes});
}

void EpilogueEmitter::declare() {
  if (alpha_ >= 0) b_.constant(Builder::at(alpha_), p_.alpha);
  if (beta_ >= 0) b_.constant(Builder::at(beta_), p_.beta);
  for (EpilogueOp op : p_.epilogue)
    if (const std::optional<math::Activation> a = activation_of(op)) ops_.declare(*a);
}

void EpilogueEmitter::emit(const EpilogueAccesses& at, RegRef mask) {
  const RegRef v = Builder::at(v_), w = Builder::at(w_);
  b_.load(v, at.sum, at.sum_masked ? mask : RegRef{});
  if (alpha_ >= 0) b_.binary(BinaryOp::kMul, v, Builder::at(alpha_), v);
  if (beta_ >= 0) {
    b_.load(w, at.c, mask);
    b_.fma(v, Builder::at(beta_), w, v);
  }
  for (EpilogueOp op : p_.epilogue) apply(op, at, mask);
  b_.store(at.c, v, mask);
}

void EpilogueEmitter::apply(EpilogueOp op, const EpilogueAccesses& at, RegRef mask) {
  const RegRef v = Builder::at(v_), w = Builder::at(w_);
  if (const std::optional<math::Activation> a = activation_of(op)) return ops_.apply(*a, v);
  const ir::Access& operand = op == EpilogueOp::kBias ? at.bias : op == EpilogueOp::kGate ? at.gate : at.residual;
  b_.load(w, operand, mask);
  b_.binary(op == EpilogueOp::kGate ? BinaryOp::kMul : BinaryOp::kAdd, v, v, w);
}

}  // namespace hone::matmul
