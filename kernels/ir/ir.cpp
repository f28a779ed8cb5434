// Facts about a kernel that callers need.
#include "kernels/ir/ir.h"

#include "kernels/ir/edit.h"

namespace hone::ir {
namespace {

bool has_pairs(const Block& statements) {
  for (const Stmt& s : statements) {
    if (std::holds_alternative<Pairs>(s.node) || std::holds_alternative<DotPairs>(s.node)) return true;
    for (const Block* body : bodies(const_cast<Stmt&>(s)))
      if (has_pairs(*body)) return true;
  }
  return false;
}

}  // namespace

FeatureSet required_features(const Kernel& kernel) {
  return has_pairs(kernel.body) ? FeatureSet{Feature::kAvx512Bf16} : FeatureSet{};
}

int64_t workspace_bytes(const Buffer& buffer) {
  int64_t last = 0;
  for (size_t d = 0; d < buffer.extents.size(); ++d) {
    if (buffer.extents[d].constant() == 0) return 0;
    last += (buffer.extents[d].constant() - 1) * buffer.strides[d].constant();
  }
  return (last + 1) * dtype_bytes(buffer.dtype);
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

}  // namespace hone::ir
