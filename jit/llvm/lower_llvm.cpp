// Control flow of the lowering. Every loop is emitted in its final form: guard, preheader, body, and a latch that
// counts down to exactly zero, because subtract-and-branch-if-not-zero needs no compare and fuses to one
// micro-operation.
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/PromoteMemToReg.h>

#include <llvm/IR/Dominators.h>

#include "jit/llvm/lower_internal.h"
#include "jit/lower_util.h"

namespace hone::jit {

using ir::Affine;
using ir::VarKind;
using llvm::BasicBlock;

namespace {

bool is_multiple(const Affine& e, int64_t of) {
  if (e.constant() % of != 0) return false;
  return std::all_of(e.terms().begin(), e.terms().end(), [&](const Affine::Term& t) { return t.coef % of == 0; });
}

}  // namespace

LlvmLowering::LlvmLowering(const ir::Kernel& kernel, const IsaInfo& isa, llvm::Module& module)
    : kernel_(kernel),
      isa_(isa),
      module_(module),
      context_(module.getContext()),
      b_(context_),
      target_(TargetOps::make(isa, b_)),
      env_(kernel.vars.size()),
      var_level_(kernel.vars.size(), 0),
      ordinal_(kernel.vars.size(), 0),
      buffer_ordinal_(kernel.buffers.size(), 0),
      workspace_offset_(ir::workspace_offsets(kernel)),
      slots_(kernel.registers.size()) {}

Status LlvmLowering::lower(const std::string& symbol) {
  HONE_RETURN_IF_ERROR(check_registers());
  const std::vector<ir::VarId> params = kernel_.params();
  for (size_t i = 0; i < params.size(); ++i) ordinal_[static_cast<size_t>(params[i])] = i;
  const std::vector<ir::BufferId> arguments = kernel_.arguments();
  for (size_t i = 0; i < arguments.size(); ++i) buffer_ordinal_[static_cast<size_t>(arguments[i])] = i;
  const ir::TaskNest nest = ir::task_nest(kernel_);
  for (size_t i = 0; i < nest.loops.size(); ++i) ordinal_[static_cast<size_t>(nest.loops[i]->var)] = i;

  llvm::Type* ptr = b_.getPtrTy();
  llvm::FunctionType* type = llvm::FunctionType::get(b_.getVoidTy(), {ptr, ptr, ptr, ptr}, false);
  function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, symbol, module_);
  BasicBlock* entry = BasicBlock::Create(context_, "entry", function_);
  BasicBlock* body = BasicBlock::Create(context_, "body", function_);
  llvm::BranchInst::Create(body, entry);
  levels_.emplace_back();
  levels_.back().place = entry;
  b_.SetInsertPoint(body);
  block(*nest.body);
  if (failed()) return status_;
  b_.CreateRetVoid();

  for (BasicBlock& bb : llvm::make_early_inc_range(*function_))
    if (!keep_apart_.contains(&bb)) llvm::MergeBlockIntoPredecessor(&bb);
  llvm::DominatorTree dominators(*function_);
  llvm::PromoteMemToReg(allocas_, dominators);
  target_->finish(*function_);
  return {};
}

Status LlvmLowering::check_registers() const {
  for (const ir::Register& r : kernel_.registers) {
    if (r.type.lanes > isa_.lanes_f32())
      return unsupported("register " + r.name + " has " + std::to_string(r.type.lanes) + " lanes, " +
                         std::string(isa_.name) + " has at most " + std::to_string(isa_.lanes_f32()));
    if (!r.type.mask && r.type.dtype != DType::kF32 && r.type.dtype != DType::kS32)
      return unsupported("register " + r.name + ": the llvm code generator has no lowering for " +
                         std::string(dtype_name(r.type.dtype)));
  }
  return {};
}

void LlvmLowering::fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

void LlvmLowering::block(const ir::Block& statements) {
  const size_t outer = levels_.size();
  for (const ir::Stmt& s : statements) {
    if (failed()) return;
    statement(s);
  }
  levels_.erase(levels_.begin() + static_cast<std::ptrdiff_t>(outer), levels_.end());  // of loaded indices
}

void LlvmLowering::statement(const ir::Stmt& stmt) {
  if (++expanded_ > kMaxExpandedStatements)
    return fail(unsupported("kernel " + kernel_.name + " expands to more than " +
                            std::to_string(kMaxExpandedStatements) +
                            " statements (unrolled loops times specialised versions); unroll less"));
  std::visit([this](const auto& node) { emit(node); }, stmt.node);
}

void LlvmLowering::for_loop(const ir::For& loop) {
  if (kernel_.vars[static_cast<size_t>(loop.var)].kind == VarKind::kUnrolled) return unrolled(loop);
  const Affine lo = resolve(loop.lo), hi = resolve(loop.hi), distance = hi - lo;
  if (distance.is_constant() && distance.constant() <= 0) return;
  if (distance.is_constant() && distance.constant() <= loop.step) {
    bind(loop.var, lo);
    block(loop.body);
    return bind(loop.var, std::nullopt);
  }
  serial(loop, lo, hi);
}

void LlvmLowering::unrolled(const ir::For& loop) {
  const Affine lo = resolve(loop.lo), hi = resolve(loop.hi);
  if (!lo.is_constant() || !hi.is_constant())
    return fail(internal_error("bounds of unrolled loop " + kernel_.vars[static_cast<size_t>(loop.var)].name +
                               " are not constant; the kernel was not verified"));
  for (int64_t i = lo.constant(); i < hi.constant() && !failed(); i += loop.step) {
    ++expanded_;  // so that empty bodies count
    bind(loop.var, Affine(i));
    block(loop.body);
  }
  bind(loop.var, std::nullopt);
}

void LlvmLowering::serial(const ir::For& loop, const Affine& lo, const Affine& hi) {
  const std::string& name = kernel_.vars[static_cast<size_t>(loop.var)].name;
  const Affine distance = hi - lo;
  // Elements left where they are a multiple of the step, else iterations left.
  const bool whole = is_multiple(distance, loop.step);
  const int64_t countdown = whole ? loop.step : 1;
  llvm::Value* total = integer(distance);
  BasicBlock* preheader = BasicBlock::Create(context_, name + ".enter", function_);
  BasicBlock* header = BasicBlock::Create(context_, name + ".loop", function_);
  BasicBlock* body = BasicBlock::Create(context_, name + ".body", function_);
  BasicBlock* exit = BasicBlock::Create(context_, name + ".exit", function_);
  if (distance.is_constant())
    b_.CreateBr(preheader);
  else
    b_.CreateCondBr(b_.CreateICmpSGT(total, b_.getInt64(0)), preheader, exit);
  b_.SetInsertPoint(preheader);
  if (!whole)
    total = b_.CreateUDiv(b_.CreateAdd(total, b_.getInt64(static_cast<uint64_t>(loop.step - 1))),
                          b_.getInt64(static_cast<uint64_t>(loop.step)));
  b_.CreateBr(header);
  llvm::BranchInst::Create(body, header);

  levels_.emplace_back();
  Level& level = levels_.back();
  level.place = header;
  level.loop = &loop;
  level.lo = lo;
  level.preheader = preheader;
  const int depth = static_cast<int>(levels_.size()) - 1;
  var_level_[static_cast<size_t>(loop.var)] = depth;
  llvm::PHINode* left = llvm::PHINode::Create(b_.getInt64Ty(), 2, name + ".left", header->begin());
  left->addIncoming(total, preheader);
  b_.SetInsertPoint(body);
  block(loop.body);

  BasicBlock* latch = b_.GetInsertBlock();
  for (const Level::Induction& i : levels_.back().inductions) {
    llvm::Value* next =
        i.phi->getType()->isPointerTy() ? b_.CreateGEP(b_.getInt8Ty(), i.phi, i.step) : b_.CreateAdd(i.phi, i.step);
    i.phi->addIncoming(next, latch);
  }
  llvm::Value* remaining = b_.CreateSub(left, b_.getInt64(static_cast<uint64_t>(countdown)));
  left->addIncoming(remaining, latch);
  b_.CreateCondBr(b_.CreateICmpNE(remaining, b_.getInt64(0)), header, exit);
  levels_.pop_back();
  b_.SetInsertPoint(exit);
}

// A let is pure (a division is by a positive constant), so it is computed at the outermost level that knows its
// operands.
void LlvmLowering::let(const ir::Let& node) {
  std::vector<Affine> args;
  bool constant = true;
  int level = 0;
  for (const Affine& a : node.args) {
    args.push_back(resolve(a));
    constant = constant && args.back().is_constant();
    level = std::max(level, level_of(Poly(args.back())));
  }
  if (constant) {
    int64_t v = args.front().constant();
    for (const Affine& a : args) {
      if (node.op == ir::LetOp::kMin) v = std::min(v, a.constant());
      if (node.op == ir::LetOp::kMax) v = std::max(v, a.constant());
    }
    return bind(node.var, Affine(node.op == ir::LetOp::kFloorDiv ? v / node.divisor : v));
  }
  std::vector<llvm::Value*> operands;
  for (const Affine& a : args) operands.push_back(integer(a));
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  b_.SetInsertPoint(levels_[static_cast<size_t>(level)].place->getTerminator());
  llvm::Value* value = operands.front();
  if (node.op == ir::LetOp::kFloorDiv) {
    value = b_.CreateUDiv(value, b_.getInt64(static_cast<uint64_t>(node.divisor)));
  } else {
    const auto op = node.op == ir::LetOp::kMin ? llvm::Intrinsic::smin : llvm::Intrinsic::smax;
    for (size_t i = 1; i < operands.size(); ++i) value = b_.CreateBinaryIntrinsic(op, value, operands[i]);
  }
  define(node.var, level, value);
}

// Unlike other lets a load stays where it is: in front of the branches and loops around it, its table may not be there.
// What follows is a level of its own, behind the load, for values that depend on the index.
void LlvmLowering::let_load(const ir::LetLoad& node) {
  llvm::Value* where = address(node.table);
  llvm::Value* value = b_.CreateSExt(b_.CreateAlignedLoad(b_.getInt32Ty(), where, llvm::Align(4)), b_.getInt64Ty());
  BasicBlock* behind = BasicBlock::Create(context_, "indexed", function_);
  Level level;
  level.place = b_.GetInsertBlock();
  b_.CreateBr(behind);
  b_.SetInsertPoint(behind);
  define(node.var, static_cast<int>(levels_.size()), value);
  levels_.push_back(std::move(level));
}

// Each copy of a let in unrolled code is a variable of its own.
void LlvmLowering::define(ir::VarId let, int level, llvm::Value* value) {
  value->setName(kernel_.vars[static_cast<size_t>(let)].name);
  const ir::VarId copy = static_cast<ir::VarId>(var_level_.size());
  var_level_.push_back(level);
  let_values_.push_back(value);
  bind(let, Affine::var(copy));
}

void LlvmLowering::specialise(const ir::Specialise& node) {
  const Affine value = resolve(node.value);
  if (value.is_constant()) {
    bind(node.var, value);
    block(node.body);
    return bind(node.var, std::nullopt);
  }
  BasicBlock* impossible = BasicBlock::Create(context_, "impossible", function_);
  BasicBlock* join = BasicBlock::Create(context_, "join", function_);
  llvm::SwitchInst* choose = b_.CreateSwitch(integer(value), impossible, static_cast<unsigned>(node.hi - node.lo + 1));
  b_.SetInsertPoint(impossible);
  b_.CreateUnreachable();
  for (int64_t v = node.lo; v <= node.hi && !failed(); ++v) {
    ++expanded_;
    BasicBlock* version = BasicBlock::Create(context_, "version." + std::to_string(v), function_);
    choose->addCase(b_.getInt64(static_cast<uint64_t>(v)), version);
    b_.SetInsertPoint(version);
    bind(node.var, Affine(v));
    block(node.body);
    b_.CreateBr(join);
  }
  bind(node.var, std::nullopt);
  b_.SetInsertPoint(join);
}

void LlvmLowering::conditional(const ir::If& node) {
  const Affine e = resolve(node.expr);
  if (e.is_constant()) {
    const bool taken = node.op == ir::CondOp::kEqZero ? e.constant() == 0 : e.constant() >= 0;
    return block(taken ? node.then_body : node.else_body);
  }
  BasicBlock* then_block = BasicBlock::Create(context_, "then", function_);
  BasicBlock* else_block = BasicBlock::Create(context_, "else", function_);
  BasicBlock* join = BasicBlock::Create(context_, "join", function_);
  llvm::Value* zero = b_.getInt64(0);
  llvm::Value* value = integer(e);
  b_.CreateCondBr(node.op == ir::CondOp::kEqZero ? b_.CreateICmpEQ(value, zero) : b_.CreateICmpSGE(value, zero),
                  then_block, else_block);
  b_.SetInsertPoint(then_block);
  block(node.then_body);
  b_.CreateBr(join);
  b_.SetInsertPoint(else_block);
  block(node.else_body);
  b_.CreateBr(join);
  b_.SetInsertPoint(join);
}

}  // namespace hone::jit
