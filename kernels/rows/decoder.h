// The row programs of a decoder. Each says which operands it has, in order, and what it computes; every op rounds once,
// nothing is fused but where `dot` says so.
#pragma once

#include "kernels/rows/program.h"

namespace hone::rows {

struct RowShape {
  int outer = 1;
  int64_t n = kRuntime;
};

// x, w -> y:  y = (x * (1 / sqrt(dot(x, x) / n + eps))) * w. Division by n, not multiplication by 1 / n. n constant.
RowProgram rms_norm(RowShape shape, float eps);
// x -> y, one element a row:  y = 1 / sqrt(dot(x, x) / n + eps), rms_norm's factor. n constant.
RowProgram rms_scale(RowShape shape, float eps);
// a, b, w -> h, y:  h = a + b, y = rms_norm(h). h may share memory with a or b, y with none of them.
RowProgram add_rms_norm(RowShape shape, float eps);
// x, w [, bias] -> y:  d = x - sum(x) / n, y = (d * (1 / sqrt(dot(d, d) / n + eps))) * w [+ bias]. n constant.
RowProgram layer_norm(RowShape shape, float eps, bool bias);
// x -> y:  e = exp(scale x - max(scale x)), y = e * (1 / sum(e)). A row of -inf alone gives NaN, as does NaN or +inf.
RowProgram softmax(RowShape shape, float scale);

// The same as steps of a longer program: x and w are values of `b`, as is the result. layer_norm without its bias. In
// `waiting` (an output or scratch operand, both written and read) softmax keeps its exponentials until their sum is
// known; -1: they are computed again.
int emit_rms_norm(ProgramBuilder& b, int x, int w, int64_t n, float eps);
int emit_rms_scale(ProgramBuilder& b, int x, int64_t n, float eps);
int emit_layer_norm(ProgramBuilder& b, int x, int w, int64_t n, float eps);
int emit_softmax(ProgramBuilder& b, int x, float scale, int waiting);

// gate, up -> y:  y = activation(gate) * up (kSilu: SwiGLU).
RowProgram gated(RowShape shape, StepOp activation);
inline RowProgram silu_mul(RowShape shape) { return gated(shape, StepOp::kSilu); }
// a, b -> y, of a binary step.
RowProgram binary_map(RowShape shape, StepOp op);
// x -> y, of a unary step.
RowProgram unary_map(RowShape shape, StepOp op);
// x -> y:  y = x * factor
RowProgram scale(RowShape shape, float factor);

// x, cos, sin -> y, of rows of `head_dim`; cos and sin have head_dim / 2 a row (of a table of twice that, the first
// half): y1 = x1 * cos - x2 * sin, y2 = x2 * cos + x1 * sin, where (x1, x2) are column i and i + head_dim / 2 (half) or
// 2 i and 2 i + 1 (interleaved). y may be x. With `gather`, the rows of cos and sin along outer dimension 0 are those
// that their tables of positions say. head_dim even.
RowProgram rope_half(int outer, int64_t head_dim, bool gather = false);
RowProgram rope_interleaved(int outer, int64_t head_dim, bool gather = false);

// x -> y. kStrided: transposes.
RowProgram copy(RowShape shape, DType dtype = DType::kF32, Columns from = Columns::kDense,
                Columns to = Columns::kDense);
// table of rows (gathered along outer dimension 0) -> y
RowProgram gather_rows(RowShape shape, DType dtype = DType::kF32);
// x -> y of one element a row, of a reduction step of one value.
RowProgram reduce_columns(RowShape shape, StepOp reduction);

}  // namespace hone::rows
