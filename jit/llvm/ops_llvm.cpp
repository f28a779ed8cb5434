// Registers and vector operations of the lowering. A LoopIR register is a stack slot that becomes SSA values once the
// function is complete. A mask is <n x i1> where the ISA has mask registers; elsewhere it is a vector of s32 lanes, all
// ones or zero, because that is what the instructions consume and <n x i1> would be repacked at each block boundary.
// What an architecture does in its own way is behind TargetOps.
#include "jit/llvm/lower_internal.h"

namespace hone::jit {

llvm::Type* LlvmLowering::type_of(const ir::RegType& t) {
  llvm::Type* lane = t.dtype == DType::kF32 ? b_.getFloatTy() : b_.getInt32Ty();
  if (t.mask) lane = isa_.mask_registers || t.lanes == 1 ? b_.getInt1Ty() : b_.getInt32Ty();
  if (t.lanes == 1) return lane;
  return llvm::FixedVectorType::get(lane, static_cast<unsigned>(t.lanes));
}

llvm::AllocaInst* LlvmLowering::slot(const ir::RegRef& r) {
  const ir::Register& reg = kernel_.registers[static_cast<size_t>(r.reg)];
  size_t flat = 0, count = 1;
  for (size_t d = 0; d < reg.dims.size(); ++d) {
    flat = flat * static_cast<size_t>(reg.dims[d]) + static_cast<size_t>(resolve(r.index[d]).constant());
    count *= static_cast<size_t>(reg.dims[d]);
  }
  std::vector<llvm::AllocaInst*>& tile = slots_[static_cast<size_t>(r.reg)];
  tile.resize(count, nullptr);
  if (tile[flat] == nullptr) {
    llvm::IRBuilderBase::InsertPointGuard guard(b_);
    b_.SetInsertPoint(&function_->getEntryBlock(), function_->getEntryBlock().begin());
    tile[flat] = b_.CreateAlloca(type_of(reg.type), nullptr, reg.name);
    allocas_.push_back(tile[flat]);
  }
  return tile[flat];
}

llvm::Value* LlvmLowering::get(const ir::RegRef& r) {
  llvm::AllocaInst* where = slot(r);
  return b_.CreateLoad(where->getAllocatedType(), where);
}

void LlvmLowering::set(const ir::RegRef& r, llvm::Value* v) { b_.CreateStore(v, slot(r)); }

llvm::Value* LlvmLowering::mask_of_bits(llvm::Value* bits, int lanes) {
  if (isa_.mask_registers || lanes == 1) return bits;
  return b_.CreateSExt(bits, llvm::FixedVectorType::get(b_.getInt32Ty(), static_cast<unsigned>(lanes)));
}

void LlvmLowering::emit(const ir::Const& n) {
  llvm::Type* type = type_of(reg_type(n.dst));
  llvm::Constant* bits = b_.getInt32(n.bits);
  if (type->isVectorTy())
    bits = llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(static_cast<unsigned>(reg_type(n.dst).lanes)),
                                          bits);
  set(n.dst, b_.CreateBitCast(bits, type));
}

void LlvmLowering::emit(const ir::Load& n) {
  llvm::Value* where = address(n.src);
  if (is_16bit_float(element(n.src))) return set(n.dst, load_halves(element(n.src), where, reg_type(n.dst).lanes));
  if (element(n.src) == DType::kU8) {
    llvm::Type* bytes = b_.getInt8Ty();
    const int lanes = reg_type(n.dst).lanes;
    if (lanes > 1) bytes = llvm::FixedVectorType::get(bytes, static_cast<unsigned>(lanes));
    llvm::Value* loaded = b_.CreateAlignedLoad(bytes, where, llvm::Align(1));
    return set(n.dst, b_.CreateZExt(loaded, type_of(reg_type(n.dst))));
  }
  set(n.dst,
      n.mask.valid() ? masked_load(n, where) : b_.CreateAlignedLoad(type_of(reg_type(n.dst)), where, llvm::Align(4)));
}

// As f32. fpext is exact, of denormals too: vcvtph2ps and fcvtl take no notice of the caller's treatment of them.
llvm::Value* LlvmLowering::load_halves(DType dtype, llvm::Value* where, int lanes) {
  auto vector = [&](llvm::Type* type) -> llvm::Type* {
    return lanes == 1 ? type : llvm::FixedVectorType::get(type, static_cast<unsigned>(lanes));
  };
  constexpr uint64_t kBytes = 2, kBits = 16;
  const bool f16 = dtype == DType::kF16;
  llvm::Value* halves =
      b_.CreateAlignedLoad(vector(f16 ? b_.getHalfTy() : b_.getInt16Ty()), where, llvm::Align(kBytes));
  llvm::Type* f32 = vector(b_.getFloatTy());
  if (f16) return b_.CreateFPExt(halves, f32);
  return b_.CreateBitCast(b_.CreateShl(b_.CreateZExt(halves, vector(b_.getInt32Ty())), kBits), f32);
}

llvm::Value* LlvmLowering::masked_load(const ir::Load& n, llvm::Value* where) {
  const ir::RegType& t = reg_type(n.dst);
  llvm::Type* type = type_of(t);
  llvm::Value* mask = get(n.mask);
  llvm::Constant* zero = llvm::Constant::getNullValue(type);
  if (t.lanes == 1) {
    llvm::BasicBlock* from = b_.GetInsertBlock();
    llvm::BasicBlock* active = llvm::BasicBlock::Create(context_, "active", function_);
    llvm::BasicBlock* join = llvm::BasicBlock::Create(context_, "join", function_);
    b_.CreateCondBr(mask, active, join);
    b_.SetInsertPoint(active);
    llvm::Value* loaded = b_.CreateAlignedLoad(type, where, llvm::Align(4));
    b_.CreateBr(join);
    b_.SetInsertPoint(join);
    llvm::PHINode* value = b_.CreatePHI(type, 2);
    value->addIncoming(zero, from);
    value->addIncoming(loaded, active);
    return value;
  }
  return target_->masked_load(type, where, mask);
}

void LlvmLowering::emit(const ir::Broadcast& n) {
  const ir::RegType& t = reg_type(n.dst);
  llvm::Value* where = address(n.src);
  llvm::Value* v =
      is_16bit_float(element(n.src))
          ? load_halves(element(n.src), where, 1)
          : b_.CreateAlignedLoad(t.dtype == DType::kF32 ? b_.getFloatTy() : b_.getInt32Ty(), where, llvm::Align(4));
  if (t.lanes > 1) v = b_.CreateVectorSplat(static_cast<unsigned>(t.lanes), v);
  set(n.dst, v);
}

void LlvmLowering::emit(const ir::Store& n) {
  llvm::Value* where = address(n.dst);
  llvm::Value* value = get(n.src);
  if (n.mask.valid())
    masked_store(n, where, value);
  else
    b_.CreateAlignedStore(value, where, llvm::Align(4));
}

void LlvmLowering::masked_store(const ir::Store& n, llvm::Value* where, llvm::Value* value) {
  const ir::RegType& t = reg_type(n.src);
  llvm::Value* mask = get(n.mask);
  if (t.lanes == 1) {
    llvm::BasicBlock* active = llvm::BasicBlock::Create(context_, "active", function_);
    llvm::BasicBlock* join = llvm::BasicBlock::Create(context_, "join", function_);
    b_.CreateCondBr(mask, active, join);
    b_.SetInsertPoint(active);
    b_.CreateAlignedStore(value, where, llvm::Align(4));
    b_.CreateBr(join);
    b_.SetInsertPoint(join);
    return;
  }
  target_->masked_store(value, where, mask);
}

void LlvmLowering::emit(const ir::Binary& n) {
  llvm::Value *a = get(n.a), *b = get(n.b);
  const bool f32 = reg_type(n.a).dtype == DType::kF32;
  switch (n.op) {
    case ir::BinaryOp::kAdd:
      return set(n.dst, f32 ? b_.CreateFAdd(a, b) : b_.CreateAdd(a, b));
    case ir::BinaryOp::kSub:
      return set(n.dst, f32 ? b_.CreateFSub(a, b) : b_.CreateSub(a, b));
    case ir::BinaryOp::kMul:
      return set(n.dst, b_.CreateFMul(a, b));
    case ir::BinaryOp::kDiv:
      return set(n.dst, b_.CreateFDiv(a, b));
    case ir::BinaryOp::kMin:
      return set(n.dst, target_->lesser(a, b));
    case ir::BinaryOp::kMax:
      return set(n.dst, target_->greater(a, b));
  }
}

void LlvmLowering::emit(const ir::Fma& n) {
  llvm::Value* a = get(n.a);
  llvm::Value* b = get(n.b);
  set(n.dst, target_->fma(a, b, get(n.c)));
}

void LlvmLowering::emit(const ir::Pairs& n) {
  llvm::Value* a = get(n.a);
  set_pairs(n.dst, target_->pairs(a, get(n.b)));
}

void LlvmLowering::emit(const ir::DotPairs& n) {
  llvm::Value* a = get(n.a);
  llvm::Value* b = get(n.b);
  set_pairs(n.dst, target_->dot_pairs(a, b, get(n.c)));
}

void LlvmLowering::set_pairs(const ir::RegRef& r, llvm::Value* v) {
  if (v != nullptr) return set(r, v);
  fail(internal_error("pairs of bf16 on " + std::string(isa_.name) + ": check_features() was not asked"));
}

void LlvmLowering::emit(const ir::Unary& n) {
  llvm::Value* v = get(n.src);
  llvm::Type* type = type_of(reg_type(n.dst));
  switch (n.op) {
    case ir::UnaryOp::kMove:
      return set(n.dst, v);
    case ir::UnaryOp::kNeg:
      return set(n.dst, b_.CreateFNeg(v));
    case ir::UnaryOp::kAbs:
      return set(n.dst, b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v));
    case ir::UnaryOp::kRound:
      return set(n.dst, b_.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, v));
    case ir::UnaryOp::kSqrt:
      return set(n.dst, b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, v));
    case ir::UnaryOp::kToInt:
      return set(n.dst, target_->to_int(v, reg_type(n.src).lanes));
    case ir::UnaryOp::kToFloat:
      return set(n.dst, b_.CreateSIToFP(v, type));
    case ir::UnaryOp::kBitcast:
      return set(n.dst, b_.CreateBitCast(v, type));
    case ir::UnaryOp::kShl:
      return set(n.dst, b_.CreateShl(v, llvm::ConstantInt::get(type, static_cast<uint64_t>(n.imm))));
  }
}

void LlvmLowering::emit(const ir::Compare& n) {
  llvm::Value *a = get(n.a), *b = get(n.b);
  llvm::CmpInst::Predicate p = llvm::CmpInst::FCMP_OLT;
  if (n.op == ir::CompareOp::kLe) p = llvm::CmpInst::FCMP_OLE;
  if (n.op == ir::CompareOp::kEq) p = llvm::CmpInst::FCMP_OEQ;
  set(n.dst, mask_of_bits(b_.CreateFCmp(p, a, b), reg_type(n.dst).lanes));
}

void LlvmLowering::emit(const ir::Select& n) {
  llvm::Value* mask = get(n.mask);
  llvm::Value* a = get(n.a);
  set(n.dst, target_->select(mask, a, get(n.b)));
}

void LlvmLowering::emit(const ir::Permute& n) {
  llvm::Value *a = get(n.a), *b = get(n.b);
  set(n.dst, b_.CreateShuffleVector(a, b, ir::permute_lanes(n.op, n.imm, reg_type(n.dst).lanes)));
  // Instruction selection looks through all shuffles of a block at once, again and again: a kernel of 20 transposes
  // took 1.73 s. Cut into blocks, which the layout joins again, it takes 0.76 s.
  constexpr int kShufflesPerBlock = 16;
  if (++shuffles_ % kShufflesPerBlock != 0) return;
  llvm::BasicBlock* next = llvm::BasicBlock::Create(context_, "shuffled", function_);
  b_.CreateBr(next);
  b_.SetInsertPoint(next);
  keep_apart_.insert(next);
}

void LlvmLowering::emit(const ir::LaneMask& n) {
  const int lanes = reg_type(n.dst).lanes;
  const ir::Affine count = resolve(n.count);
  llvm::Value* limit = integer(count);
  llvm::Value* zero = b_.getInt64(0);
  if (lanes == 1) return set(n.dst, b_.CreateICmpSGT(limit, zero));
  // Into the range of a lane number first, so that 32-bit lanes can hold it.
  limit = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, limit, b_.getInt64(static_cast<uint64_t>(lanes)));
  limit = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, limit, zero);
  limit = b_.CreateVectorSplat(static_cast<unsigned>(lanes), b_.CreateTrunc(limit, b_.getInt32Ty()));
  std::vector<llvm::Constant*> iota;
  for (int i = 0; i < lanes; ++i) iota.push_back(b_.getInt32(static_cast<uint32_t>(i)));
  set(n.dst, mask_of_bits(b_.CreateICmpSLT(llvm::ConstantVector::get(iota), limit), lanes));
}

void LlvmLowering::emit(const ir::Prefetch& n) {
  llvm::Value* where = address(n.src);
  constexpr int kMostLocal = 3;  // LLVM counts the other way
  b_.CreateIntrinsic(
      llvm::Intrinsic::prefetch, {where->getType()},
      {where, b_.getInt32(0), b_.getInt32(static_cast<uint32_t>(kMostLocal - n.locality)), b_.getInt32(1)});
}

}  // namespace hone::jit
