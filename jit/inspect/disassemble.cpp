// See disassemble.h. Uses LLVM's C interface: its headers cost next to nothing to compile.
#include "jit/inspect/disassemble.h"

#include <fmt/format.h>

#ifdef HONE_WITH_LLVM
#include <llvm-c/Disassembler.h>
#include <llvm-c/Target.h>

#include <memory>
#include <vector>

namespace hone::jit {

Result<std::string> disassemble(std::span<const std::byte> code) {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86Disassembler();
  const std::unique_ptr<void, void (*)(void*)> context(
      LLVMCreateDisasmCPUFeatures("x86_64-unknown-linux-gnu", "x86-64-v4", "", nullptr, 0, nullptr, nullptr),
      LLVMDisasmDispose);
  if (!context) return internal_error("LLVM has no x86-64 disassembler");
  LLVMSetDisasmOptions(context.get(), LLVMDisassembler_Option_AsmPrinterVariant | LLVMDisassembler_Option_PrintImmHex);
  // The interface wants mutable bytes.
  std::vector<uint8_t> bytes(code.size());
  for (size_t i = 0; i < code.size(); ++i) bytes[i] = std::to_integer<uint8_t>(code[i]);
  std::string text;
  char line[256];
  for (size_t at = 0; at < bytes.size();) {
    const size_t length =
        LLVMDisasmInstruction(context.get(), bytes.data() + at, bytes.size() - at, at, line, sizeof line);
    if (length == 0) {
      text += fmt::format("{:6x}: .byte {:#04x}\n", at, bytes[at]);
      ++at;
      continue;
    }
    text += fmt::format("{:6x}:{}\n", at, line);
    at += length;
  }
  return text;
}

}  // namespace hone::jit
#else
namespace hone::jit {

Result<std::string> disassemble(std::span<const std::byte>) {
  return unsupported("this build has no disassembler: configure with HONE_WITH_LLVM=ON");
}

}  // namespace hone::jit
#endif
