// Affine arithmetic and the facts about a kernel that callers need (task space, workspace layout).
#include "kernels/ir/ir.h"

#include <algorithm>

namespace hone::ir {

Affine Affine::var(VarId v, int64_t coef) {
  Affine a;
  if (coef != 0) a.terms_.push_back({v, coef});
  return a;
}

int64_t Affine::coef(VarId v) const {
  for (const Term& t : terms_)
    if (t.var == v) return t.coef;
  return 0;
}

Affine Affine::substitute(VarId v, const Affine& e) const {
  const int64_t c = coef(v);
  if (c == 0) return *this;
  return *this - Affine::var(v, c) + e * c;
}

Affine& Affine::operator+=(const Affine& o) {
  constant_ += o.constant_;
  if (o.terms_.empty()) return *this;
  std::vector<Term> merged;
  merged.reserve(terms_.size() + o.terms_.size());
  auto a = terms_.begin();
  auto b = o.terms_.begin();
  while (a != terms_.end() || b != o.terms_.end()) {
    if (b == o.terms_.end() || (a != terms_.end() && a->var < b->var)) {
      merged.push_back(*a++);
    } else if (a == terms_.end() || b->var < a->var) {
      merged.push_back(*b++);
    } else {
      if (a->coef + b->coef != 0) merged.push_back({a->var, a->coef + b->coef});
      ++a, ++b;
    }
  }
  terms_ = std::move(merged);
  return *this;
}

Affine& Affine::operator-=(const Affine& o) { return *this += o * -1; }

Affine& Affine::operator*=(int64_t f) {
  if (f == 0) return *this = Affine();
  constant_ *= f;
  for (Term& t : terms_) t.coef *= f;
  return *this;
}

int64_t workspace_bytes(const Buffer& buffer) {
  int64_t last = 0;
  for (size_t d = 0; d < buffer.extents.size(); ++d) {
    if (buffer.extents[d].constant() == 0) return 0;
    last += (buffer.extents[d].constant() - 1) * buffer.strides[d].constant();
  }
  return (last + 1) * dtype_bytes(buffer.dtype);
}

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

std::vector<VarId> Kernel::params() const {
  std::vector<VarId> ids;
  for (size_t i = 0; i < vars.size(); ++i)
    if (vars[i].kind == VarKind::kParam) ids.push_back(static_cast<VarId>(i));
  return ids;
}

std::vector<BufferId> Kernel::arguments() const {
  std::vector<BufferId> ids;
  for (size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].scope != Scope::kWorkspace) ids.push_back(static_cast<BufferId>(i));
  return ids;
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
    const int64_t count = hi > lo ? (hi - lo + axis.step - 1) / axis.step : 0;
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
    out[d] = axis.lo + index % axis.count * axis.step;
    index /= axis.count;
  }
}

}  // namespace hone::ir
