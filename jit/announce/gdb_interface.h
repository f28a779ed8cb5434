// The interface as GDB's manual defines it ("JIT Compilation Interface"). Names and layout are GDB's.
#pragma once

#include <cstdint>

extern "C" {

struct jit_code_entry {
  jit_code_entry* next_entry;
  jit_code_entry* prev_entry;
  const char* symfile_addr;
  uint64_t symfile_size;
};

struct jit_descriptor {
  uint32_t version;
  uint32_t action_flag;  // 0: none, 1: relevant_entry was added, 2: it will be taken away
  jit_code_entry* relevant_entry;
  jit_code_entry* first_entry;
};

// A debugger reads the one and has a breakpoint in the other. It looks for both names in every file of the process;
// ours are hidden, so that they are never confused with those that libLLVM, or another JIT of the process, exports.
void __jit_debug_register_code();
extern jit_descriptor __jit_debug_descriptor;

}  // extern "C"
