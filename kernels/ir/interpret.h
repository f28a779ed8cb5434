// The oracle: executes LoopIR statement by statement. Slow, obvious, and bit-exact with both code generators.
#pragma once

#include "engine/base/status.h"
#include "kernels/ir/ir.h"

namespace hone::ir {

// Runs one task with the calling convention of TaskFn. The kernel must have been verified.
void interpret(const Kernel& kernel, void* const* buffers, const int64_t* params, const int64_t* tasks, void* workspace);

}  // namespace hone::ir
