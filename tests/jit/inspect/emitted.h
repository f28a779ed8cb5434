// What a code generator emits for a kernel, read back from the machine code. Works for every ISA, also for one that
// this CPU lacks, and for every generator alike.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/isa.h"
#include "engine/base/status.h"
#include "jit/codegen.h"
#include "jit/inspect/facts.h"
#include "kernels/ir/ir.h"

namespace hone::jit {

// A loop without loops in it.
struct InnerLoop {
  Counts counts;
  std::vector<Instruction> instructions;

  int mnemonic(std::string_view name) const;  // instructions of that name
  int with(std::string_view part) const;      // instructions that have this in their text
  int vector_moves() const;                   // from vector register to vector register, loops should have none
  std::string text() const;                   // one instruction a line
};

struct Emitted {
  std::vector<std::byte> code;
  CodeFacts facts;

  std::vector<InnerLoop> inner_loops() const;  // in the order of the code
  InnerLoop hot_loop() const;                  // no instructions when there is no loop
  bool has(std::string_view text) const;       // in some instruction
};

Result<Emitted> emit(CodeGenerator& generator, const ir::Kernel& kernel, Isa isa);

}  // namespace hone::jit
