// x86-64: what the operands of an instruction say of memory, vectors and the frame.
//
// MCInstrDesc tells which operands are registers and which address memory, and whether memory may be read or written.
// Three things it does not tell: whether an operation on an xmm register is on one lane (the operand is a whole
// register either way), how many bytes of memory are accessed, and which instructions only hint (prefetches, nops). The
// first and the last come from LLVM's name of the opcode, which stands for the enumerator that no installed header has;
// the second from the size that LLVM's printer knows of the opcode's memory operand.
#include <algorithm>
#include <array>

#include "jit/inspect/mc_internal.h"

namespace hone::jit {

namespace {

bool starts_with(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

template <size_t kCount>
bool starts_with_any(std::string_view text, const std::array<std::string_view, kCount>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](std::string_view p) { return starts_with(text, p); });
}

std::string_view without_v(std::string_view name) { return starts_with(name, "V") ? name.substr(1) : name; }

// Operations that exist for one lane (SS, SD, SH) as well as for all (PS, PD, PH).
constexpr std::array<std::string_view, 38> kWithScalarForm = {
    "ADD",     "SUB",     "MUL",     "DIV",      "MIN",    "MAX",    "SQRT",   "RSQRT",   "RCP",    "ROUND",
    "CMP",     "COMI",    "UCOMI",   "MOV",      "MOVNT",  "FMADD",  "FMSUB",  "FNMADD",  "FNMSUB", "RCP14",
    "RCP28",   "RSQRT14", "RSQRT28", "RNDSCALE", "REDUCE", "RANGE",  "GETEXP", "GETMANT", "SCALEF", "FIXUPIMM",
    "FPCLASS", "FRCZ",    "FMADDC",  "FCMADDC",  "FMULC",  "FCMULC", "4FMADD", "4FNMADD"};

// One lane to or from a general-purpose register or memory, and conversions of one lane.
constexpr std::array<std::string_view, 20> kOneLane = {
    "PINSR",      "INSERTPS",  "MOVDI2PDI", "MOVDI2SS",      "MOVPDI2DI", "MOVSS2DI", "MOV64toPQI",
    "MOVPQIto64", "MOVQI2PQI", "MOVPQI2QI", "MOVZPQILo2PQI", "MOVW2SH",   "MOVSH2W",  "MOVW64toSH",
    "MOVSHtoW",   "PEXTR",     "EXTRACTPS", "CVTS",          "CVTTS",     "CVTUSI"};

bool on_one_lane(std::string_view name) {
  name = without_v(name);
  if (starts_with_any(name, kOneLane)) return true;
  for (std::string_view stem : kWithScalarForm) {
    if (!starts_with(name, stem)) continue;
    std::string_view rest = name.substr(stem.size());
    for (std::string_view order : {"132", "213", "231"})
      if (starts_with(rest, order)) rest.remove_prefix(order.size());
    if (rest.size() < 2 || rest[0] != 'S' || (rest[1] != 'S' && rest[1] != 'D' && rest[1] != 'H')) continue;
    // MOVSHDUP goes on with a letter of its own; forms with 'r', 'm', 'Z', '4' or a digit of the operands.
    if (rest.size() == 2 || rest[2] < 'A' || rest[2] > 'Y') return true;
  }
  return false;
}

bool is_fma(std::string_view name) {
  constexpr std::array<std::string_view, 7> kFma = {"VFMADD",  "VFMSUB", "VFNMADD",  "VFNMSUB",
                                                    "VFCMADD", "V4F",    "VDPBF16PS"};
  return starts_with_any(name, kFma);
}

bool only_hints(std::string_view name) {
  constexpr std::array<std::string_view, 7> kHints = {"NOOP",       "PREFETCH", "VPREFETCH", "VGATHERPF",
                                                      "VSCATTERPF", "CLDEMOTE", "ENDBR"};
  return starts_with_any(name, kHints);
}

// MOVS, STOS, LODS, CMPS, SCAS and their sizes: MCInstrDesc does not say that they touch memory.
bool is_string(std::string_view name, std::string_view which) {
  return name.size() == 5 && starts_with(name, which) &&
         std::string_view("BWLQ").find(name[4]) != std::string_view::npos;
}

// The size keyword of Intel's syntax, in bytes; 0 without one.
int memory_bytes(std::string_view text) {
  const size_t end = text.find(" ptr ");
  if (end == std::string_view::npos) return 0;
  const size_t from = text.find_last_of(" ,\t", end - 1) + 1;
  const std::string_view keyword = text.substr(from, end - from);
  constexpr std::array<std::pair<std::string_view, int>, 9> kSizes = {{{"byte", 1},
                                                                       {"word", 2},
                                                                       {"dword", 4},
                                                                       {"fword", 6},
                                                                       {"qword", 8},
                                                                       {"tbyte", 10},
                                                                       {"xmmword", 16},
                                                                       {"ymmword", 32},
                                                                       {"zmmword", 64}}};
  for (const auto& [name, bytes] : kSizes)
    if (keyword == name) return bytes;
  return 0;
}

bool is_lea(std::string_view name) { return starts_with(name, "LEA") && !starts_with(name, "LEAVE"); }

// The first of the five operands (base, scale, index, displacement, segment) of a memory operand, or -1.
int memory_operand(const Mc& mc, const llvm::MCInst& inst) {
  if (is_lea(mc.name(inst))) return 1;
  const auto operands = mc.desc(inst).operands();
  int run = 0;
  for (int i = 0; i < static_cast<int>(operands.size()); ++i) {
    run = operands[i].OperandType == llvm::MCOI::OPERAND_MEMORY ? run + 1 : 0;
    if (run == 5) return i - 4;
  }
  return -1;
}

Access address_at(const Mc& mc, const llvm::MCInst& inst, int at) {
  Access access;
  const llvm::MCOperand &base = inst.getOperand(at), &index = inst.getOperand(at + 2),
                        &displacement = inst.getOperand(at + 3), &segment = inst.getOperand(at + 4);
  access.base = segment.getReg() == 0 ? mc.whole_register(base) : kNoRegister;
  access.indexed = index.getReg() != 0;
  if (displacement.isImm()) access.displacement = displacement.getImm();
  return access;
}

// One pass over the operands outside of the address.
struct Operands {
  int general = 0, vector = 0, mask = 0, immediate = 0;
  bool write_mask = false;
  Tracked only_general = kNoRegister;  // if there is one, and it is whole
};

Operands operands_of(const Mc& mc, const llvm::MCInst& inst, int memory) {
  Operands found;
  const auto described = mc.desc(inst).operands();
  for (int i = 0; i < static_cast<int>(inst.getNumOperands()); ++i) {
    if (memory >= 0 && i >= memory && i < memory + 5) {
      // The index of a gather is a vector.
      if (mc.operand_kind(inst.getOperand(i)) == RegisterKind::kVector) ++found.vector;
      continue;
    }
    const llvm::MCOperand& operand = inst.getOperand(i);
    if (operand.isImm()) ++found.immediate;
    switch (mc.operand_kind(operand)) {
      case RegisterKind::kGeneral:
        ++found.general;
        found.only_general = found.general == 1 ? mc.whole_register(operand) : kNoRegister;
        break;
      case RegisterKind::kVector:
        ++found.vector;
        break;
      case RegisterKind::kMask:
        ++found.mask;
        break;
      case RegisterKind::kOther:
        break;
    }
    if (i < static_cast<int>(described.size()) && described[i].RegClass >= 0 && !described[i].isLookupPtrRegClass()) {
      const auto& of = mc.registers->getRegClass(static_cast<unsigned>(described[i].RegClass));
      if (std::string_view(mc.registers->getRegClassName(&of)).ends_with("WM")) found.write_mask = true;
    }
  }
  return found;
}

// The stack pointer moves, and what it points to is the operand: push, pop, call, ret, leave.
bool describe_stack_operation(const Mc& mc, const llvm::MCInst& inst, std::string_view name, Operation& op) {
  const llvm::MCInstrDesc& desc = mc.desc(inst);
  Classes& classes = op.instruction.classes;
  Access access{.base = kStackPointer, .bytes = 8};
  const bool push = starts_with(name, "PUSH"), pop = starts_with(name, "POP") && !starts_with(name, "POPCNT");
  const bool leave = starts_with(name, "LEAVE");
  if (!push && !pop && !leave && !desc.isCall() && !desc.isReturn()) return false;
  classes.stack = true;
  std::erase_if(op.after, [](const Transfer& t) { return t.to == kStackPointer; });
  const bool with_register = inst.getNumOperands() == 1 && inst.getOperand(0).isReg();
  if (push) {
    access.store = true;
    if (with_register) access.data = mc.whole_register(inst.getOperand(0));
    op.before.push_back({.to = kStackPointer, .from = kStackPointer, .add = -8});
    classes.load = memory_operand(mc, inst) >= 0;
  } else if (pop || leave) {
    access.load = true;
    constexpr Tracked kFramePointer = 5;
    if (leave) op.before.push_back({.to = kStackPointer, .from = kFramePointer});
    access.data = leave ? kFramePointer : with_register ? mc.whole_register(inst.getOperand(0)) : kNoRegister;
    op.after.push_back({.to = kStackPointer, .from = kStackPointer, .add = 8});
    classes.store = memory_operand(mc, inst) >= 0;
  } else if (desc.isCall()) {
    access.store = true;
    access.displacement = -8;
    for (Tracked r = 1; r < kTrackedRegisters; ++r)
      if (!x86_callee_saved(r)) op.after.push_back({.to = r});
  } else {
    access.load = true;
  }
  classes.load |= access.load;
  classes.store |= access.store;
  op.accesses.push_back(access);
  return true;
}

// Arithmetic that keeps what is known of an address.
void describe_transfer(const Mc& mc, const llvm::MCInst& inst, std::string_view name, Operation& op) {
  const auto reg = [&](unsigned i) { return mc.whole_register(inst.getOperand(i)); };
  Transfer transfer;
  if (starts_with(name, "MOV64rr")) {
    transfer = {.to = reg(0), .from = reg(1)};
  } else if (name == "LEA64r") {
    const Access address = address_at(mc, inst, 1);
    if (address.indexed) return;
    transfer = {.to = reg(0), .from = address.base, .add = address.displacement};
  } else if (starts_with(name, "ADD64ri") && inst.getNumOperands() == 3) {
    transfer = {.to = reg(0), .from = reg(1), .add = inst.getOperand(2).getImm()};
  } else if (starts_with(name, "SUB64ri") && inst.getNumOperands() == 3) {
    transfer = {.to = reg(0), .from = reg(1), .add = -inst.getOperand(2).getImm()};
  } else if (name == "INC64r" || name == "DEC64r") {
    transfer = {.to = reg(0), .from = reg(1), .add = name == "INC64r" ? 1 : -1};
  } else if (starts_with(name, "AND64ri") && inst.getNumOperands() == 3 && inst.getOperand(2).getImm() < 0) {
    transfer = {.to = reg(0), .from = reg(1), .align = true};
  } else {
    return;
  }
  if (transfer.to == kNoRegister) return;
  std::erase_if(op.after, [&](const Transfer& t) { return t.to == transfer.to; });
  op.after.push_back(transfer);
}

// Which of load and store MCInstrDesc may be believed.
void set_memory_classes(const Mc& mc, const llvm::MCInst& inst, std::string_view name, int memory, Classes& classes) {
  const llvm::MCInstrDesc& desc = mc.desc(inst);
  if (is_string(name, "MOVS")) classes.load = classes.store = true;
  if (is_string(name, "STOS")) classes.store = true;
  if (is_string(name, "LODS") || is_string(name, "CMPS") || is_string(name, "SCAS")) classes.load = true;
  if (memory < 0) return;  // fences claim both, and have no address
  classes.load = desc.mayLoad() && name.find("MASKMOV") == std::string_view::npos;
  classes.store = desc.mayStore() && name != "LDMXCSR" && name != "VLDMXCSR";
  if (name.find("MASKMOV") != std::string_view::npos) classes.load = !(classes.store = memory == 0);
}

// Of what touches neither vectors nor masks nor control flow: not plain moves to and from memory.
bool is_address_arithmetic(const Mc& mc, const llvm::MCInst& inst, const Operands& operands, const Classes& classes) {
  if (operands.vector > 0 || operands.mask > 0) return false;
  if (mc.writes_register(inst, mc.flags) || (classes.load && classes.store)) return true;
  if (classes.load) return operands.general + operands.immediate > 1;
  if (classes.store) return false;
  const auto written = mc.desc(inst).implicit_defs();
  return operands.general > 0 || std::any_of(written.begin(), written.end(),
                                             [&](llvm::MCPhysReg r) { return mc.kind[r] == RegisterKind::kGeneral; });
}

}  // namespace

void name_x86_registers(Mc& mc) {
  // By encoding: rax rcx rdx rbx rsp rbp rsi rdi r8.., with rsp and rax exchanged so that rsp is kStackPointer.
  for (const llvm::MCPhysReg reg : *mc.register_class("GR64")) {
    if (std::string_view(mc.registers->getName(reg)) == "RIP") continue;
    const int encoding = mc.registers->getEncodingValue(reg);
    const int number = encoding == 4 ? 0 : encoding == 0 ? 4 : encoding;
    for (const llvm::MCPhysReg part : mc.registers->subregs_inclusive(reg)) {
      mc.kind[part] = RegisterKind::kGeneral;
      mc.tracked[part] = static_cast<Tracked>(number);
    }
    mc.whole[reg] = true;
  }
  mc.flags = mc.register_class("CCR")->getRegister(0);
  mc.mark(*mc.register_class("VR512"), RegisterKind::kVector);
  mc.mark(*mc.register_class("VK64"), RegisterKind::kMask);
}

bool x86_callee_saved(Tracked reg) {
  return reg == kStackPointer || reg == 3 || reg == 5 || (reg >= 12 && reg <= 15);  // rsp, rbx, rbp, r12-r15
}

void describe_x86(const Mc& mc, const llvm::MCInst& inst, Operation& op) {
  const std::string_view name = mc.name(inst);
  if (only_hints(name)) return;
  const int memory = memory_operand(mc, inst);
  const Operands operands = operands_of(mc, inst, memory);
  Classes& classes = op.instruction.classes;
  classes.of_vector = operands.vector > 0;
  classes.vector = operands.vector > 0 && !on_one_lane(name);
  classes.fma = classes.vector && is_fma(name);
  if (describe_stack_operation(mc, inst, name, op)) return;
  set_memory_classes(mc, inst, name, memory, classes);
  const bool implicit_memory = memory < 0 && (classes.load || classes.store);  // strings move their pointers, no more
  if (!classes.branch && !implicit_memory) classes.address = is_address_arithmetic(mc, inst, operands, classes);
  describe_transfer(mc, inst, name, op);
  if (memory < 0 || !(classes.load || classes.store)) return;
  Access access = address_at(mc, inst, memory);
  access.bytes = memory_bytes(op.instruction.text);
  access.load = classes.load;
  access.store = classes.store;
  access.partial = operands.write_mask || name.find("MASKMOV") != std::string_view::npos;
  if (starts_with(name, "MOV64")) access.data = operands.only_general;
  classes.stack = access.base == kStackPointer;
  op.accesses.push_back(access);
}

}  // namespace hone::jit
