// One step on one vector register. What each computes is told by reference.cpp, operation by operation; each LoopIR op
// here rounds once, as there.
#include <limits>

#include "kernels/rows/lower_internal.h"

namespace hone::rows {

using ir::BinaryOp;
using ir::CompareOp;
using ir::RegRef;
using ir::UnaryOp;
using math::Activation;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
// log works within [kSmall, kLarge]; beyond, on x times or over 2^64, whose logarithm is kShift.
constexpr float kSmall = 0x1p-126F, kLarge = 0x1p126F, kUp = 0x1p64F, kDown = 0x1p-64F, kShift = 44.3614196F;
// Between integers whose roundings are less than this apart, a difference does not wrap.
constexpr float kFar = 0x1p30F;

// Steps that are one activation of kernels/math.
const Activation* activation_of(StepOp op) {
  static constexpr struct {
    StepOp op;
    Activation activation;
  } kRows[] = {
      {StepOp::kExp, Activation::kExp},         {StepOp::kExpNonPositive, Activation::kExpNonPositive},
      {StepOp::kTanh, Activation::kTanh},       {StepOp::kErf, Activation::kErf},
      {StepOp::kSilu, Activation::kSilu},       {StepOp::kGeluTanh, Activation::kGeluTanh},
      {StepOp::kGeluErf, Activation::kGeluErf}, {StepOp::kRelu, Activation::kRelu},
  };
  for (const auto& row : kRows)
    if (row.op == op) return &row.activation;
  return nullptr;
}

}  // namespace

void RowLowering::declare_step_constants(const Step& step) {
  auto declare = [&](std::initializer_list<float> values) {
    for (const float v : values) ops_.declare_constant(v);
  };
  if (const Activation* activation = activation_of(step.op)) ops_.declare(*activation);
  switch (step.op) {
    case StepOp::kRsqrt:
    case StepOp::kReciprocal:
      return declare({1.0F});
    case StepOp::kLt:
    case StepOp::kLe:
    case StepOp::kEq:
      if (plan_.values[static_cast<size_t>(step.args[0])].type == ValueType::kS32) declare({0.0F, kFar});
      return;
    case StepOp::kToFloat:
    case StepOp::kToInt:
    case StepOp::kAnd:
    case StepOp::kOr:
    case StepOp::kNot:
      return declare({0.0F, 1.0F});
    case StepOp::kLogistic:
      ops_.declare(Activation::kExp);
      return declare({1.0F});
    case StepOp::kLog:
      ops_.declare(Activation::kLog);
      return declare(
          {0.0F, kInf, -kInf, std::numeric_limits<float>::quiet_NaN(), kSmall, kLarge, kUp, kDown, kShift, -kShift});
    default:
      return;
  }
}

void RowLowering::compute(const Step& step, int i) {
  const RegRef& out = value(i);
  switch (step_info(step.op).family) {
    case StepFamily::kUnary:
      return unary(step.op, out, arg(step, 0));
    case StepFamily::kToFloat:
      return to_float(out, step);
    case StepFamily::kToInt:
      return truncate(out, arg(step, 0));
    case StepFamily::kLogic:
      return logic(step, out);
    case StepFamily::kBinary: {
      if (step.op == StepOp::kMax || step.op == StepOp::kMin) return extreme(step.op, out, arg(step, 0), arg(step, 1));
      constexpr BinaryOp kOps[] = {BinaryOp::kAdd, BinaryOp::kSub, BinaryOp::kMul, BinaryOp::kDiv};
      return b_.binary(kOps[static_cast<size_t>(step.op) - static_cast<size_t>(StepOp::kAdd)], out, arg(step, 0),
                       arg(step, 1));
    }
    case StepFamily::kTernary:
      return b_.fma(out, arg(step, 0), arg(step, 1), arg(step, 2));
    case StepFamily::kCompare:
      return compare(step, out);
    case StepFamily::kSelect:
      return b_.select(out, arg(step, 0), arg(step, 1), arg(step, 2));
    default:
      return;  // loads, constants, reductions and stores are no arithmetic
  }
}

void RowLowering::unary(StepOp op, const RegRef& out, const RegRef& x) {
  auto one_over = [&](const RegRef& d) { b_.binary(BinaryOp::kDiv, out, ops_.constant(1.0F).ref(), d); };
  if (const Activation* activation = activation_of(op)) {
    b_.unary(UnaryOp::kMove, out, x);
    return ops_.apply(*activation, out);
  }
  switch (op) {
    case StepOp::kNeg:
      return b_.unary(UnaryOp::kNeg, out, x);
    case StepOp::kAbs:
      return b_.unary(UnaryOp::kAbs, out, x);
    case StepOp::kSqrt:
      return b_.unary(UnaryOp::kSqrt, out, x);
    case StepOp::kRsqrt:
      b_.unary(UnaryOp::kSqrt, out, x);
      return one_over(out);
    case StepOp::kReciprocal:
      return one_over(x);
    case StepOp::kLog:
      return logarithm(out, x);
    default:  // kLogistic
      b_.unary(UnaryOp::kNeg, out, x);
      ops_.apply(Activation::kExp, out);
      b_.binary(BinaryOp::kAdd, out, out, ops_.constant(1.0F).ref());
      return one_over(out);
  }
}

void RowLowering::to_float(const RegRef& out, const Step& step) {
  if (plan_.values[static_cast<size_t>(step.args[0])].type == ValueType::kS32)
    return b_.unary(UnaryOp::kToFloat, out, arg(step, 0));
  b_.select(out, arg(step, 0), ops_.constant(1.0F).ref(), ops_.constant(0.0F).ref());
}

// Rounded to the nearest integer, and one step back where that went beyond x. What is out of range stays 0x80000000.
void RowLowering::truncate(const RegRef& out, const RegRef& x) {
  const RegRef zero = ops_.constant(0.0F).ref(), one = ops_.constant(1.0F).ref();
  const RegRef &nearest = spare_, &back = spare_next_;
  b_.unary(UnaryOp::kToInt, out, x);
  b_.unary(UnaryOp::kToFloat, nearest, out);
  // x >= 0: nearest - 1 where x < nearest
  b_.compare(CompareOp::kLt, test_, x, nearest);
  b_.select(back, test_, one, zero);
  b_.compare(CompareOp::kLe, test_, zero, x);
  b_.select(back, test_, back, zero);
  b_.binary(BinaryOp::kSub, nearest, nearest, back);
  // x < 0: nearest + 1 where nearest < x
  b_.compare(CompareOp::kLt, test_, nearest, x);
  b_.select(back, test_, one, zero);
  b_.compare(CompareOp::kLt, test_, x, zero);
  b_.select(back, test_, back, zero);
  b_.binary(BinaryOp::kAdd, nearest, nearest, back);
  b_.unary(UnaryOp::kToInt, out, nearest);
}

// LoopIR compares floats. The sign of a - b says how two integers stand to each other, but where it wraps; there they
// are so far apart that their roundings to f32 say it.
void RowLowering::compare(const Step& step, const RegRef& out) {
  constexpr CompareOp kOps[] = {CompareOp::kLt, CompareOp::kLe, CompareOp::kEq};
  const CompareOp op = kOps[static_cast<size_t>(step.op) - static_cast<size_t>(StepOp::kLt)];
  const RegRef &a = arg(step, 0), &b = arg(step, 1);
  if (plan_.values[static_cast<size_t>(step.args[0])].type == ValueType::kF32) return b_.compare(op, out, a, b);
  const RegRef &far = spare_, &near = spare_next_;
  const RegRef difference = vector("difference", DType::kS32);
  b_.unary(UnaryOp::kToFloat, far, a);
  b_.unary(UnaryOp::kToFloat, near, b);
  b_.binary(BinaryOp::kSub, far, far, near);
  b_.unary(UnaryOp::kAbs, near, far);
  b_.compare(CompareOp::kLt, test_, near, ops_.constant(kFar).ref());
  b_.binary(BinaryOp::kSub, difference, a, b);
  b_.unary(UnaryOp::kToFloat, near, difference);
  b_.select(far, test_, near, far);
  b_.compare(op, out, far, ops_.constant(0.0F).ref());
}

// LoopIR has no operations on masks; 1 and 0 stand in.
void RowLowering::logic(const Step& step, const RegRef& out) {
  const RegRef zero = ops_.constant(0.0F).ref(), one = ops_.constant(1.0F).ref();
  if (step.op == StepOp::kNot) {
    b_.select(spare_, arg(step, 0), zero, one);
  } else {
    b_.select(spare_, arg(step, 1), one, zero);
    step.op == StepOp::kAnd ? b_.select(spare_, arg(step, 0), spare_, zero)
                            : b_.select(spare_, arg(step, 0), one, spare_);
  }
  b_.compare(CompareOp::kLt, out, zero, spare_);
}

// NaN where either is; of equal ones the second.
void RowLowering::extreme(StepOp op, const RegRef& out, const RegRef& a, const RegRef& b) {
  b_.binary(op == StepOp::kMax ? BinaryOp::kMax : BinaryOp::kMin, out, a, b);
  b_.compare(CompareOp::kEq, test_, a, a);
  b_.select(out, test_, out, a);
}

void RowLowering::logarithm(const RegRef& out, const RegRef& x) {
  auto constant = [&](float v) { return ops_.constant(v).ref(); };
  auto where = [&](CompareOp compare, const RegRef& a, const RegRef& b, const RegRef& yes, const RegRef& to) {
    b_.compare(compare, test_, a, b);
    b_.select(to, test_, yes, to);
  };
  const RegRef &scaled = spare_, &shift = spare_next_;
  b_.unary(UnaryOp::kMove, out, x);
  b_.unary(UnaryOp::kMove, shift, constant(0.0F));
  b_.binary(BinaryOp::kMul, scaled, x, constant(kUp));
  where(CompareOp::kLt, x, constant(kSmall), scaled, out);
  where(CompareOp::kLt, x, constant(kSmall), constant(-kShift), shift);
  b_.binary(BinaryOp::kMul, scaled, x, constant(kDown));
  where(CompareOp::kLt, constant(kLarge), x, scaled, out);
  where(CompareOp::kLt, constant(kLarge), x, constant(kShift), shift);
  ops_.apply(Activation::kLog, out);
  b_.binary(BinaryOp::kAdd, out, out, shift);
  where(CompareOp::kEq, x, constant(0.0F), constant(-kInf), out);
  where(CompareOp::kLt, x, constant(0.0F), constant(std::numeric_limits<float>::quiet_NaN()), out);
  where(CompareOp::kEq, x, constant(kInf), x, out);
  b_.compare(CompareOp::kEq, test_, x, x);
  b_.select(out, test_, out, x);
}

}  // namespace hone::rows
