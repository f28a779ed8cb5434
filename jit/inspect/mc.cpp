// See mc_internal.h. Everything here is made anew for each call of inspect(): an MCContext serves one thread, and all
// of it takes well under a millisecond.
#include <llvm/MC/MCTargetOptions.h>
#include <llvm/Support/TargetSelect.h>

#include <mutex>

#include "jit/inspect/mc_internal.h"
#include "jit/llvm/object.h"

namespace hone::jit {

// LLVM's registry is a list without a lock. Whoever generates code enters targets in it, so that happens in one place;
// what is added here are fields of targets that are in the list.
void register_targets() {
  static std::once_flag once;
  std::call_once(once, [] {
    static_cast<void>(llvm_emits(Isa::kAvx2));  // whether it does is not the question: looking enters all targets
    llvm::InitializeAllDisassemblers();
    llvm::InitializeAllTargetMCAs();
  });
}

Result<std::unique_ptr<Mc>> make_mc(Arch arch) {
  register_targets();
  auto mc = std::make_unique<Mc>();
  mc->triple = arch == Arch::kX86_64 ? "x86_64-unknown-linux-gnu" : "aarch64-unknown-linux-gnu";
  std::string error;
  mc->target = llvm::TargetRegistry::lookupTarget(mc->triple, error);
  if (mc->target == nullptr) return unsupported("this LLVM was built without " + mc->triple + ": " + error);
  // AArch64 decodes only what its features allow; x86-64 decodes everything anyway.
  const std::string features = arch == Arch::kX86_64 ? "" : "+all";
  mc->registers.reset(mc->target->createMCRegInfo(mc->triple));
  mc->assembly.reset(mc->target->createMCAsmInfo(*mc->registers, mc->triple, llvm::MCTargetOptions()));
  mc->subtarget.reset(mc->target->createMCSubtargetInfo(mc->triple, "", features));
  mc->instructions.reset(mc->target->createMCInstrInfo());
  mc->analysis.reset(mc->target->createMCInstrAnalysis(mc->instructions.get()));
  mc->context = std::make_unique<llvm::MCContext>(llvm::Triple(mc->triple), mc->assembly.get(), mc->registers.get(),
                                                  mc->subtarget.get());
  mc->disassembler.reset(mc->target->createMCDisassembler(*mc->subtarget, *mc->context));
  const unsigned variant = arch == Arch::kX86_64 ? 1 : 0;  // 1: Intel's syntax
  mc->printer.reset(mc->target->createMCInstPrinter(llvm::Triple(mc->triple), variant, *mc->assembly, *mc->instructions,
                                                    *mc->registers));
  if (!mc->analysis || !mc->disassembler || !mc->printer)
    return unsupported("this LLVM has no disassembler for " + mc->triple);
  mc->printer->setPrintImmHex(true);
  mc->printer->setPrintBranchImmAsAddress(true);
  const size_t count = mc->registers->getNumRegs();
  mc->kind.assign(count, RegisterKind::kOther);
  mc->tracked.assign(count, kNoRegister);
  mc->whole.assign(count, false);
  arch == Arch::kX86_64 ? name_x86_registers(*mc) : name_aarch64_registers(*mc);
  return mc;
}

const llvm::MCRegisterClass* Mc::register_class(std::string_view name) const {
  for (const llvm::MCRegisterClass& c : registers->regclasses())
    if (registers->getRegClassName(&c) == name) return &c;
  return nullptr;
}

RegisterKind Mc::operand_kind(const llvm::MCOperand& operand) const {
  return operand.isReg() ? kind[operand.getReg()] : RegisterKind::kOther;
}

Tracked Mc::whole_register(const llvm::MCOperand& operand) const {
  return operand.isReg() && whole[operand.getReg()] ? tracked[operand.getReg()] : kNoRegister;
}

bool Mc::writes_register(const llvm::MCInst& inst, unsigned reg) const {
  for (const llvm::MCPhysReg written : desc(inst).implicit_defs())
    if (written == reg) return true;
  return false;
}

void Mc::mark(const llvm::MCRegisterClass& registers_of, RegisterKind as) {
  for (const llvm::MCPhysReg reg : registers_of)
    for (const llvm::MCPhysReg part : registers->subregs_inclusive(reg)) kind[part] = as;
}

}  // namespace hone::jit
