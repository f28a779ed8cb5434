// Which epilogue ops are activations of kernels/math; the others take an operand, or a second column.
#pragma once

#include <optional>

#include "kernels/math/scalar_ops.h"
#include "kernels/matmul/problem.h"

namespace hone::matmul {

constexpr std::optional<math::Activation> activation_of(EpilogueOp op) {
  switch (op) {
    case EpilogueOp::kGeluTanh:
      return math::Activation::kGeluTanh;
    case EpilogueOp::kGeluErf:
      return math::Activation::kGeluErf;
    case EpilogueOp::kSilu:
      return math::Activation::kSilu;
    case EpilogueOp::kRelu:
      return math::Activation::kRelu;
    case EpilogueOp::kBias:
    case EpilogueOp::kGate:
    case EpilogueOp::kResidual:
    case EpilogueOp::kRowScale:
    case EpilogueOp::kSwiglu:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace hone::matmul
