// What a matmul must give. Naive on purpose:
//   reference_f64   everything in double with libm: the mathematical result, with a bound on what f32 may differ
//   class_f32       the scalar chain of a numerics class: the bits that every kernel of the class must give
//   ordered_f32     that of class `ordered`
//
// Bound, with u = 2^-24 and every f32 operation correct to a factor (1 + u):
//   T:          k u / (1 - k u) sum |a| |b| + k 2^-149        k roundings, and underflow
//   T of dot(bf16): A is rounded to 8 bits first, which is 2^-8 sum |a| |b| and as much again of the roundings; what is
//               denormal counts as 0, which is 2^-126 (|a| + |b| + 2) a product. |a| of 2^128 - 2^119 and more is none
//               of its own: it rounds to infinity
//   v op w:     the operand's error times the op's gain, plus u |result| for the new rounding; with an error of w as
//               well (swiglu) what that adds: |v| e_w + e_v e_w
//   activation: 1.13 times the error (the steepest slope of gelu is 1.129, of silu 1.1), plus 6 u |v| + 1e-36 for its
//   own
//               error as measured in kernels/math
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/matmul/operands.h"
#include "kernels/matmul/problem.h"
#include "kernels/matmul/program.h"
#include "kernels/numeric/comparison.h"

namespace hone::matmul {

// Dense [batch][m][columns of C].
struct Reference {
  std::vector<double> value;
  std::vector<double> bound;  // |f32 result - value| <= bound where value is finite
};

// Reads operands (C only when beta != 0) and writes none of them. Intended for problems of up to some 10^9
// multiply-adds.
Reference reference_f64(const MatmulProblem& problem, const MatmulOperands& operands, const PackedB& packed = {},
                        Dot dot = Dot::kNone);

// Writes C. `packed` may have B in pairs or not: how it lies changes no bit.
void class_f32(const MatmulProblem& problem, const MatmulOperands& operands, const PackedB& packed, Dot dot);
void ordered_f32(const MatmulProblem& problem, const MatmulOperands& operands, const PackedB& packed = {});

// The panels of a B given as nn or nt rows (`source.b`), batch items one after another unless source shares B.
template <typename Element>  // float, uint16_t
std::vector<Element> pack_b_reference(const MatmulProblem& source, const Element* b, int64_t width, int64_t kr = 1);

using numeric::Comparison;

// C (rows ldc apart, batch items sc apart) against the mathematical result.
Comparison compare(const MatmulProblem& problem, const float* c, const Reference& reference);

// Bit for bit, NaN equal to NaN; both laid out like C.
Comparison compare_bits(const MatmulProblem& problem, const float* c, const float* expected);

}  // namespace hone::matmul
