// W^X code memory: pages are written while they are not executable, then sealed, and never both.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "engine/base/status.h"

namespace hone::jit {

// All live code of a process together may take this much. Plans of a model hold some hundred kernels of 5 to 20 KB, and
// an exhaustive tune a few thousand candidates of up to 165 KB; beyond that, somebody keeps what he should let go.
inline constexpr size_t kMaxCodeBytes = size_t{1} << 30;

// A share of it, held by who holds code and given back with it.
class CodeShare {
 public:
  // Error: resource_exhausted with the numbers.
  static Result<CodeShare> take(size_t bytes);

  CodeShare(CodeShare&& other) noexcept;
  CodeShare& operator=(CodeShare&& other) noexcept;
  ~CodeShare();

 private:
  explicit CodeShare(size_t bytes) : bytes_(bytes) {}
  size_t bytes_ = 0;
};

// Bytes of live code, in whole pages.
size_t live_code_bytes();
// Instead of kMaxCodeBytes; 0: that again.
void limit_code_for_testing(size_t bytes);
// Up to the next page.
size_t whole_pages(size_t bytes);

// A sealed block of machine code; unmaps itself.
class ExecMemory {
 public:
  // Copies `code` to fresh pages and makes them executable. Error: resource_exhausted naming the call that was refused,
  // or the limit.
  static Result<ExecMemory> create(std::span<const std::byte> code);

  ExecMemory(ExecMemory&& other) noexcept;
  ExecMemory& operator=(ExecMemory&& other) noexcept;
  ~ExecMemory();

  std::span<const std::byte> code() const { return {base_, size_}; }

 private:
  ExecMemory(CodeShare share, std::byte* base, size_t size, size_t mapped)
      : share_(std::move(share)), base_(base), size_(size), mapped_(mapped) {}
  CodeShare share_;
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
