// What the analyses need to know of an instruction, the same for every architecture: decode.cpp fills it from LLVM's
// descriptions through one file per architecture; flow.cpp and frame.cpp read it and include nothing of LLVM.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/base/isa.h"
#include "engine/base/status.h"
#include "jit/inspect/facts.h"

namespace hone::jit {

// Registers whose values are followed: general-purpose ones in full width, and vector registers that a callee must
// preserve. Numbers are dense, below kTrackedRegisters, and mean what the architecture's file says.
using Tracked = int8_t;
inline constexpr Tracked kNoRegister = -1;
inline constexpr Tracked kStackPointer = 0;
inline constexpr int kTrackedRegisters = 48;  // x86-64 has 32 with APX; AArch64 x0-x30, sp and d8-d15

// One memory access at base + displacement.
struct Access {
  Tracked base = kNoRegister;  // none: an absolute address, or one that no tracked register holds
  bool indexed = false;        // plus something that is no constant
  int64_t displacement = 0;
  int bytes = 0;  // 0: not known
  bool load = false, store = false;
  bool partial = false;        // stores may leave bytes as they were (a mask decides)
  Tracked data = kNoRegister;  // the register that all of it is loaded to or stored from
};

// What becomes of a tracked register: `from + add`; a value of which nothing is known (from = kNoRegister); or that
// value rounded down to an alignment.
struct Transfer {
  Tracked to = kNoRegister;
  Tracked from = kNoRegister;
  int64_t add = 0;
  bool align = false;
};

enum class Flow : uint8_t {
  kNext,      // goes on to the next instruction (calls too)
  kBranch,    // to the target or to the next one
  kJump,      // to the target
  kIndirect,  // to where a register or memory says
  kStop,      // returns, traps, or is no instruction
};

struct Operation {
  Instruction instruction;  // without loop, spill and reload
  Flow flow = Flow::kNext;
  std::vector<Transfer> before;  // of the access: a push moves the stack pointer first
  std::vector<Access> accesses;
  std::vector<Transfer> after;
};

// Error: unsupported when LLVM lacks the architecture.
Result<std::vector<Operation>> decode(std::span<const std::byte> code, Arch arch);

// As in facts.h, for an architecture that need not have an Isa. `features`: LLVM's names of what the CPU must have.
Result<CodeFacts> inspect(std::span<const std::byte> code, Arch arch);
Result<StaticThroughput> static_throughput(std::span<const std::byte> code, Arch arch,
                                           const std::vector<std::string>& features, const std::string& cpu);

// Must a function leave it as it found it? (System V, AAPCS64.)
bool callee_saved(Arch arch, Tracked reg);

}  // namespace hone::jit
