// The asmjit ("native") code generator. Machine code comes out of asmjit's register allocating compiler in under a
// millisecond, so it is what the tuner and a cold start use first.
#pragma once

#include <string>

#include "engine/base/isa.h"
#include "engine/base/status.h"
#include "kernels/ir/ir.h"

namespace hone::jit {

// The code that compile() would emit, as text: physical registers, one instruction or label per line. Works for any
// Isa, also one that this CPU lacks. For dumps, and for tests that read what was emitted.
Result<std::string> asmjit_listing(const ir::Kernel& kernel, Isa isa);

}  // namespace hone::jit
