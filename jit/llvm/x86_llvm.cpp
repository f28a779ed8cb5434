// x86-64: AVX2 and AVX-512. See target_internal.h.
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "jit/llvm/target_internal.h"

namespace hone::jit {

using llvm::Intrinsic::ID;

namespace {

// x86 overwrites one operand of a fused multiply-add, and LLVM likes that to be a factor at its last use. Then
// accumulators change registers from one copy of an unrolled body to the next, and the way back at the end of the loop
// can cost moves and spills (12x8 on 16 registers). An empty statement that names the broadcast after its only use
// makes the addend the better choice. Where broadcasts are memory operands there is nothing to overwrite.
void keep_broadcasts(llvm::Function& function) {
  for (llvm::BasicBlock& block : function) {
    for (llvm::Instruction& instruction : llvm::make_early_inc_range(block)) {
      auto* fma = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
      if (fma == nullptr || fma->getIntrinsicID() != llvm::Intrinsic::fma) continue;
      for (llvm::Value* factor : {fma->getArgOperand(0), fma->getArgOperand(1)}) {
        if (!factor->hasOneUse() || !llvm::isa<llvm::ShuffleVectorInst>(factor)) continue;
        auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(function.getContext()), {factor->getType()}, false);
        llvm::InlineAsm* name = llvm::InlineAsm::get(type, "", "x", /*hasSideEffects=*/true);
        llvm::CallInst::Create(type, name, {factor})->insertAfter(fma);
      }
    }
  }
}

class X86Ops final : public TargetOps {
 public:
  X86Ops(const IsaInfo& isa, llvm::IRBuilder<>& b) : isa_(isa), b_(b) {}

  llvm::Value* masked_load(llvm::Type* type, llvm::Value* where, llvm::Value* mask) override {
    if (isa_.mask_registers)
      return b_.CreateMaskedLoad(type, where, llvm::Align(4), mask, llvm::Constant::getNullValue(type));
    const bool f32 = type->isFPOrFPVectorTy();
    const ID id = lanes_of(type) == 8
                      ? (f32 ? llvm::Intrinsic::x86_avx_maskload_ps_256 : llvm::Intrinsic::x86_avx2_maskload_d_256)
                      : (f32 ? llvm::Intrinsic::x86_avx_maskload_ps : llvm::Intrinsic::x86_avx2_maskload_d);
    return b_.CreateIntrinsic(id, {}, {where, mask});
  }

  void masked_store(llvm::Value* value, llvm::Value* where, llvm::Value* mask) override {
    if (isa_.mask_registers) {
      b_.CreateMaskedStore(value, where, llvm::Align(4), mask);
      return;
    }
    const bool f32 = value->getType()->isFPOrFPVectorTy();
    const ID id = lanes_of(value->getType()) == 8
                      ? (f32 ? llvm::Intrinsic::x86_avx_maskstore_ps_256 : llvm::Intrinsic::x86_avx2_maskstore_d_256)
                      : (f32 ? llvm::Intrinsic::x86_avx_maskstore_ps : llvm::Intrinsic::x86_avx2_maskstore_d);
    b_.CreateIntrinsic(id, {}, {where, mask, value});
  }

  llvm::Value* fma(llvm::Value* a, llvm::Value* b, llvm::Value* c) override {
    return b_.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, c});
  }

  // The elements of the last operand come first.
  llvm::Value* pairs(llvm::Value* a, llvm::Value* b) override {
    const unsigned lanes = lanes_of(a->getType());
    const ID id = lanes == 16  ? llvm::Intrinsic::x86_avx512bf16_cvtne2ps2bf16_512
                  : lanes == 8 ? llvm::Intrinsic::x86_avx512bf16_cvtne2ps2bf16_256
                               : llvm::Intrinsic::x86_avx512bf16_cvtne2ps2bf16_128;
    return b_.CreateBitCast(b_.CreateIntrinsic(id, {}, {b, a}), llvm::FixedVectorType::get(b_.getInt32Ty(), lanes));
  }

  llvm::Value* dot_pairs(llvm::Value* a, llvm::Value* b, llvm::Value* c) override {
    const unsigned lanes = lanes_of(c->getType());
    const ID id = lanes == 16  ? llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512
                  : lanes == 8 ? llvm::Intrinsic::x86_avx512bf16_dpbf16ps_256
                               : llvm::Intrinsic::x86_avx512bf16_dpbf16ps_128;
    llvm::Type* halves = llvm::FixedVectorType::get(b_.getBFloatTy(), 2 * lanes);
    return b_.CreateIntrinsic(id, {}, {c, b_.CreateBitCast(a, halves), b_.CreateBitCast(b, halves)});
  }

  // LLVM's own conversions truncate, and are poison out of range.
  llvm::Value* to_int(llvm::Value* v, int lanes) override {
    switch (lanes) {
      case 1: {
        llvm::Value* wide = llvm::PoisonValue::get(llvm::FixedVectorType::get(b_.getFloatTy(), 4));
        return b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_cvtss2si, {},
                                  {b_.CreateInsertElement(wide, v, b_.getInt64(0))});
      }
      case 4:
        return b_.CreateIntrinsic(llvm::Intrinsic::x86_sse2_cvtps2dq, {}, {v});
      case 8:
        return b_.CreateIntrinsic(llvm::Intrinsic::x86_avx_cvt_ps2dq_256, {}, {v});
      default: {
        llvm::Type* s32 = llvm::FixedVectorType::get(b_.getInt32Ty(), 16);
        constexpr uint32_t kCurrentRounding = 4;
        return b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_cvtps2dq_512, {},
                                  {v, llvm::PoisonValue::get(s32), b_.getInt16(0xffff), b_.getInt32(kCurrentRounding)});
      }
    }
  }

  llvm::Value* select(llvm::Value* mask, llvm::Value* a, llvm::Value* b) override {
    if (!isa_.mask_registers && mask->getType()->isVectorTy())
      mask = b_.CreateICmpSLT(mask, llvm::Constant::getNullValue(mask->getType()));
    return b_.CreateSelect(mask, a, b);
  }
  // This compare and select is vminps, NaN and signed zeros included.
  llvm::Value* lesser(llvm::Value* a, llvm::Value* b) override { return b_.CreateSelect(b_.CreateFCmpOLT(a, b), a, b); }
  llvm::Value* greater(llvm::Value* a, llvm::Value* b) override {
    return b_.CreateSelect(b_.CreateFCmpOGT(a, b), a, b);
  }

  // An index register times 1, 2, 4 or 8 is free: s, 3s, 5s and 7s reach rows 1..8.
  RowIndex row_index(int64_t row) const override {
    constexpr RowIndex kIndices[kRowsPerPointer] = {{0, 0}, {1, 0}, {1, 1}, {3, 0}, {1, 2},
                                                    {5, 0}, {3, 1}, {7, 0}, {1, 3}};
    return kIndices[row];
  }

  void finish(llvm::Function& function) override {
    if (!isa_.mask_registers) keep_broadcasts(function);
  }

 private:
  static unsigned lanes_of(llvm::Type* vector) { return llvm::cast<llvm::FixedVectorType>(vector)->getNumElements(); }

  const IsaInfo& isa_;
  llvm::IRBuilder<>& b_;
};

}  // namespace

std::unique_ptr<TargetOps> make_x86_ops(const IsaInfo& isa, llvm::IRBuilder<>& b) {
  return std::make_unique<X86Ops>(isa, b);
}

// The machine model decides how loads are scheduled against register pressure. Measured on Sapphire Rapids (14x32, k
// unrolled by 2): sapphirerapids 193 GFLOP/s; skylake-avx512, icelake-server and znver4 181. For 256 bits (4x24):
// skylake 113, generic 69 with a spill.
LlvmMachine x86_machine(const IsaInfo& isa, const std::string& tune) {
  const bool wide = isa.vector_bits == 512;
  return {.triple = "x86_64-unknown-linux-gnu",
          .cpu = "x86-64",
          .features = isa.required.names(),
          .also = wide ? "+evex512," : "",  // 512-bit vectors too
          .tune = !tune.empty() ? tune
                  : wide        ? "sapphirerapids"
                                : "skylake"};
}

}  // namespace hone::jit
