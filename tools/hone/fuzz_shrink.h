// Makes a program that fails small, by trying smaller ones in a worker.
#pragma once

#include <functional>

#include "tools/hone/fuzz_case.h"

namespace hone::cli {

// Does this one fail in the same way?
using StillFails = std::function<bool(const FuzzCase&)>;

// `failing` fails. LoopIR by kernels/ir/shrink.h. Of an op: sizes, options and epilogues of the problem go or get
// smaller, knobs of the program become those of the default program, or small. An answer of false to everything ends
// it.
FuzzCase shrink_case(FuzzCase failing, const StillFails& still_fails);

}  // namespace hone::cli
