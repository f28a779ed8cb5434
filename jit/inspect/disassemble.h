// Machine code as text, by one disassembler whatever generator emitted it.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "engine/base/isa.h"
#include "engine/base/status.h"

namespace hone::jit {

// One instruction a line, Intel syntax, with its offset from the start of the code; branches name the offset that they
// go to. Bytes that are no instruction (constants behind the code) become .byte lines. Error: unsupported, as
// inspect().
Result<std::string> disassemble(std::span<const std::byte> code, Isa isa);

}  // namespace hone::jit
