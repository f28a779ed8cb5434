// LLVM's description of one architecture: instructions, registers, decoder, printer.
#pragma once

#include <llvm/MC/MCAsmInfo.h>
#include <llvm/MC/MCContext.h>
#include <llvm/MC/MCDisassembler/MCDisassembler.h>
#include <llvm/MC/MCInst.h>
#include <llvm/MC/MCInstPrinter.h>
#include <llvm/MC/MCInstrAnalysis.h>
#include <llvm/MC/MCInstrInfo.h>
#include <llvm/MC/MCRegisterInfo.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "jit/inspect/arch_internal.h"

namespace hone::jit {

enum class RegisterKind : uint8_t { kOther, kGeneral, kVector, kMask };

struct Mc {
  const llvm::Target* target = nullptr;
  std::string triple;
  std::unique_ptr<llvm::MCRegisterInfo> registers;
  std::unique_ptr<llvm::MCAsmInfo> assembly;
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget;  // knows every instruction; not the CPU of a throughput question
  std::unique_ptr<llvm::MCInstrInfo> instructions;
  std::unique_ptr<llvm::MCInstrAnalysis> analysis;
  std::unique_ptr<llvm::MCContext> context;
  std::unique_ptr<llvm::MCDisassembler> disassembler;
  std::unique_ptr<llvm::MCInstPrinter> printer;

  // By LLVM's register number; filled by the architecture's file.
  std::vector<RegisterKind> kind;
  std::vector<Tracked> tracked;  // of a part of a tracked register too: writing that changes the whole
  std::vector<bool> whole;       // all of a tracked register
  unsigned flags = 0;            // the register of arithmetic flags

  // The name that LLVM gives the opcode (VFMADD231PSZmb): its enumerators are in no installed header.
  std::string_view name(const llvm::MCInst& inst) const {
    return std::string_view(instructions->getName(inst.getOpcode()));
  }
  const llvm::MCInstrDesc& desc(const llvm::MCInst& inst) const { return instructions->get(inst.getOpcode()); }
  const llvm::MCRegisterClass* register_class(std::string_view name) const;  // null when there is none
  RegisterKind operand_kind(const llvm::MCOperand& operand) const;
  Tracked whole_register(const llvm::MCOperand& operand) const;  // kNoRegister for parts and for what is no register
  bool writes_register(const llvm::MCInst& inst, unsigned reg) const;  // as an implicit result
  // Marks a class and the parts of its registers.
  void mark(const llvm::MCRegisterClass& registers_of, RegisterKind as);
};

// Error: unsupported when this LLVM lacks the architecture.
Result<std::unique_ptr<Mc>> make_mc(Arch arch);

// Initialises LLVM's targets, once.
void register_targets();

// Of x86.cpp and aarch64.cpp. `name_registers` fills kind, tracked and whole; `describe` fills everything of `op` but
// offset, size, text and what decode.cpp takes from MCInstrDesc alone (flow, target, classes.branch).
void name_x86_registers(Mc& mc);
void describe_x86(const Mc& mc, const llvm::MCInst& inst, Operation& op);
bool x86_callee_saved(Tracked reg);
void name_aarch64_registers(Mc& mc);
void describe_aarch64(const Mc& mc, const llvm::MCInst& inst, Operation& op);
bool aarch64_callee_saved(Tracked reg);

}  // namespace hone::jit
