// What an architecture has that IsaInfo does not say: which LLVM target emits it, and the few operations of LoopIR that
// LLVM's own instructions do not mean exactly, or that one architecture has instructions for and another has not. The
// lowering asks here and never which architecture it is. One file each: x86_llvm.cpp, aarch64_llvm.cpp.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/isa.h"
#include "engine/base/status.h"

namespace llvm {
class Target;
}

namespace hone::jit {

// Arguments of an LLVM target machine.
struct LlvmMachine {
  std::string_view triple;
  std::string_view cpu;               // with no more than `features` adds
  std::vector<std::string> features;  // LLVM's names of what the ISA requires
  std::string_view also;              // switches that are no features of a CPU: "+evex512,"
  std::string tune;                   // name of the machine model that schedules the code: nothing about legality
  bool schedule = true;               // instructions are put into another order before registers are allocated
};
// `tune`: "" for ours.
LlvmMachine llvm_machine(const IsaInfo& isa, const std::string& tune);
// Error: unsupported, where this LLVM was built without the target.
Result<const llvm::Target*> find_llvm_target(std::string_view triple);

// Row r at a runtime stride s is reached as pointer + ((s * factor) << shift).
struct RowIndex {
  int64_t factor;
  unsigned shift;
};

// Operations of one function. Masked accesses are of vectors: scalars need branches and no instructions of their own.
class TargetOps {
 public:
  // `b` stays at the place where the lowering emits.
  static std::unique_ptr<TargetOps> make(const IsaInfo& isa, llvm::IRBuilder<>& b);
  virtual ~TargetOps() = default;

  // A mask is <n x i1> with mask registers, else <n x i32> of all ones or zero; i1 where there is one lane.

  // Inactive lanes are 0, and no access.
  virtual llvm::Value* masked_load(llvm::Type* type, llvm::Value* where, llvm::Value* mask) = 0;
  virtual void masked_store(llvm::Value* value, llvm::Value* where, llvm::Value* mask) = 0;
  // mask ? a : b, bit by bit. Of one lane too, as all that follow.
  virtual llvm::Value* select(llvm::Value* mask, llvm::Value* a, llvm::Value* b) = 0;
  // a < b ? a : b and a > b ? a : b, NaN and signed zeros included.
  virtual llvm::Value* lesser(llvm::Value* a, llvm::Value* b) = 0;
  virtual llvm::Value* greater(llvm::Value* a, llvm::Value* b) = 0;
  // a * b + c, rounded once.
  virtual llvm::Value* fma(llvm::Value* a, llvm::Value* b, llvm::Value* c) = 0;
  // ir::Pairs and ir::DotPairs: two vectors of f32 as one of pairs (s32), and products of pairs added to c. Null: the
  // architecture has no such instructions.
  virtual llvm::Value* pairs(llvm::Value*, llvm::Value*) { return nullptr; }
  virtual llvm::Value* dot_pairs(llvm::Value*, llvm::Value*, llvm::Value*) { return nullptr; }
  // f32 -> s32 to nearest even; out of range or NaN: 0x80000000.
  virtual llvm::Value* to_int(llvm::Value* v, int lanes) = 0;
  // Row 0 <= row < kRowsPerPointer. So many rows share a pointer, and index registers among all pointers.
  virtual RowIndex row_index(int64_t row) const = 0;
  static constexpr int64_t kRowsPerPointer = 9;
  // Last changes of the complete function, in SSA form.
  virtual void finish(llvm::Function&) {}
};

std::unique_ptr<TargetOps> make_x86_ops(const IsaInfo& isa, llvm::IRBuilder<>& b);
std::unique_ptr<TargetOps> make_aarch64_ops(llvm::IRBuilder<>& b);
LlvmMachine x86_machine(const IsaInfo& isa, const std::string& tune);
LlvmMachine aarch64_machine(const std::string& tune);

}  // namespace hone::jit
