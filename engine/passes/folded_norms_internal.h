// norm=folded: an RMSNorm that only matmuls of constant weights read becomes a part of them.
//
//   matmul(rms_norm(x, w), B) = matmul(x, w * B) "*row_scale"     w along k; row_scale = rms_scale(x)
//
// Equal as mathematics, not bit for bit: w rounds into the weights and the factor of a row after the sum. So it is a
// numerics class of its own ("ordered, norm folded") and happens only where the policy says so.
#pragma once

#include "engine/passes/rewrite_internal.h"

namespace hone::passes {

// Of every rms_norm of the graph: folded, or a note that says why not.
void fold_norms(Rewriter& rewriter);

}  // namespace hone::passes
