// GDB's JIT interface: a list of object files in memory that a debugger reads from outside, and a function at which it
// stops us when the list has changed.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "jit/announce/gdb_interface.h"

namespace hone::jit {

// On the list as long as it lives. Thread safe.
class GdbRegistration {
 public:
  GdbRegistration(const std::string& symbol, std::span<const std::byte> code);
  GdbRegistration(const GdbRegistration&) = delete;
  GdbRegistration& operator=(const GdbRegistration&) = delete;
  ~GdbRegistration();

 private:
  std::string elf_;
  jit_code_entry entry_ = {};
};

// A relocatable ELF file without code: one function symbol, and where its section lies.
std::string symbol_elf(const std::string& symbol, std::span<const std::byte> code);

}  // namespace hone::jit
