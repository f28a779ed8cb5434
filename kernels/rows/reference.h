// What a row program computes, in plain loops.
#pragma once

#include "kernels/rows/arguments.h"

namespace hone::rows {

// Runs every row on the caller, with the bits that the lowered kernel has (NaN payloads aside). Slow on purpose. Error:
// that of validate() or check().
Status reference(const RowProgram& program, const RowArgs& args);

}  // namespace hone::rows
