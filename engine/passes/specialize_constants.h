// Computes once, at compile time, what depends on constants only: joined and interleaved weights, frequencies of RoPE,
// masks of sizes that are known; and folds a factor that is a power of two into the weights before it.
//
// Weights are never transposed: packing reads either layout, and a copy would only take memory. Nothing that would grow
// is computed (a broadcast of a row), and what nothing reads any more is released with its node.
#pragma once

#include "engine/passes/compilation.h"

namespace hone::passes {

// Keeps bits: folding is the reference's arithmetic, and a factor is folded only where no weight overflows or leaves
// the normal range.
Status specialize_constants(Compilation& compilation);

}  // namespace hone::passes
