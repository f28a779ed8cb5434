// See decoder.h.
#include "kernels/rows/decoder.h"

#include <string>

namespace hone::rows {
namespace {

using Value = ProgramBuilder::Value;

// 1 / sqrt(squares / n + eps)
Value factor_of(ProgramBuilder& b, Value squares, int64_t n, float eps) {
  const Value mean = b.apply(StepOp::kDiv, squares, b.constant(static_cast<float>(n)));
  return b.apply(StepOp::kRsqrt, b.apply(StepOp::kAdd, mean, b.constant(eps)));
}

// (x * (1 / sqrt(squares / n + eps))) * w
Value normalised(ProgramBuilder& b, Value x, Value squares, Value w, int64_t n, float eps) {
  return b.apply(StepOp::kMul, b.apply(StepOp::kMul, x, factor_of(b, squares, n, eps)), w);
}

RowProgram rope(const char* name, Columns columns, int outer, int64_t head_dim, bool gather) {
  ProgramBuilder b(name, outer, head_dim / 2);
  const int x = b.in(columns), cos = b.in(Columns::kDense, DType::kF32, gather ? 0 : -1),
            sin = b.in(Columns::kDense, DType::kF32, gather ? 0 : -1), y = b.out(columns);
  const Value x1 = b.load(x, 0), x2 = b.load(x, 1), c = b.load(cos), s = b.load(sin);
  const Value x1c = b.apply(StepOp::kMul, x1, c), x2s = b.apply(StepOp::kMul, x2, s);
  const Value x2c = b.apply(StepOp::kMul, x2, c), x1s = b.apply(StepOp::kMul, x1, s);
  const Value y1 = b.apply(StepOp::kSub, x1c, x2s), y2 = b.apply(StepOp::kAdd, x2c, x1s);
  b.store(y, y1, y2);
  return b.finish();
}

}  // namespace

int emit_rms_norm(ProgramBuilder& b, int x, int w, int64_t n, float eps) {
  return normalised(b, x, b.apply(StepOp::kReduceDot, x, x), w, n, eps);
}

int emit_rms_scale(ProgramBuilder& b, int x, int64_t n, float eps) {
  return factor_of(b, b.apply(StepOp::kReduceDot, x, x), n, eps);
}

int emit_layer_norm(ProgramBuilder& b, int x, int w, int64_t n, float eps) {
  const Value mean = b.apply(StepOp::kDiv, b.apply(StepOp::kReduceSum, x), b.constant(static_cast<float>(n)));
  const Value centred = b.apply(StepOp::kSub, x, mean);
  return normalised(b, centred, b.apply(StepOp::kReduceDot, centred, centred), w, n, eps);
}

int emit_softmax(ProgramBuilder& b, int x, float scale, int waiting) {
  const Value scaled = scale == 1.0F ? x : b.apply(StepOp::kMul, x, b.constant(scale));
  const Value largest = b.apply(StepOp::kReduceMaxNumber, scaled);
  const Value e = b.apply(StepOp::kExpNonPositive, b.apply(StepOp::kSub, scaled, largest));
  if (waiting >= 0) b.store(waiting, e);
  const Value inverse = b.apply(StepOp::kReciprocal, b.apply(StepOp::kReduceSum, e));
  return b.apply(StepOp::kMul, waiting >= 0 ? b.load(waiting) : e, inverse);
}

RowProgram rms_norm(RowShape shape, float eps) {
  ProgramBuilder b("rms_norm", shape.outer, shape.n);
  const int x = b.in(), w = b.in(), y = b.out();
  const Value v = b.load(x), weight = b.load(w);
  b.store(y, emit_rms_norm(b, v, weight, shape.n, eps));
  return b.finish();
}

RowProgram rms_scale(RowShape shape, float eps) {
  ProgramBuilder b("rms_scale", shape.outer, shape.n);
  const int x = b.in(), y = b.out(Columns::kOne);
  b.store(y, emit_rms_scale(b, b.load(x), shape.n, eps));
  return b.finish();
}

RowProgram add_rms_norm(RowShape shape, float eps) {
  ProgramBuilder b("add_rms_norm", shape.outer, shape.n);
  const int a = b.in(), c = b.in(), w = b.in(), h = b.out(), y = b.out();
  const Value left = b.load(a), right = b.load(c);
  const Value sum = b.apply(StepOp::kAdd, left, right);
  b.store(h, sum);
  const Value squares = b.apply(StepOp::kReduceDot, sum, sum);
  const Value again = b.load(h), weight = b.load(w);
  b.store(y, normalised(b, again, squares, weight, shape.n, eps));
  return b.finish();
}

RowProgram layer_norm(RowShape shape, float eps, bool bias) {
  ProgramBuilder b(bias ? "layer_norm_bias" : "layer_norm", shape.outer, shape.n);
  const int x = b.in(), w = b.in(), c = bias ? b.in() : -1, y = b.out();
  const Value v = b.load(x), weight = b.load(w);
  const Value scaled = emit_layer_norm(b, v, weight, shape.n, eps);
  b.store(y, bias ? b.apply(StepOp::kAdd, scaled, b.load(c)) : scaled);
  return b.finish();
}

// The exponentials wait in y for their sum.
RowProgram softmax(RowShape shape, float scale) {
  ProgramBuilder b("softmax", shape.outer, shape.n);
  const int x = b.in(), y = b.out();
  b.store(y, emit_softmax(b, b.load(x), scale, y));
  return b.finish();
}

RowProgram gated(RowShape shape, StepOp activation) {
  ProgramBuilder b(std::string(step_info(activation).name) + "_mul", shape.outer, shape.n);
  const int gate = b.in(), up = b.in(), y = b.out();
  const Value activated = b.apply(activation, b.load(gate));
  b.store(y, b.apply(StepOp::kMul, activated, b.load(up)));
  return b.finish();
}

RowProgram binary_map(RowShape shape, StepOp op) {
  ProgramBuilder b(std::string(step_info(op).name), shape.outer, shape.n);
  const int left = b.in(), right = b.in(), y = b.out();
  const Value l = b.load(left), r = b.load(right);
  b.store(y, b.apply(op, l, r));
  return b.finish();
}

RowProgram unary_map(RowShape shape, StepOp op) {
  ProgramBuilder b(std::string(step_info(op).name), shape.outer, shape.n);
  const int x = b.in(), y = b.out();
  b.store(y, b.apply(op, b.load(x)));
  return b.finish();
}

RowProgram scale(RowShape shape, float factor) {
  ProgramBuilder b("scale", shape.outer, shape.n);
  const int x = b.in(), y = b.out();
  const Value v = b.load(x);
  b.store(y, b.apply(StepOp::kMul, v, b.constant(factor)));
  return b.finish();
}

RowProgram rope_half(int outer, int64_t head_dim, bool gather) {
  return rope("rope_half", Columns::kHalves, outer, head_dim, gather);
}

RowProgram rope_interleaved(int outer, int64_t head_dim, bool gather) {
  return rope("rope_interleaved", Columns::kPairs, outer, head_dim, gather);
}

RowProgram copy(RowShape shape, DType dtype, Columns from, Columns to) {
  ProgramBuilder b("copy", shape.outer, shape.n);
  const int x = b.in(from, dtype), y = b.out(to, dtype);
  b.store(y, b.load(x));
  return b.finish();
}

RowProgram gather_rows(RowShape shape, DType dtype) {
  ProgramBuilder b("gather_rows", shape.outer, shape.n);
  const int x = b.in(Columns::kDense, dtype, 0),
            y = b.out(Columns::kDense, is_16bit_float(dtype) ? DType::kF32 : dtype);
  b.store(y, b.load(x));
  return b.finish();
}

RowProgram reduce_columns(RowShape shape, StepOp reduction) {
  ProgramBuilder b(std::string(step_info(reduction).name), shape.outer, shape.n);
  const int x = b.in(), y = b.out(Columns::kOne);
  b.store(y, b.apply(reduction, b.load(x)));
  return b.finish();
}

}  // namespace hone::rows
