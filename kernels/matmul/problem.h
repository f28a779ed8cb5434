// The matmul problem: what is computed, with the static facts that code is generated for. Its dtype is that of the
// elements of B. Weights of 16 bits count as the f32 that they widen to, exactly; everything else is f32, so the sums
// are those of the f32 matmul on widened weights, bit for bit.
//
//   T[i, j] = sum over p ascending of A[i, p] * B[p, j]      one chain of fused multiply-adds from +0 (class `ordered`)
//   C[i, j] = epilogue(alpha * T[i, j] + beta * C[i, j])
//
// alpha == 1 and beta == 0 are no operations: without beta C is never read, and with alpha == 0 neither are A and B (T
// = 0). A is [m, k] with rows lda apart. B is [k, n] (nn), [n, k] (nt, as model files store weights) with rows ldb
// apart, or packed into panels once, beforehand; kernels read 16-bit weights in panels only. C, gate and residual are
// [m, n] with rows ldc apart; bias is [n] and row_scale [m].
//
// swiglu makes one column of two: B holds the columns of a gate and an up projection in turns of 16, [32 g, 32 g + 16)
// the gate's 16 g.. and [32 g + 16, 32 g + 32) the up projection's, so that one register tile has both. Then C, gate
// and residual have F = n / 2 columns, and C[i, j] = silu(T[i, gate_column(j)]) * T[i, up_column(j)], alpha and bias
// applied to both before.
//
// batch > 1 repeats this at strides sa, sb, sc (elements); sa and sb may be 0 (shared). bias is shared by all.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/status.h"

namespace hone::matmul {

enum class BLayout : uint8_t { kNn, kNt, kPacked };

// The chain after the sum, in the order in which it applies. Element-wise on v:
//   bias: v + bias[j]   gate: v * gate[i, j]   residual: v + residual[i, j]   row_scale: v * row_scale[i]
//   gelu_tanh: 0.5 v (1 + tanh(sqrt(2/pi) (v + 0.044715 v^3)))    gelu_erf: 0.5 v (1 + erf(v / sqrt(2)))
//   silu: v / (1 + exp(-v))    relu: max(0, v), NaN stays NaN
//   swiglu: silu(v) * u, u being what became of the up column so far. Only row_scale and bias may come before it, and
//   not after.
// row_scale is what a norm that is folded into B leaves to do (x * s) B = s * (x B): it is the first of its chain, and
// of a batch of one.
enum class EpilogueOp : uint8_t { kBias, kGeluTanh, kGeluErf, kSilu, kRelu, kGate, kResidual, kSwiglu, kRowScale };
inline constexpr int kEpilogueOps = static_cast<int>(EpilogueOp::kRowScale) + 1;
// Canonical text with its sign: "+bias", "+gelu_tanh" ("+gelu" parses as it), "+gelu_erf", "+silu", "+relu", "*gate",
// "+residual", "+swiglu", "*row_scale".
std::string_view epilogue_name(EpilogueOp op);
// Reads an operand of its own: bias, gate, residual, row_scale.
constexpr bool reads_operand(EpilogueOp op) {
  return op == EpilogueOp::kBias || op == EpilogueOp::kGate || op == EpilogueOp::kResidual ||
         op == EpilogueOp::kRowScale;
}
std::string_view layout_name(BLayout b);  // "nn", "nt", "packed"

inline constexpr std::array kMatmulDTypes = {DType::kF32, DType::kBf16, DType::kF16};  // what B can be

// 16: a whole number of vectors of every ISA, so a gate column and its up column lie in the same lane.
inline constexpr int64_t kSwigluColumns = 16;
constexpr int64_t gate_column(int64_t j) { return j / kSwigluColumns * 2 * kSwigluColumns + j % kSwigluColumns; }
constexpr int64_t up_column(int64_t j) { return gate_column(j) + kSwigluColumns; }

struct MatmulProblem {
  DType dtype = DType::kF32;  // of B
  int64_t m = 0, n = 0, k = 0;
  BLayout b = BLayout::kNn;
  int64_t lda = 0, ldb = 0, ldc = 0;  // elements; 0 means dense (k; n or k; n). ldb is 0 for packed
  int64_t batch = 1;
  int64_t sa = -1, sb = -1, sc = -1;  // batch strides in elements; -1 means dense
  float alpha = 1, beta = 0;
  std::vector<EpilogueOp> epilogue;  // bias, gate, residual, swiglu and row_scale at most once each

  bool operator==(const MatmulProblem&) const = default;

  // With the defaults filled in.
  int64_t row_stride_a() const { return lda ? lda : k; }
  int64_t row_stride_b() const { return ldb ? ldb : (b == BLayout::kNt ? k : n); }
  int64_t row_stride_c() const { return ldc ? ldc : columns(); }
  int64_t batch_stride_a() const;
  int64_t batch_stride_b() const;
  int64_t batch_stride_c() const;
  bool has(EpilogueOp op) const;
  int64_t bytes_b() const { return dtype_bytes(dtype); }  // of an element
  bool swiglu() const { return has(EpilogueOp::kSwiglu); }
  int64_t columns() const { return swiglu() ? n / 2 : n; }  // of C
  double flops() const {
    return 2.0 * static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

// invalid_argument naming the field: negative sizes, lda < k, ldb, ldc too small, sc overlapping, sizes whose byte
// count overflows 63 bits ("too large"), an epilogue operand used twice, swiglu or row_scale where it cannot be.
Status validate(const MatmulProblem& problem);

// The same problem in the one form that parsing yields: a stride that equals the dense one becomes "dense", batch
// strides of a batch of one too, -0 becomes 0.
MatmulProblem canonical(MatmulProblem problem);

// Canonical string: defaults are left out, order is fixed, parses back to canonical(problem).
std::string to_string(const MatmulProblem& problem);
// The canonical string without m: problems that differ only in m are one family.
std::string family(const MatmulProblem& problem);

// For help texts and error messages.
std::string_view problem_grammar();

// Parses and validates one problem. The error is one line: the text, what is wrong, "at column C" (from 1) and the
// grammar.
Result<MatmulProblem> parse_problem(std::string_view text);
// The same with ranges and lists in m, n, k: "m=1-8+1", "m=1-512*2", "m={1,4,16}". In the order of the keys in the
// text, the first slowest. More than text::kMaxProblems are refused.
Result<std::vector<MatmulProblem>> parse_problems(std::string_view text);

}  // namespace hone::matmul
