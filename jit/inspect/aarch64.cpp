// AArch64: what the operands of an instruction say of memory, vectors and the frame.
//
// The base of an address is the operand of class GPR64sp, the only one that may be the stack pointer. The width of an
// access follows from the class of the register that it loads or stores, except where a part of it is accessed, which
// the name of the opcode tells (LDRBBui; the name stands for the enumerator that no installed header has). Lanes are in
// the name too: FMLAv4f32 has four, FMLAv1i32_indexed one. A 64-bit register without lanes in the name counts as one.
#include <algorithm>
#include <array>

#include "jit/inspect/mc_internal.h"

namespace hone::jit {

namespace {

constexpr Tracked kX0 = 1, kX19 = 20, kX30 = 31, kD8 = 32, kD15 = 39;  // sp is kStackPointer

bool starts_with(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

template <size_t kCount>
bool starts_with_any(std::string_view text, const std::array<std::string_view, kCount>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](std::string_view p) { return starts_with(text, p); });
}

// HINT covers nop, bti and pointer authentication.
bool only_hints(std::string_view name) {
  constexpr std::array<std::string_view, 4> kHints = {"HINT", "PRF", "RPRFM", "BTI"};
  return starts_with_any(name, kHints);
}

// The number behind a 'v' in the opcode's name, or 0.
int lanes_in(std::string_view name) {
  for (size_t i = 0; i + 1 < name.size(); ++i) {
    if (name[i] != 'v' || name[i + 1] < '1' || name[i + 1] > '9') continue;
    int lanes = 0;
    for (size_t j = i + 1; j < name.size() && name[j] >= '0' && name[j] <= '9'; ++j)
      lanes = lanes * 10 + (name[j] - '0');
    return lanes;
  }
  return 0;
}

std::string_view class_name(const Mc& mc, const llvm::MCInst& inst, unsigned operand) {
  const auto operands = mc.desc(inst).operands();
  if (operand >= operands.size() || operands[operand].RegClass < 0 || operands[operand].isLookupPtrRegClass())
    return "";
  return mc.registers->getRegClassName(&mc.registers->getRegClass(static_cast<unsigned>(operands[operand].RegClass)));
}

int class_bytes(const Mc& mc, const llvm::MCInst& inst, unsigned operand) {
  const auto operands = mc.desc(inst).operands();
  if (operand >= operands.size() || operands[operand].RegClass < 0) return 0;
  return static_cast<int>(
             mc.registers->getRegClass(static_cast<unsigned>(operands[operand].RegClass)).getSizeInBits()) /
         8;
}

// Does it compute or move at least two lanes?
bool on_several_lanes(const Mc& mc, const llvm::MCInst& inst, std::string_view name) {
  if (const int lanes = lanes_in(name); lanes > 0) return lanes > 1;
  constexpr std::array<std::string_view, 15> kOneLane = {"DUPi",       "UMOVvi", "SMOVvi", "INSvi", "FMOVXDHigh",
                                                         "FMOVDXHigh", "LD1i",   "LD2i",   "LD3i",  "LD4i",
                                                         "ST1i",       "ST2i",   "ST3i",   "ST4i",  "LDAP1"};
  if (starts_with_any(name, kOneLane)) return false;
  for (unsigned i = 0; i < inst.getNumOperands(); ++i)
    if (mc.operand_kind(inst.getOperand(i)) == RegisterKind::kVector && class_bytes(mc, inst, i) >= 16) return true;
  return false;
}

bool is_fma(std::string_view name) {
  constexpr std::array<std::string_view, 9> kFma = {"FMLA",  "FMLS",  "BFMLAL", "FMAD_", "FMSB_",
                                                    "FNMLA", "FNMLS", "FNMAD_", "FNMSB_"};
  return starts_with_any(name, kFma);
}

// The base register of an address: the last operand that may be the stack pointer. -1 without one.
int base_operand(const Mc& mc, const llvm::MCInst& inst) {
  for (int i = static_cast<int>(inst.getNumOperands()) - 1; i >= 0; --i)
    if (class_name(mc, inst, static_cast<unsigned>(i)) == "GPR64sp") return i;
  return -1;
}

bool is_plain(std::string_view name) {
  constexpr std::array<std::string_view, 4> kPlain = {"LDR", "STR", "LDUR", "STUR"};
  return starts_with_any(name, kPlain) && name.find('_') == std::string_view::npos;  // LDR_ZXI is SVE's
}

bool is_pair(std::string_view name) {
  constexpr std::array<std::string_view, 4> kPairs = {"LDP", "STP", "LDNP", "STNP"};
  return starts_with_any(name, kPairs);
}

// Bytes that one register of a plain load, store or pair takes.
int element_bytes(const Mc& mc, const llvm::MCInst& inst, std::string_view name, int data) {
  const auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (has("BB") || has("SBW") || has("SBX")) return 1;
  if (has("HH") || has("SHW") || has("SHX")) return 2;
  if (has("SW")) return 4;
  return class_bytes(mc, inst, static_cast<unsigned>(data));
}

// LD1 and ST1 of whole registers; 0, not known, for lanes and interleaved structures, which nothing spills.
int structure_bytes(const Mc& mc, const llvm::MCInst& inst, std::string_view name, int data) {
  constexpr std::array<std::string_view, 8> kWhole = {"LD1One",   "ST1One",   "LD1Two",  "ST1Two",
                                                      "LD1Three", "ST1Three", "LD1Four", "ST1Four"};
  if (starts_with_any(name, kWhole)) return class_bytes(mc, inst, static_cast<unsigned>(data));
  return 0;
}

void describe_memory(const Mc& mc, const llvm::MCInst& inst, std::string_view name, Operation& op) {
  const llvm::MCInstrDesc& desc = mc.desc(inst);
  if (!desc.mayLoad() && !desc.mayStore()) return;
  Classes& classes = op.instruction.classes;
  const auto operands = desc.operands();
  const bool literal = !operands.empty() && operands.back().OperandType == llvm::MCOI::OPERAND_PCREL;
  const int base = base_operand(mc, inst);
  if (base < 0 && !literal) return;  // barriers claim both, and have no address
  classes.load = desc.mayLoad();
  classes.store = desc.mayStore();
  if (base < 0) return;

  const bool post = name.ends_with("post") || name.ends_with("_POST"), pre = name.ends_with("pre");
  const int data = post || pre ? 1 : 0;
  Access access{.base = mc.whole_register(inst.getOperand(static_cast<unsigned>(base))),
                .load = classes.load,
                .store = classes.store};
  classes.stack = access.base == kStackPointer;
  const bool pair = is_pair(name), plain = is_plain(name);
  access.bytes = pair || plain ? element_bytes(mc, inst, name, data) : structure_bytes(mc, inst, name, data);
  int64_t offset = 0;
  for (unsigned i = static_cast<unsigned>(base) + 1; i < inst.getNumOperands(); ++i) {
    const llvm::MCOperand& operand = inst.getOperand(i);
    if (operand.isReg() && !post) access.indexed = true;
    if (operand.isImm() && i == static_cast<unsigned>(base) + 1) offset = operand.getImm();
  }
  if (pair || name.ends_with("ui")) offset *= access.bytes;
  if (!pair && !plain) access.indexed |= offset != 0;  // in units of what is loaded, or of a vector
  if (pre || post) {
    std::erase_if(op.after, [&](const Transfer& t) { return t.to == access.base; });
    Transfer moved{.to = access.base, .from = access.base, .add = offset};
    if (post && !pair && !plain) {  // LD1 moves on by a register, or by what it accesses, which is written as xzr
      const llvm::MCOperand& by = inst.getOperand(inst.getNumOperands() - 1);
      const bool by_size = access.bytes > 0 && by.isReg() && mc.kind[by.getReg()] == RegisterKind::kGeneral &&
                           mc.tracked[by.getReg()] == kNoRegister;
      moved =
          by_size ? Transfer{.to = access.base, .from = access.base, .add = access.bytes} : Transfer{.to = access.base};
    }
    if (access.base != kNoRegister) (pre ? op.before : op.after).push_back(moved);
  } else {
    access.displacement = offset;
  }
  for (int r = data; r < data + (pair ? 2 : 1); ++r) {
    access.data = mc.whole_register(inst.getOperand(static_cast<unsigned>(r)));
    if (!pair && !plain) access.data = kNoRegister;
    if (mc.operand_kind(inst.getOperand(static_cast<unsigned>(r))) == RegisterKind::kGeneral && access.bytes < 8)
      access.data = kNoRegister;
    op.accesses.push_back(access);
    access.displacement += access.bytes;
  }
}

// Arithmetic that keeps what is known of an address.
void describe_transfer(const Mc& mc, const llvm::MCInst& inst, std::string_view name, Operation& op) {
  const auto reg = [&](unsigned i) { return mc.whole_register(inst.getOperand(i)); };
  Transfer transfer;
  if (name == "ADDXri" || name == "SUBXri") {
    const int64_t amount = inst.getOperand(2).getImm() << (inst.getOperand(3).getImm() & 63);
    transfer = {.to = reg(0), .from = reg(1), .add = name == "ADDXri" ? amount : -amount};
  } else if (name == "ORRXrs" && reg(1) == kNoRegister && inst.getOperand(3).getImm() == 0) {
    transfer = {.to = reg(0), .from = reg(2)};  // mov: the first source is xzr
  } else if (name == "ANDXri") {
    transfer = {.to = reg(0), .from = reg(1), .align = true};
  } else {
    return;
  }
  if (transfer.to == kNoRegister) return;
  std::erase_if(op.after, [&](const Transfer& t) { return t.to == transfer.to; });
  op.after.push_back(transfer);
}

}  // namespace

void name_aarch64_registers(Mc& mc) {
  for (const llvm::MCPhysReg reg : *mc.register_class("GPR64all")) {
    const std::string_view name = mc.registers->getName(reg);
    const bool zero = name == "XZR";
    const int number = name == "SP" ? kStackPointer : kX0 + mc.registers->getEncodingValue(reg);
    for (const llvm::MCPhysReg part : mc.registers->subregs_inclusive(reg)) {
      mc.kind[part] = RegisterKind::kGeneral;
      if (!zero) mc.tracked[part] = static_cast<Tracked>(number);
    }
    mc.whole[reg] = !zero;
  }
  mc.mark(*mc.register_class("FPR128"), RegisterKind::kVector);
  mc.mark(*mc.register_class("ZPR"), RegisterKind::kVector);
  mc.mark(*mc.register_class("PPR"), RegisterKind::kMask);
  for (const llvm::MCPhysReg reg : *mc.register_class("FPR64")) {
    const int number = kD8 + mc.registers->getEncodingValue(reg) - 8;
    if (number < kD8 || number > kD15) continue;
    for (const llvm::MCPhysReg part : mc.registers->subregs_inclusive(reg))
      mc.tracked[part] = static_cast<Tracked>(number);
    mc.whole[reg] = true;
  }
  // Tuples of vectors.
  for (unsigned reg = 1; reg < mc.registers->getNumRegs(); ++reg) {
    if (mc.kind[reg] != RegisterKind::kOther) continue;
    for (const llvm::MCPhysReg part : mc.registers->subregs(reg))
      if (mc.kind[part] == RegisterKind::kVector) mc.kind[reg] = RegisterKind::kVector;
  }
}

bool aarch64_callee_saved(Tracked reg) {
  return reg == kStackPointer || (reg >= kX19 && reg <= kX30) || (reg >= kD8 && reg <= kD15);
}

void describe_aarch64(const Mc& mc, const llvm::MCInst& inst, Operation& op) {
  const std::string_view name = mc.name(inst);
  if (only_hints(name)) return;
  if (name == "UDF" || name == "BRK") op.flow = Flow::kStop;
  Classes& classes = op.instruction.classes;
  bool general = false, mask = false;
  for (unsigned i = 0; i < inst.getNumOperands(); ++i) {
    const RegisterKind kind = mc.operand_kind(inst.getOperand(i));
    classes.of_vector |= kind == RegisterKind::kVector;
    general |= kind == RegisterKind::kGeneral;
    mask |= kind == RegisterKind::kMask;
  }
  classes.vector = classes.of_vector && on_several_lanes(mc, inst, name);
  classes.fma = classes.vector && is_fma(name);
  if (mc.desc(inst).isCall())
    for (Tracked r = kX0; r <= kX30; ++r)
      if (r < kX19 || r == kX30) op.after.push_back({.to = r});
  describe_memory(mc, inst, name, op);
  classes.address = general && !classes.of_vector && !mask && !classes.branch && !classes.load && !classes.store;
  describe_transfer(mc, inst, name, op);
}

}  // namespace hone::jit
