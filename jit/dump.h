// HONE_JIT_DUMP=dir: every compiled kernel leaves its LoopIR and its code there, for people and for disassemblers.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "kernels/ir/ir.h"

namespace hone::jit {

// The environment is read on every call, so that a test or a debugger may switch dumping on late.
bool dump_enabled();

// Writes NAME.ir, NAME.GENERATOR.s (the listing) and NAME.GENERATOR.bin (the bytes) to the dump directory, which is
// made when it is missing. Characters that do not belong in a file name become '_'. A failure is one line on stderr,
// never more: a full disk must not stop a kernel from running.
void dump_kernel(const ir::Kernel& kernel, std::string_view generator, std::string_view listing,
                 std::span<const std::byte> code);
// Writes NAME.SUFFIX by the same rules, for what only one generator has.
void dump_text(const ir::Kernel& kernel, std::string_view suffix, std::string_view text);

}  // namespace hone::jit
