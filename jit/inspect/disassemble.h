// Machine code as text, by one disassembler whatever generator emitted it.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "engine/base/status.h"

namespace hone::jit {

// One instruction a line, Intel syntax, with its offset from the start of the code. Bytes that are no instruction
// (constants behind the code) become .byte lines. Error: unsupported in a build without LLVM.
Result<std::string> disassemble(std::span<const std::byte> code);

}  // namespace hone::jit
