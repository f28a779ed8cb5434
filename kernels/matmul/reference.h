// What a matmul must give. Two references, naive on purpose:
//   reference_f64   everything in double with libm: the mathematical result, with a bound on what f32 may differ
//   ordered_f32     the scalar chain of class `ordered`: the bits that every kernel of the class must give
//
// Bound, with u = 2^-24 and every f32 operation correct to a factor (1 + u):
//   T:          k u / (1 - k u) sum |a| |b| + k 2^-149        k roundings, and underflow
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
#include "kernels/numeric/comparison.h"

namespace hone::matmul {

// Dense [batch][m][columns of C].
struct Reference {
  std::vector<double> value;
  std::vector<double> bound;  // |f32 result - value| <= bound where value is finite
};

// Reads operands (C only when beta != 0) and writes none of them. Intended for problems of up to some 10^9
// multiply-adds.
Reference reference_f64(const MatmulProblem& problem, const MatmulOperands& operands, const PackedB& packed = {});

// Writes C.
void ordered_f32(const MatmulProblem& problem, const MatmulOperands& operands, const PackedB& packed = {});

// The panels of a B given as nn or nt rows (`source.b`), batch items one after another unless source shares B.
template <typename Element>  // float, uint16_t
std::vector<Element> pack_b_reference(const MatmulProblem& source, const Element* b, int64_t width);

using numeric::Comparison;

// C (rows ldc apart, batch items sc apart) against the mathematical result.
Comparison compare(const MatmulProblem& problem, const float* c, const Reference& reference);

// Bit for bit, NaN equal to NaN; both laid out like C.
Comparison compare_bits(const MatmulProblem& problem, const float* c, const float* expected);

}  // namespace hone::matmul
