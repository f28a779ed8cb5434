// Proves that a kernel keeps the promises listed in ir.h, for every value of its parameters.
//
// Bounds are proved symbolically: each loop, let, specialise and if contributes linear facts, and an access is accepted
// when the facts imply 0 <= index < extent (facts_internal.h). A kernel that cannot be proved is refused: the error
// names the statement, the dimension and the bound that failed.
#pragma once

#include "engine/base/status.h"
#include "kernels/ir/ir.h"

namespace hone::ir {

Status verify(const Kernel& kernel);

}  // namespace hone::ir
