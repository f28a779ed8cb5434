// What each op of a graph computes. Attributes are in braces, optional ones in brackets; T is a tensor of the operand's
// type unless said otherwise. All tensors are f32, s32 or u8 (a truth value: 0 or 1), and constants also bf16 or f16.
//
// bf16 and f16 are how weights are stored: matmul's b and gather's x may be, and count as the f32 that their elements
// widen to exactly; results are f32. reshape, transpose, slice and concatenate move them. No other operand, no input,
// state or output is.
//
// Elements. No implicit broadcasting: operands have one shape.
//   constant {value}                     a constant of the graph
//   iota {axis}                          element = its index along axis; shape and dtype are those of the result
//   convert                              to the dtype of the result. f32 -> s32 truncates and saturates, NaN gives 0;
//                                        -> u8 is x != 0
//   neg abs exp log tanh erf logistic sqrt rsqrt sin cos    f32; neg and abs also s32. rsqrt(x) = 1 / sqrt(x)
//   add sub mul div max min pow          f32, s32 (wraps; div truncates, x / 0 is -1; pow f32 only). max and min give
//                                        NaN if either is, and of equal ones the second
//   logical_not logical_and logical_or   u8
//   compare {direction}                  EQ NE LT LE GT GE -> u8; false when either is NaN, but for NE
//   select(c, a, b)                      c ? a : b, c is u8 of the shape of a, or a scalar
//
// Shapes
//   broadcast {dims}                     dimension i of x becomes dimension dims[i] of the result, a 1 is repeated
//   reshape                              row-major order stays
//   transpose {perm}                     dimension i of the result is dimension perm[i] of x
//   slice {start, limit [, stride]}      static numbers, one for each dimension. limit -1: to the end, as for a
//                                        symbolic dimension that is taken whole
//   concatenate {axis}
//   gather(x, indices)                   rows of x: result[i.., j..] = x[indices[i..], j..]. An index out of range is
//                                        an error. f32 for x of bf16 or f16
//   dynamic_slice(x, start..) {sizes}    start is clamped so that the slice fits, as StableHLO says
//   dynamic_update_slice(x, update, start..)
//
// Sums
//   reduce {kind, axes}                  sum max min; dimensions go. Sums of f32 are of class lanes16 (kernels/rows)
//                                        along the last axis of what is reduced, in row-major order of all axes
//   dot_general {lhs_batch, rhs_batch, lhs_contract, rhs_contract}
//                                        result = batch dimensions, those left of lhs, those left of rhs. One chain of
//                                        fused multiply-adds ascending: class `ordered`
//   top_k {k}                            along the last axis: values and indices (s32), largest first, NaN before
//                                        all; of equal ones the lower index first
//
// A decoder's
//   matmul(a, b, ..) {layout [, epilogue]}   a [.., k]; b [n, k] ("nt") or [k, n] ("nn"); result [.., n]. epilogue is
//                                        the text of a MatmulProblem's ("+bias+gelu", "+residual", "*gate",
//                                        "+swiglu", "*row_scale"); operands bias [n], gate, residual [.., n] and
//                                        row_scale [..] follow in its order
//   attention(q, k, v [, mask]) {causal [, window, scale, softcap, group]}
//                                        q [s, H, d], k [t, G, d], v [t, G, dv] -> [s, H, dv]; all may have one more
//                                        dimension b in front. H is a multiple of G: query head h reads head h / (H/G).
//                                        causal: row i sees keys j <= i + t - s. scale: default 1 / sqrt(d). mask f32,
//                                        added, or u8, 0 hides: [s, t], or [b, s, t]. group, where given, is H/G.
//                                        Class online(256)
//   rms_norm(x, w) {eps}                 along the last axis: x / sqrt(mean(x^2) + eps) * w. Class lanes16
//   rms_scale(x) {eps}                   1 / sqrt(mean(x^2) + eps) of each row, without the last dimension: what
//                                        rms_norm multiplies a row by, bit for bit
//   layer_norm(x, w [, b]) {eps}         (x - mean) / sqrt(mean((x - mean)^2) + eps) * w + b
//   rope(x, inv_freq [, positions]) {style [, offset]}
//                                        x [.., s, heads, d], inv_freq [d/2]. The angle of row r is
//                                        (positions[r], or offset + r) * inv_freq. style "half" pairs j with j + d/2,
//                                        "interleaved" 2j with 2j + 1: (x1 cos - x2 sin, x2 cos + x1 sin), each
//                                        operation rounding once. cos and sin are those of math.h in double of the
//                                        angle in f32, rounded to f32. offset is a dimension, such as the position p
//   softmax(x) {[scale]}                 of scale * x along the last axis
//   silu gelu {approximate: "tanh"|"erf"}
//   swiglu(gate, up)                     silu(gate) * up
//   experts(x, indices, weights, w_gate, w_up, w_down)
//                                        x [s, d], indices s32 [s, k], weights f32 [s, k], w_gate and w_up [E, ff, d],
//                                        w_down [E, d, ff] -> [s, d]: sum over i of weights[r, i] *
//                                        (w_down[e] (silu(w_gate[e] x) * (w_up[e] x))), e = indices[r, i]: a chain of
//                                        fused multiply-adds from +0, i ascending
//   kv_append(state, rows)               state [capacity, G, d] holds p rows; rows [s, G, d] become rows p .. p+s-1.
//                                        Result [p + s, G, d]: all rows. p is the graph's position
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace hone::graph {

enum class OpKind : uint8_t {
#define HONE_GRAPH_OP(name, least, most, results) name,
#include "engine/graph/ops.inc"
#undef HONE_GRAPH_OP
};

struct OpInfo {
  std::string_view name;
  int least_operands, most_operands;  // most -1: any
  int results;
};
const OpInfo& op_info(OpKind op);
std::optional<OpKind> find_op(std::string_view name);

}  // namespace hone::graph
