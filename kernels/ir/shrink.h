// Makes a kernel that shows a fault small, by trying changes and keeping those with which the fault is still there:
// statements go, loops become their body, bounds and indices become constants, operations become moves or constants,
// vectors get shorter, registers, buffers and parameters that nothing needs go.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/ir/ir.h"

namespace hone::ir {

struct Specimen {
  Kernel kernel;
  std::vector<std::vector<int64_t>> runs;  // parameter values
};

// Does this one show the fault too? It is asked about kernels that verify() accepts, or, where the first one is not
// accepted for its bounds, about such as well; then it has to say no to those that leave their buffers.
using ShowsFault = std::function<bool(const Specimen&)>;

// `specimen` shows the fault. Ends when nothing that it tries is left; who wants it sooner says no to everything.
Specimen shrink(Specimen specimen, const ShowsFault& shows_fault);

// Statements of a kernel, loops and branches included.
int64_t count_statements(const Kernel& kernel);

}  // namespace hone::ir
