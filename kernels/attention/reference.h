// What attention must give. Two references, naive on purpose:
//   reference_f64   everything in double with libm: the mathematical result, with a bound on what f32 may differ
//   class_f32       the scalar text of a numerics class (program.h): the bits that every kernel of the class must give
//
// The text, every operation rounded once, with exp, tanh and log of kernels/math and a max that is a > b ? a : b:
//   score:  q' = scale * q;  T = fma chain of q' k over p ascending from +0;  T = cap * tanh(T / cap);  T = T + mask;
//           -inf where a boolean mask is 0, whatever T is
//   block:  (of keys, of which the row sees some)
//           m' = max of m and the T it sees;  safe = max(-FLT_MAX, m');  alpha = exp(m - safe);  w = exp(T - safe)
//           l[c] = l[c] * alpha, then + w of keys j = c mod 16 ascending;  O = O * alpha, then fma chain of w v
//   split:  part i takes blocks i, i + s, ..; the parts' m, l, O from m = -inf, l = O = +0; then
//           m = max of them, safe as above, l[c] and O = fma chains over the parts of exp(m_part - safe) with theirs
//   end:    l = tree: c + 8 to c for c < 8, c + 4 to c for c < 4, (0 + 2) + (1 + 3);  O = O * (l == 0 ? 0 : 1 / l);
//           lse = l == 0 ? -inf : m + log(l)
// A NaN score, or one of +inf, makes l NaN and with it the row, whatever the max did.
//
// Bound, of any class, with u = 2^-24, g(n) = n u / (1 - n u), n keys seen and r = n / 16 + 2 blocks (none is smaller
// than 16 keys) that may rescale:
//   e_j       error of T: g(d + 2) sum |scale q||k| and underflow; tanh has slope <= 1 and 3 ulp; u |T| for + or *
//   weight    relative to the others a weight is off by exp of: e_j, the rounding of its exponents (they telescope to
//             u (m - T), whatever maxima came between), 2 u for each exp. That the maximum itself is off cancels
//   l         g(n / 16 + 2 r + 8): adds of a chain, rescaling, merging, tree
//   O         g(n + 2 r + 4) sum w |v|: the chain, rescaling, merging; weights below 2^-126 are off by 2^-124 r
//   O / l     (error of O + |O / l| error of l) / (l - error of l); but never further than the furthest v_j, since any
//             weights give a mean; and 3 u for the division
//   lse       log1p of the relative error of l, and 2^-22 + 2^-23 |log l| for log
// Where f32 may overflow the bound is infinite: nothing is known of the row.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/attention/operands.h"
#include "kernels/attention/problem.h"
#include "kernels/numeric/comparison.h"

namespace hone::attention {

// Dense [heads][q][dv], and [heads][q] for lse.
struct Reference {
  std::vector<double> value, bound;
  std::vector<double> lse, lse_bound;
};
Reference reference_f64(const AttentionProblem& problem, const Sequence& sequence);

// `numerics`: "ordered", "online(b)" or "split(b,s)". Writes out and lse.
void class_f32(const AttentionProblem& problem, const Sequence& sequence, std::string_view numerics);

using numeric::Comparison;

// out and lse of `sequence` against the mathematical result.
Comparison compare(const AttentionProblem& problem, const Sequence& sequence, const Reference& reference);
// Bit for bit, NaN equal to NaN; `expected` laid out as `sequence`.
Comparison compare_bits(const AttentionProblem& problem, const Sequence& sequence, const Sequence& expected);

}  // namespace hone::attention
