// What attention must give. Two references, naive on purpose:
//   reference_f64   everything in double with libm: the mathematical result, with a bound on what f32 may differ
//   class_f32       the scalar text of a numerics class (program.h): the bits that every kernel of the class must give
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/attention/operands.h"
#include "kernels/attention/problem.h"

namespace hone::attention {

// Dense [heads][q][dv], and [heads][q] for lse.
struct Reference {
  std::vector<double> value, bound;
  std::vector<double> lse, lse_bound;
};
Reference reference_f64(const AttentionProblem& problem, const Sequence& sequence);

// `numerics`: "ordered", "online(b)" or "split(b,s)". Writes out and lse.
void class_f32(const AttentionProblem& problem, const Sequence& sequence, std::string_view numerics);

struct Comparison {
  int64_t elements = 0;
  int64_t mismatches = 0;
  double worst = 0;  // largest |error| / bound (inf when a NaN or an infinity is where it should not be)
  std::string text;  // the first and the worst mismatch; "" when there is none

  bool ok() const { return mismatches == 0; }
};
// out and lse of `sequence` against the mathematical result. NaN or infinity where the reference has none is a
// mismatch, as is their absence where it has one.
Comparison compare(const AttentionProblem& problem, const Sequence& sequence, const Reference& reference);
// Bit for bit, NaN equal to NaN; `expected` laid out as `sequence`.
Comparison compare_bits(const AttentionProblem& problem, const Sequence& sequence, const Sequence& expected);

}  // namespace hone::attention
