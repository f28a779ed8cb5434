// A row program as LoopIR.
#pragma once

#include "kernels/ir/ir.h"
#include "kernels/rows/program.h"

namespace hone::rows {

// One task is a few rows along the innermost outer dimension (long rows: one). Arguments: bind() in arguments.h. A pure
// function of both; the kernel passes ir::verify, and gives the bits of reference() on every instruction set. Error:
// that of validate().
Result<ir::Kernel> lower(const RowProgram& program, Isa isa);

// Rows of one task of lower(program).
int64_t rows_per_task(const RowProgram& program);

}  // namespace hone::rows
