// All tasks of a lowered matmul through the interpreter.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/ir/interpret.h"
#include "kernels/ir/task.h"
#include "kernels/matmul/bind.h"

namespace hone::matmul {

inline void interpret_all(const ir::Kernel& kernel, const Arguments& args) {
  std::vector<std::byte> workspace(static_cast<size_t>(ir::workspace_size(kernel)) + ir::kWorkspaceAlign);
  auto* aligned = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(workspace.data()) + 63) / 64 * 64);
  const ir::TaskSpace space = ir::task_space(ir::task_bounds(kernel), args.params.data());
  int64_t tasks[ir::kMaxParallelLoops];
  // Backwards: tasks are independent, so their order must not matter.
  for (int64_t t = space.count; t-- > 0;) {
    space.values(t, tasks);
    // Poison: nothing of an earlier task may reach C (case m7).
    std::fill_n(static_cast<uint8_t*>(aligned), ir::workspace_size(kernel), uint8_t{0xff});
    ir::interpret(kernel, args.buffers.data(), args.params.data(), tasks, aligned);
  }
}

}  // namespace hone::matmul
