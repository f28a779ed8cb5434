// See disassemble.h.
#include "jit/inspect/disassemble.h"

#include <fmt/format.h>

#include "jit/inspect/facts.h"

namespace hone::jit {

Result<std::string> disassemble(std::span<const std::byte> code, Isa isa) {
  HONE_ASSIGN_OR_RETURN(const CodeFacts facts, inspect(code, isa));
  std::string text;
  for (const Instruction& i : facts.instructions) text += fmt::format("{:6x}: {}\n", i.offset, i.text);
  return text;
}

}  // namespace hone::jit
