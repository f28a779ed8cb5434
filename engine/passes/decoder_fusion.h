// Fewer and larger launches: projections of one input become one matmul, and what follows a matmul element by element
// becomes its epilogue. Every output keeps its bits: each element is the same chain of operations as before.
//
// Weights are joined only where they are constants: what specialize_constants then computes once would else be copied
// in every call.
#pragma once

#include "engine/passes/compilation.h"

namespace hone::passes {

// Which of these happen is the policy's to say: qkv, gate_up, residual. Notes say what each saves.
Status decoder_fusion(Compilation& compilation);

}  // namespace hone::passes
