// Calling a compiled kernel: one *task* is one run of the body for given values of the parallel variables. What a
// caller needs to know for that: the calling convention, the task space, the workspace.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/ir/ir.h"

namespace hone::ir {

// One task: runs the body once for the given values of the parallel variables.
//   buffers[i]   element 0 of argument i (kernel.arguments() order)
//   params[i]    value of parameter i (kernel.params() order)
//   tasks[i]     value of the i-th parallel variable, outermost first
//   workspace    at least workspace_size(kernel) bytes, aligned to kWorkspaceAlign; private to the call
using TaskFn = void (*)(void* const* buffers, const int64_t* params, const int64_t* tasks, void* workspace);

inline constexpr int64_t kWorkspaceAlign = 64;
int64_t workspace_size(const Kernel& kernel);
// Byte offset of each workspace buffer within the workspace (index by BufferId; -1 for arguments).
std::vector<int64_t> workspace_offsets(const Kernel& kernel);

// The parallel loops of a kernel, outermost first, and the statements of one task.
struct TaskNest {
  std::vector<const For*> loops;
  const Block* body;
};
TaskNest task_nest(const Kernel& kernel);

// Parallel loops at most (batch, two block loops, and one to spare). The verifier refuses more.
inline constexpr int kMaxParallelLoops = 4;

// Bounds of the parallel loops in terms of parameter *positions*, extracted once per kernel.
struct TaskBounds {
  struct Bound {
    int64_t constant = 0;
    std::vector<std::pair<int, int64_t>> terms;  // (parameter position, coefficient)
  };
  struct Axis {
    Bound lo, hi;
    int64_t step = 1;
  };
  std::vector<Axis> axes;
};
TaskBounds task_bounds(const Kernel& kernel);

// Extent of the task space for given parameter values. Making one allocates nothing.
struct TaskSpace {
  struct Axis {
    int64_t lo = 0, step = 1, count = 1;
  };
  std::array<Axis, kMaxParallelLoops> axes;
  int rank = 0;
  int64_t count = 1;  // product
  // Values of the parallel variables of task `index` in [0, count), innermost axis fastest.
  void values(int64_t index, int64_t* out) const;
};
TaskSpace task_space(const TaskBounds& bounds, const int64_t* params);
TaskSpace task_space(const Kernel& kernel, const std::vector<int64_t>& params);

}  // namespace hone::ir
