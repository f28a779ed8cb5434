// Bytes to operations. LLVM's decoder and MCInstrDesc give lengths, operands and control flow for every architecture;
// what operands mean for memory and registers is asked of the architecture's file.
#include <fmt/format.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>

#include "jit/inspect/mc_internal.h"

namespace hone::jit {

namespace {

void set_flow(const Mc& mc, const llvm::MCInst& inst, Operation& op) {
  const llvm::MCInstrDesc& desc = mc.desc(inst);
  Instruction& i = op.instruction;
  i.classes.branch = desc.isBranch() || desc.isIndirectBranch() || desc.isReturn() || desc.isCall();
  if (desc.isCall()) return;
  uint64_t target = 0;
  if (desc.isBranch() && !desc.isIndirectBranch() &&
      mc.analysis->evaluateBranch(inst, i.offset, static_cast<uint64_t>(i.size), target))
    i.target = static_cast<int64_t>(target);
  if (desc.isIndirectBranch())
    op.flow = Flow::kIndirect;
  else if (desc.isBranch())
    op.flow = desc.isBarrier() ? Flow::kJump : Flow::kBranch;
  else if (desc.isReturn() || desc.isTrap() || desc.isBarrier())
    op.flow = Flow::kStop;
}

// What an instruction leaves in the tracked registers that it writes is not known, unless `describe` says more.
void set_written(const Mc& mc, const llvm::MCInst& inst, Operation& op) {
  const llvm::MCInstrDesc& desc = mc.desc(inst);
  const auto written = [&](unsigned reg) {
    for (const llvm::MCPhysReg part : mc.registers->subregs_inclusive(reg))  // a tuple has several tracked parts
      if (mc.tracked[part] != kNoRegister && (op.after.empty() || op.after.back().to != mc.tracked[part]))
        op.after.push_back({.to = mc.tracked[part]});
  };
  for (unsigned i = 0; i < desc.getNumDefs() && i < inst.getNumOperands(); ++i)
    if (inst.getOperand(i).isReg() && inst.getOperand(i).getReg() != 0) written(inst.getOperand(i).getReg());
  for (const llvm::MCPhysReg reg : desc.implicit_defs()) written(reg);
}

// `origin`: what the displacement of a branch counts from.
std::string text_of(const Mc& mc, const llvm::MCInst& inst, size_t origin) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  mc.printer->printInst(&inst, origin, "", *mc.subtarget, stream);
  stream.flush();
  std::string line;
  for (const char c : text) {  // tabs and runs of spaces are one space, and none comes first
    const bool space = c == ' ' || c == '\t';
    if (!space || (!line.empty() && line.back() != ' ')) line += space ? ' ' : c;
  }
  return line;
}

}  // namespace

bool callee_saved(Arch arch, Tracked reg) {
  return arch == Arch::kX86_64 ? x86_callee_saved(reg) : aarch64_callee_saved(reg);
}

Result<std::vector<Operation>> decode(std::span<const std::byte> code, Arch arch) {
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<Mc> mc, make_mc(arch));
  const llvm::ArrayRef<uint8_t> bytes(reinterpret_cast<const uint8_t*>(code.data()), code.size());
  std::vector<Operation> operations;
  for (size_t at = 0; at < bytes.size();) {
    Operation& op = operations.emplace_back();
    op.instruction.offset = at;
    llvm::MCInst inst;
    uint64_t size = 0;
    if (mc->disassembler->getInstruction(inst, size, bytes.drop_front(at), at, llvm::nulls()) ==
        llvm::MCDisassembler::Success) {
      op.instruction.size = static_cast<int>(size);
      op.instruction.text = text_of(*mc, inst, arch == Arch::kX86_64 ? at + size : at);
      set_flow(*mc, inst, op);
      set_written(*mc, inst, op);
      arch == Arch::kX86_64 ? describe_x86(*mc, inst, op) : describe_aarch64(*mc, inst, op);
    } else {
      const size_t unit = arch == Arch::kX86_64 ? 1 : 4;
      op.instruction.size = static_cast<int>(std::min(unit, bytes.size() - at));
      op.instruction.text = ".byte";
      for (int i = 0; i < op.instruction.size; ++i)
        op.instruction.text += fmt::format("{} {:#04x}", i == 0 ? "" : ",", bytes[at + static_cast<size_t>(i)]);
      op.flow = Flow::kStop;
    }
    at += static_cast<size_t>(op.instruction.size);
  }
  return operations;
}

}  // namespace hone::jit
