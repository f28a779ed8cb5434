// AArch64: NEON (Advanced SIMD). See target_internal.h.
//
// NEON has no masked memory instruction. An inactive lane is an access all the same, but to a slot of the stack frame:
// its address is chosen between the lane's and the slot's. Branches around single lanes would cut the block into nine,
// which instruction selection and scheduling do not look across, and would be mispredicted where tails vary.
#include <llvm/IR/IntrinsicsAArch64.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>

#include "jit/llvm/target_internal.h"

namespace hone::jit {

namespace {

class Aarch64Ops final : public TargetOps {
 public:
  explicit Aarch64Ops(llvm::IRBuilder<>& b) : b_(b) {}

  llvm::Value* masked_load(llvm::Type* type, llvm::Value* where, llvm::Value* mask) override {
    auto* vector = llvm::cast<llvm::FixedVectorType>(type);
    llvm::Value* result = llvm::PoisonValue::get(type);
    for (unsigned i = 0; i < vector->getNumElements(); ++i) {
      llvm::Value* from = b_.CreateSelect(active(mask, i), lane_address(where, i), zero_slot());
      llvm::Value* lane = b_.CreateAlignedLoad(vector->getElementType(), from, llvm::Align(4));
      result = b_.CreateInsertElement(result, lane, b_.getInt64(i));
    }
    return result;
  }

  void masked_store(llvm::Value* value, llvm::Value* where, llvm::Value* mask) override {
    const unsigned lanes = llvm::cast<llvm::FixedVectorType>(value->getType())->getNumElements();
    for (unsigned i = 0; i < lanes; ++i) {
      llvm::Value* to = b_.CreateSelect(active(mask, i), lane_address(where, i), waste_slot());
      b_.CreateAlignedStore(b_.CreateExtractElement(value, b_.getInt64(i)), to, llvm::Align(4));
    }
  }

  // LLVM makes fnmadd of the negative of a scalar fma, which negates before it adds: where the sum is an exact zero,
  // that gives 0 instead of -0. The fence keeps the two apart and is no instruction.
  llvm::Value* fma(llvm::Value* a, llvm::Value* b, llvm::Value* c) override {
    llvm::Value* sum = b_.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, c});
    if (sum->getType()->isVectorTy()) return sum;
    return b_.CreateIntrinsic(llvm::Intrinsic::arithmetic_fence, {sum->getType()}, {sum});
  }

  // fcvtns saturates and gives 0 for NaN; below the range that is the wanted 0x80000000 already.
  llvm::Value* to_int(llvm::Value* v, int lanes) override {
    llvm::Type* s32 = b_.getInt32Ty();
    if (lanes > 1) s32 = llvm::FixedVectorType::get(s32, static_cast<unsigned>(lanes));
    llvm::Value* converted = b_.CreateIntrinsic(llvm::Intrinsic::aarch64_neon_fcvtns, {s32, v->getType()}, {v});
    llvm::Value* fits = b_.CreateFCmpOLT(v, llvm::ConstantFP::get(v->getType(), 0x1p31));
    return b_.CreateSelect(fits, converted, llvm::ConstantInt::get(s32, 0x80000000U));
  }

  // LLVM makes fminnm of a compare and a select of the same operands where neither can be NaN, and that orders zeros:
  // of -0 and 0 it gives -0 either way round. So nothing is selected: bits are picked by a mask, which is bsl.
  llvm::Value* select(llvm::Value* mask, llvm::Value* a, llvm::Value* b) override {
    llvm::Type* const type = a->getType();
    if (!type->isVectorTy()) {  // lane 0 of a vector register
      llvm::Value* wide = select(as_lane(b_.CreateSExt(mask, b_.getInt32Ty())), as_lane(a), as_lane(b));
      return b_.CreateExtractElement(wide, b_.getInt64(0));
    }
    llvm::Value *yes = b_.CreateBitCast(a, mask->getType()), *no = b_.CreateBitCast(b, mask->getType());
    return b_.CreateBitCast(b_.CreateOr(b_.CreateAnd(mask, yes), b_.CreateAnd(b_.CreateNot(mask), no)), type);
  }
  llvm::Value* lesser(llvm::Value* a, llvm::Value* b) override { return select(greater_mask(b, a), a, b); }
  llvm::Value* greater(llvm::Value* a, llvm::Value* b) override { return select(greater_mask(a, b), a, b); }

  // An address is a register plus a register: each row has an index register, of which there are enough.
  RowIndex row_index(int64_t row) const override { return {row, 0}; }

 private:
  // a > b, as a mask.
  llvm::Value* greater_mask(llvm::Value* a, llvm::Value* b) {
    llvm::Value* bits = b_.CreateFCmpOGT(a, b);
    auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(a->getType());
    if (vector == nullptr) return bits;
    return b_.CreateSExt(bits, llvm::FixedVectorType::get(b_.getInt32Ty(), vector->getNumElements()));
  }
  llvm::Value* as_lane(llvm::Value* scalar) {
    constexpr unsigned kLanes = 4;
    llvm::Value* wide = llvm::PoisonValue::get(llvm::FixedVectorType::get(scalar->getType(), kLanes));
    return b_.CreateInsertElement(wide, scalar, b_.getInt64(0));
  }
  llvm::Value* active(llvm::Value* mask, unsigned lane) {
    return b_.CreateICmpSLT(b_.CreateExtractElement(mask, b_.getInt64(lane)), b_.getInt32(0));
  }
  llvm::Value* lane_address(llvm::Value* where, unsigned lane) {
    constexpr uint64_t kLaneBytes = 4;
    return b_.CreateGEP(b_.getInt8Ty(), where, b_.getInt64(lane * kLaneBytes));
  }
  // Loads that are none read 0 here, stores that are none go there.
  llvm::Value* zero_slot() { return zero_ != nullptr ? zero_ : zero_ = slot("zero", true); }
  llvm::Value* waste_slot() { return waste_ != nullptr ? waste_ : waste_ = slot("waste", false); }
  llvm::Value* slot(const char* name, bool zero) {
    llvm::IRBuilderBase::InsertPointGuard guard(b_);
    llvm::BasicBlock& entry = b_.GetInsertBlock()->getParent()->getEntryBlock();
    b_.SetInsertPoint(&entry, entry.begin());
    llvm::AllocaInst* made = b_.CreateAlloca(b_.getInt32Ty(), nullptr, name);
    if (zero) b_.CreateAlignedStore(b_.getInt32(0), made, llvm::Align(4));
    return made;
  }

  llvm::IRBuilder<>& b_;
  llvm::Value *zero_ = nullptr, *waste_ = nullptr;
};

}  // namespace

std::unique_ptr<TargetOps> make_aarch64_ops(llvm::IRBuilder<>& b) { return std::make_unique<Aarch64Ops>(b); }

// A core that executes out of order takes the lowering's order as it is: the loads of a step, then its arithmetic.
// LLVM's scheduler gains it nothing and hoists loads until accumulators spill (27 accumulators, unrolled by 2: 0.92
// cycles an fma instead of 0.51; llvm-mca, neoverse-n1). In-order cores need it (24 accumulators, unrolled by 4: 1.09
// instead of 1.50; cortex-a55).
LlvmMachine aarch64_machine(const std::string& tune) {
  LlvmMachine machine{.triple = "aarch64-unknown-linux-gnu",
                      .cpu = "generic",
                      .features = {"neon"},
                      .also = "",
                      .tune = tune.empty() ? "neoverse-n1" : tune};
  if (const Result<const llvm::Target*> target = find_llvm_target(machine.triple); target.ok()) {
    const std::unique_ptr<llvm::MCSubtargetInfo> model(
        (*target)->createMCSubtargetInfo(machine.triple, machine.tune, ""));
    machine.schedule = !model->getSchedModel().isOutOfOrder();
  }
  return machine;
}

}  // namespace hone::jit
