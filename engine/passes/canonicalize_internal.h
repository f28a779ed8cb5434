// The steps of canonicalize, in the order in which they run. Each looks at every node and returns how many it replaced.
#pragma once

#include "engine/passes/compilation.h"
#include "engine/passes/rewrite_internal.h"

namespace hone::passes {

// Until nothing changes: what computes nothing goes, equal nodes become one, small constants are computed.
int simplify(Rewriter& r);
// dot_general with a matrix -> matmul.
int recognise_matmuls(Rewriter& r);
// logistic, silu, gelu.
int recognise_activations(Rewriter& r);
// rms_norm, layer_norm, softmax.
int recognise_norms(Rewriter& r);
int recognise_ropes(Rewriter& r);
int recognise_attention(Rewriter& r);
// Once matmuls and activations are there.
int recognise_swiglu(Rewriter& r);
int recognise_experts(Rewriter& r);
// Buffers that are passed from call to call become states. Changes inputs and outputs of the graph.
int recognise_caches(Rewriter& r);

}  // namespace hone::passes
