// Integers and pointers of the lowering. Each is computed at the outermost level (function body or loop) that knows its
// variables, once, and found again there. What depends on the variable of a loop becomes an induction of that loop.
//
// Rows at a runtime stride s would cost one pointer each, more than there are registers for 14 rows. Rows 0..8 are
// reached from one pointer with index registers (TargetOps::row_index), which all such pointers share, and every ninth
// row gets a pointer of its own. On x86 14 rows take 6 registers.
#include "jit/llvm/lower_internal.h"
#include "jit/lower_util.h"

namespace hone::jit {

using ir::Affine;
using ir::VarKind;

namespace {

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

}  // namespace

Affine LlvmLowering::resolve(const Affine& e) const {
  Affine result(e.constant());
  for (const Affine::Term& t : e.terms()) {
    const std::optional<Affine>& known = env_[static_cast<size_t>(t.var)];
    if (known)
      result += *known * t.coef;
    else
      result += Affine::var(t.var, t.coef);
  }
  return result;
}

int LlvmLowering::level_of(const Poly& p) const {
  int level = 0;
  for (const auto& [m, coef] : p.terms()) level = std::max({level, level_of(m.v), level_of(m.w)});
  return level;
}

llvm::Value* LlvmLowering::integer(const Poly& p) {
  if (p.is_constant()) return b_.getInt64(static_cast<uint64_t>(p.constant()));
  Level& level = levels_[static_cast<size_t>(level_of(p))];
  if (auto found = level.integers.find(p); found != level.integers.end()) return found->second;
  std::vector<std::pair<llvm::Value*, llvm::Value*>> factors;
  for (const auto& [m, coef] : p.terms()) factors.emplace_back(m.v < 0 ? nullptr : variable(m.v), variable(m.w));

  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  b_.SetInsertPoint(level.place->getTerminator());
  llvm::Value* sum = nullptr;
  for (size_t i = 0; i < factors.size(); ++i) {
    llvm::Value* term = factors[i].second;
    if (factors[i].first != nullptr) term = b_.CreateMul(factors[i].first, term);
    const int64_t coef = p.terms()[i].second;
    if (coef != 1) term = b_.CreateMul(term, b_.getInt64(static_cast<uint64_t>(coef)));
    sum = sum == nullptr ? term : b_.CreateAdd(sum, term);
  }
  if (p.constant() != 0) sum = b_.CreateAdd(sum, b_.getInt64(static_cast<uint64_t>(p.constant())));
  level.integers.emplace(p, sum);
  return sum;
}

llvm::Value* LlvmLowering::variable(ir::VarId v) {
  const size_t at = static_cast<size_t>(v);
  if (at >= kernel_.vars.size()) return let_values_[at - kernel_.vars.size()];
  const VarKind kind = kernel_.vars[at].kind;
  Level& level = levels_[static_cast<size_t>(level_of(v))];
  Poly self;
  self.add({-1, v}, 1);
  if (auto found = level.integers.find(self); found != level.integers.end()) return found->second;
  llvm::Value* value = nullptr;
  if (kind == VarKind::kLoop)
    value = induction(level_of(v), integer(level.lo), b_.getInt64(static_cast<uint64_t>(level.loop->step)),
                      kernel_.vars[at].name);
  else
    value = argument(function_->getArg(kind == VarKind::kParam ? 1 : 2), ordinal_[at], b_.getInt64Ty(),
                     kernel_.vars[at].name);
  level.integers.emplace(self, value);
  return value;
}

// Arguments do not change during a call: `invariant` allows the register allocator to load one again instead of
// spilling it.
llvm::Value* LlvmLowering::argument(llvm::Value* array, size_t index, llvm::Type* type, const std::string& name) {
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  b_.SetInsertPoint(levels_.front().place->getTerminator());
  llvm::Value* where = b_.CreateConstInBoundsGEP1_64(type, array, index);
  llvm::LoadInst* load = b_.CreateAlignedLoad(type, where, llvm::Align(8), name);
  load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context_, {}));
  return load;
}

llvm::Value* LlvmLowering::base(ir::BufferId id) {
  const size_t at = static_cast<size_t>(id);
  if (kernel_.buffers[at].scope == ir::Scope::kWorkspace) return function_->getArg(3);
  return argument(function_->getArg(0), buffer_ordinal_[at], b_.getPtrTy(), kernel_.buffers[at].name);
}

// `bytes` has no constant. Plain (not inbounds) address arithmetic: a hoisted pointer may be computed where it is not
// used.
llvm::Value* LlvmLowering::pointer(ir::BufferId id, const Poly& bytes) {
  const int depth = level_of(bytes);
  Level& level = levels_[static_cast<size_t>(depth)];
  const auto key = std::make_pair(id, bytes);
  if (auto found = level.pointers.find(key); found != level.pointers.end()) return found->second;
  // What only this level knows and its loop does not step (its lets, the arguments of a function) is added to a pointer
  // that others may share.
  Poly fixed, rest;
  for (const auto& [m, coef] : bytes.terms()) {
    const bool stepped = level.loop != nullptr && (m.v == level.loop->var || m.w == level.loop->var);
    const bool ours = std::max(level_of(m.v), level_of(m.w)) == depth;
    (ours && !stepped ? fixed : rest).add(m, coef);
  }
  llvm::Value* value = nullptr;
  if (bytes.is_constant()) {
    value = base(id);
  } else if (fixed.is_constant()) {
    value = moving_pointer(id, bytes, depth);
  } else {
    llvm::Value* from = pointer(id, rest);
    llvm::Value* offset = integer(fixed);
    llvm::IRBuilderBase::InsertPointGuard guard(b_);
    b_.SetInsertPoint(level.place->getTerminator());
    value = b_.CreateGEP(b_.getInt8Ty(), from, offset);
  }
  level.pointers.emplace(key, value);
  return value;
}

// A pointer that the loop of level `depth` advances. Besides its variable, `bytes` has only what shallower levels know.
llvm::Value* LlvmLowering::moving_pointer(ir::BufferId id, const Poly& bytes, int depth) {
  const Level& level = levels_[static_cast<size_t>(depth)];
  Poly first = bytes.substitute(level.loop->var, level.lo);
  const int64_t constant = first.take_constant();
  llvm::Value* init = pointer(id, first);
  if (constant != 0) {
    llvm::IRBuilderBase::InsertPointGuard guard(b_);
    b_.SetInsertPoint(level.preheader->getTerminator());
    init = b_.CreateGEP(b_.getInt8Ty(), init, b_.getInt64(static_cast<uint64_t>(constant)));
  }
  Poly step;
  const Poly factor = bytes.factor(level.loop->var);
  step.add({}, wrap_mul(factor.constant(), level.loop->step));
  for (const auto& [m, coef] : factor.terms()) step.add(m, wrap_mul(coef, level.loop->step));
  return induction(depth, init, integer(step), kernel_.buffers[static_cast<size_t>(id)].name);
}

llvm::Value* LlvmLowering::induction(int depth, llvm::Value* init, llvm::Value* step, const std::string& name) {
  Level& level = levels_[static_cast<size_t>(depth)];
  llvm::PHINode* phi = llvm::PHINode::Create(init->getType(), 2, name, level.place->begin());
  phi->addIncoming(init, level.preheader);
  level.inductions.push_back({phi, step});
  return phi;
}

llvm::Value* LlvmLowering::address(const ir::Access& access) {
  const size_t at = static_cast<size_t>(access.buffer);
  const ir::Buffer& buffer = kernel_.buffers[at];
  const int64_t element = dtype_bytes(buffer.dtype);
  Poly bytes;
  for (size_t d = 0; d < access.index.size(); ++d)
    bytes.add_product(resolve(access.index[d]), buffer.strides[d], element);
  int64_t constant = bytes.take_constant();
  if (buffer.scope == ir::Scope::kWorkspace) constant = wrap_add(constant, workspace_offset_[at]);

  int64_t row = 0;
  ir::VarId stride = -1;
  for (const auto& [m, coef] : bytes.terms()) {
    if (m.v >= 0 || static_cast<size_t>(m.w) >= kernel_.vars.size() || coef % element != 0) continue;
    if (kernel_.vars[static_cast<size_t>(m.w)].kind != VarKind::kParam) continue;
    stride = m.w;
    row = coef / element - floor_div(coef / element, TargetOps::kRowsPerPointer) * TargetOps::kRowsPerPointer;
    break;
  }
  if (row != 0) bytes.add({-1, stride}, -row * element);
  llvm::Value* where = pointer(access.buffer, bytes);
  if (row != 0) {
    const RowIndex index = target_->row_index(row);
    Poly unit;
    unit.add({-1, stride}, index.factor * element);
    where = b_.CreateGEP(b_.getInt8Ty(), where, b_.CreateShl(integer(unit), index.shift));
  }
  if (constant != 0) where = b_.CreateGEP(b_.getInt8Ty(), where, b_.getInt64(static_cast<uint64_t>(constant)));
  return where;
}

}  // namespace hone::jit
