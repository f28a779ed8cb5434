// W^X code memory: pages are written while they are not executable, then sealed, and never both.
#pragma once

#include <cstddef>
#include <span>

#include "engine/base/status.h"

namespace hone::jit {

// A sealed block of machine code; unmaps itself.
class ExecMemory {
 public:
  // Copies `code` to fresh pages and makes them executable. Error: resource_exhausted naming the call that was refused.
  static Result<ExecMemory> create(std::span<const std::byte> code);

  ExecMemory(ExecMemory&& other) noexcept;
  ExecMemory& operator=(ExecMemory&& other) noexcept;
  ~ExecMemory();

  std::span<const std::byte> code() const { return {base_, size_}; }

 private:
  ExecMemory(std::byte* base, size_t size, size_t mapped) : base_(base), size_(size), mapped_(mapped) {}
  std::byte* base_ = nullptr;
  size_t size_ = 0;
  size_t mapped_ = 0;
};

// Can this process make memory executable? Tried once for real. Hardened kernels (SELinux execmem, seccomp) say no.
Status exec_memory_available();

// Makes every later request fail as a hardened kernel would, for tests (and HONE_CPU descriptions with "exec_memory":
// false).
void refuse_exec_memory_for_testing(bool refuse);

}  // namespace hone::jit
