// The three passes of verify(), in order: each may rely on what the ones before it established.
#pragma once

#include <string>

#include "engine/base/status.h"
#include "kernels/ir/ir.h"

namespace hone::ir {

// Ids, names, ranks, types, scopes of variables, shape of the nest. Afterwards every id and index list may be used
// unchecked.
Status verify_structure(const Kernel& kernel);
// Register indices in range and registers written before they are read, by walking the code as it will be unrolled.
Status verify_registers(const Kernel& kernel);
// Accesses inside their buffers, values in their ranges, tasks disjoint, for all parameters. Symbolic.
Status verify_bounds(const Kernel& kernel);

// "kernel 'copy': in `a = load x[i]`: " + what.
Status refuse(const Kernel& kernel, const Stmt& statement, const std::string& what);

// Constants and coefficients beyond this are refused, so that sums of a few never overflow.
inline constexpr int64_t kMaxConstant = int64_t{1} << 60;

}  // namespace hone::ir
