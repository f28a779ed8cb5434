// LLVM 19 has no pattern for vdpbf16ps with an embedded broadcast, though it has the instruction. So a tile with one
// vector of B gets a broadcast instruction for each dot: 28x16 on Zen 4 runs at 177 GFLOP/s that way, at 235 with the
// broadcast as an operand. This pass makes it one, in machine code that is still SSA.
//
// When is it the same program? Broadcast and dot are in one block, nothing in between may store, and the dot is the
// only use. LLVM's enumerators of opcodes are in no installed header, so instructions are found by name.
#include <llvm/CodeGen/MachineFunctionPass.h>
#include <llvm/CodeGen/MachineInstrBuilder.h>
#include <llvm/CodeGen/MachineRegisterInfo.h>
#include <llvm/CodeGen/TargetInstrInfo.h>
#include <llvm/CodeGen/TargetSubtargetInfo.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "jit/llvm/pipeline_internal.h"

namespace hone::jit {
namespace {

constexpr std::string_view kSizes[] = {"Z", "Z256", "Z128"};
constexpr int kAddressOperands = 5;  // base, scale, index, displacement, segment

// Opcodes of one vector length.
struct Opcodes {
  unsigned dot = 0, dot_broadcast = 0;
  std::array<unsigned, 2> broadcasts = {};  // as floats and as integers
};
using AllOpcodes = std::array<Opcodes, std::size(kSizes)>;

AllOpcodes find_opcodes(const llvm::TargetInstrInfo& info) {
  AllOpcodes found;
  for (unsigned opcode = 0; opcode < info.getNumOpcodes(); ++opcode) {
    const std::string_view name = info.getName(opcode);
    for (size_t i = 0; i < found.size(); ++i) {
      const std::string size(kSizes[i]);
      if (name == "VDPBF16PS" + size + "r") found[i].dot = opcode;
      if (name == "VDPBF16PS" + size + "mb") found[i].dot_broadcast = opcode;
      if (name == "VBROADCASTSS" + size + "rm") found[i].broadcasts[0] = opcode;
      if (name == "VPBROADCASTD" + size + "rm") found[i].broadcasts[1] = opcode;
    }
  }
  return found;
}

class FoldPairs final : public llvm::MachineFunctionPass {
 public:
  FoldPairs() : MachineFunctionPass(kId) {}
  llvm::StringRef getPassName() const override { return "broadcasts as operands of products of pairs"; }

  bool runOnMachineFunction(llvm::MachineFunction& function) override {
    if (!function.getFunction().hasFnAttribute("target-features")) return false;  // no pairs in it
    const llvm::TargetInstrInfo& info = *function.getSubtarget().getInstrInfo();
    static const AllOpcodes opcodes = find_opcodes(info);  // of x86, which alone has pairs
    bool changed = false;
    for (llvm::MachineBasicBlock& block : function)
      for (const Opcodes& of : opcodes) changed |= fold(block, of, info, function.getRegInfo());
    return changed;
  }

 private:
  static bool fold(llvm::MachineBasicBlock& block, const Opcodes& of, const llvm::TargetInstrInfo& info,
                   llvm::MachineRegisterInfo& registers) {
    if (of.dot == 0 || of.dot_broadcast == 0) return false;  // an LLVM that names them otherwise
    bool changed = false;
    std::vector<llvm::MachineInstr*> loads;  // that nothing has stored behind
    for (llvm::MachineInstr& inst : llvm::make_early_inc_range(block)) {
      if (inst.mayStore() || inst.isCall() || inst.hasUnmodeledSideEffects()) loads.clear();
      const unsigned opcode = inst.getOpcode();
      if (opcode == of.broadcasts[0] || opcode == of.broadcasts[1]) {
        if (registers.hasOneNonDBGUse(inst.getOperand(0).getReg())) loads.push_back(&inst);
        continue;
      }
      if (opcode != of.dot) continue;
      for (const unsigned factor : {3U, 2U}) {
        const llvm::Register reg = inst.getOperand(factor).getReg();
        const auto load = std::find_if(loads.begin(), loads.end(),
                                       [&](const llvm::MachineInstr* l) { return l->getOperand(0).getReg() == reg; });
        if (load == loads.end()) continue;
        replace(block, inst, **load, factor == 3 ? 2 : 3, info.get(of.dot_broadcast), registers);
        loads.erase(load);
        changed = true;
        break;
      }
    }
    return changed;
  }

  // dst = dot(sum, factor, broadcast)
  static void replace(llvm::MachineBasicBlock& block, llvm::MachineInstr& dot, llvm::MachineInstr& load,
                      unsigned factor, const llvm::MCInstrDesc& with, llvm::MachineRegisterInfo& registers) {
    llvm::MachineInstrBuilder folded = llvm::BuildMI(block, dot, dot.getDebugLoc(), with, dot.getOperand(0).getReg());
    folded.add(dot.getOperand(1)).add(dot.getOperand(factor));
    for (int i = 1; i <= kAddressOperands; ++i) {
      const llvm::MachineOperand& part = load.getOperand(static_cast<unsigned>(i));
      folded.add(part);
      if (part.isReg() && part.getReg().isVirtual()) registers.clearKillFlags(part.getReg());  // it lives longer now
    }
    folded.cloneMemRefs(load);
    dot.eraseFromParent();
    load.eraseFromParent();
  }

  static char kId;  // its address is the pass's identity
};
char FoldPairs::kId = 0;

}  // namespace

llvm::Pass* fold_broadcasts_of_pairs() { return new FoldPairs; }

}  // namespace hone::jit
