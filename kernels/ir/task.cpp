// See task.h.
#include "kernels/ir/task.h"

#include <algorithm>

namespace hone::ir {

std::vector<int64_t> workspace_offsets(const Kernel& kernel) {
  std::vector<int64_t> offsets(kernel.buffers.size(), -1);
  int64_t next = 0;
  for (size_t i = 0; i < kernel.buffers.size(); ++i) {
    if (kernel.buffers[i].scope != Scope::kWorkspace) continue;
    offsets[i] = next;
    next += (workspace_bytes(kernel.buffers[i]) + kWorkspaceAlign - 1) / kWorkspaceAlign * kWorkspaceAlign;
  }
  return offsets;
}

int64_t workspace_size(const Kernel& kernel) {
  int64_t size = 0;
  for (const Buffer& b : kernel.buffers)
    if (b.scope == Scope::kWorkspace)
      size += (workspace_bytes(b) + kWorkspaceAlign - 1) / kWorkspaceAlign * kWorkspaceAlign;
  return size;
}

TaskNest task_nest(const Kernel& kernel) {
  TaskNest nest{{}, &kernel.body};
  while (nest.body->size() == 1) {
    const For* loop = std::get_if<For>(&nest.body->front().node);
    if (loop == nullptr || kernel.vars[loop->var].kind != VarKind::kParallel) break;
    nest.loops.push_back(loop);
    nest.body = &loop->body;
  }
  return nest;
}

TaskBounds task_bounds(const Kernel& kernel) {
  const std::vector<VarId> ids = kernel.params();
  auto bound = [&](const Affine& e) {
    TaskBounds::Bound b{e.constant(), {}};
    for (const Affine::Term& t : e.terms())
      b.terms.emplace_back(static_cast<int>(std::find(ids.begin(), ids.end(), t.var) - ids.begin()), t.coef);
    return b;
  };
  TaskBounds bounds;
  for (const For* loop : task_nest(kernel).loops) bounds.axes.push_back({bound(loop->lo), bound(loop->hi), loop->step});
  return bounds;
}

TaskSpace task_space(const TaskBounds& bounds, const int64_t* params) {
  auto eval = [&](const TaskBounds::Bound& b) {
    int64_t v = b.constant;
    for (const auto& [param, coef] : b.terms) v += coef * params[param];
    return v;
  };
  TaskSpace space;
  for (const TaskBounds::Axis& axis : bounds.axes) {
    const int64_t lo = eval(axis.lo), hi = eval(axis.hi);
    // One task an axis is common, and a division takes as long as a small kernel.
    const int64_t count = hi <= lo ? 0 : hi - lo <= axis.step ? 1 : (hi - lo + axis.step - 1) / axis.step;
    space.axes[static_cast<size_t>(space.rank++)] = {lo, axis.step, count};
    space.count *= count;
  }
  return space;
}

TaskSpace task_space(const Kernel& kernel, const std::vector<int64_t>& params) {
  return task_space(task_bounds(kernel), params.data());
}

void TaskSpace::values(int64_t index, int64_t* out) const {
  for (int d = rank; d-- > 0;) {
    const Axis& axis = axes[static_cast<size_t>(d)];
    if (axis.count == 1) {
      out[d] = axis.lo;
    } else {
      out[d] = axis.lo + index % axis.count * axis.step;
      index /= axis.count;
    }
  }
}

}  // namespace hone::ir
