// Which architecture is whose. See target_internal.h.
#include "jit/llvm/target_internal.h"

#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>

namespace hone::jit {

std::unique_ptr<TargetOps> TargetOps::make(const IsaInfo& isa, llvm::IRBuilder<>& b) {
  return isa.arch == Arch::kAarch64 ? make_aarch64_ops(b) : make_x86_ops(isa, b);
}

LlvmMachine llvm_machine(const IsaInfo& isa, const std::string& tune) {
  return isa.arch == Arch::kAarch64 ? aarch64_machine(tune) : x86_machine(isa, tune);
}

// All targets, as naming those that an LLVM lacks would not link; 0.8 ms once a process, a quarter of it for ours.
Result<const llvm::Target*> find_llvm_target(std::string_view triple) {
  static const bool initialised = [] {
    llvm::InitializeAllTargetInfos();
    llvm::InitializeAllTargets();
    llvm::InitializeAllTargetMCs();
    llvm::InitializeAllAsmPrinters();
    return true;
  }();
  static_cast<void>(initialised);
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(std::string(triple), error);
  if (target == nullptr) return unsupported("this LLVM cannot generate code for " + std::string(triple) + ": " + error);
  return target;
}

}  // namespace hone::jit
