// LoopIR to asmjit: expands loops and versions, and leaves integers and vectors to their emitters.
#pragma once

#include <asmjit/x86.h>

#include "engine/base/isa.h"
#include "engine/base/status.h"
#include "kernels/ir/ir.h"

namespace hone::jit {

// Adds one function with the calling convention of ir::TaskFn to the compiler. Error: unsupported, when the ISA lacks
// what the kernel needs or the kernel expands beyond kMaxExpandedStatements. asmjit's own errors go to its error
// handler.
Status lower_kernel(const ir::Kernel& kernel, Isa isa, asmjit::x86::Compiler& cc);

}  // namespace hone::jit
