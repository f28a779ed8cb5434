// The epilogue as LoopIR. Order is part of the numerics: v = T; v = alpha v; v = fma(beta, C, v); then the chain, one
// rounding per operation, activations as in kernels/math. With swiglu there are two v, one of the gate's column and one
// of the up projection's, until it multiplies them.
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
  if (p_.swiglu() && (p_.has(EpilogueOp::kBias) || p_.has(EpilogueOp::kRowScale)))
    up_operand_ = b_.reg("u", {.lanes = lanes});
}

void EpilogueEmitter::declare() {
  if (alpha_ >= 0) b_.constant(Builder::at(alpha_), p_.alpha);
  if (beta_ >= 0) b_.constant(Builder::at(beta_), p_.beta);
  for (EpilogueOp op : p_.epilogue)
    if (const std::optional<math::Activation> a = activation_of(op)) ops_.declare(*a);
  if (p_.swiglu()) ops_.declare(math::Activation::kSilu);
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
  if (op == EpilogueOp::kSwiglu) return swiglu(at);
  if (op == EpilogueOp::kRowScale) {
    b_.broadcast(w, at.row_scale);
    b_.binary(BinaryOp::kMul, v, v, w);
    return;
  }
  const ir::Access& operand = op == EpilogueOp::kBias ? at.bias : op == EpilogueOp::kGate ? at.gate : at.residual;
  b_.load(w, operand, mask);
  b_.binary(op == EpilogueOp::kGate ? BinaryOp::kMul : BinaryOp::kAdd, v, v, w);
}

// The up columns are not loaded before silu is through with its temporaries. No mask: both halves are whole vectors.
void EpilogueEmitter::swiglu(const EpilogueAccesses& at) {
  const RegRef v = Builder::at(v_), w = Builder::at(w_);
  ops_.apply(math::Activation::kSilu, v);
  b_.load(w, at.up);
  if (alpha_ >= 0) b_.binary(BinaryOp::kMul, w, Builder::at(alpha_), w);
  if (p_.has(EpilogueOp::kRowScale)) {
    b_.broadcast(Builder::at(up_operand_), at.row_scale);
    b_.binary(BinaryOp::kMul, w, w, Builder::at(up_operand_));
  }
  if (p_.has(EpilogueOp::kBias)) {
    b_.load(Builder::at(up_operand_), at.up_bias);
    b_.binary(BinaryOp::kAdd, w, w, Builder::at(up_operand_));
  }
  b_.binary(BinaryOp::kMul, v, v, w);
}

}  // namespace hone::matmul
