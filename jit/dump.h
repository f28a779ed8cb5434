// HONE_JIT_DUMP=dir: every compiled kernel leaves its LoopIR and its code there, for people and for disassemblers.
#pragma once

#include <initializer_list>
#include <string_view>

#include "kernels/ir/ir.h"

namespace hone::jit {

// The environment is read on every call, so that a test or a debugger may switch dumping on late.
bool dump_enabled();

// One file of a dump: what is behind the dot of its name, and its content.
struct DumpFile {
  std::string_view suffix, content;
};

// Writes SYMBOL.ir, and SYMBOL.SUFFIX of each file, to the dump directory, which is made when it is missing. SYMBOL is
// kernel_symbol(); where it has been taken by another program of the same name (packing and unrolling are not in
// names), a digest of the LoopIR follows it, so that nothing of a dump is overwritten by something else. A failure is
// one line on stderr, never more: a full disk must not stop a kernel from running.
void dump_kernel(const ir::Kernel& kernel, std::string_view generator, std::initializer_list<DumpFile> files);

}  // namespace hone::jit
