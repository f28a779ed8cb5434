// See exec_memory.h. One mapping per kernel: it can be unmapped on its own, so memory is flat however kernels come and
// go, and sealing one never makes another writable. A page of slack per kernel is nothing next to what a plan holds.
#include "jit/exec_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace hone::jit {

namespace {

std::atomic<bool> refuse_for_testing{false};

Status refused(const char* call, size_t bytes, int error) {
  return resource_exhausted(std::string("executable memory refused: ") + call + " of " + std::to_string(bytes) +
                            " bytes failed with errno " + std::to_string(error) + " (" + std::strerror(error) +
                            "); allow this process to make memory executable (SELinux execmem, seccomp, PaX MPROTECT, "
                            "vm.max_map_count) or run with the precompiled fallback");
}

}  // namespace

Result<ExecMemory> ExecMemory::create(std::span<const std::byte> code) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t mapped = (std::max<size_t>(code.size(), 1) + page - 1) / page * page;
  void* base = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return refused("mmap(PROT_READ|PROT_WRITE)", mapped, errno);
  ExecMemory memory(static_cast<std::byte*>(base), code.size(), mapped);
  if (!code.empty()) std::memcpy(base, code.data(), code.size());
  const bool pretend = refuse_for_testing.load(std::memory_order_relaxed);
  if (pretend || mprotect(base, mapped, PROT_READ | PROT_EXEC) != 0)
    return refused("mprotect(PROT_READ|PROT_EXEC)", mapped, pretend ? EACCES : errno);
  return memory;
}

ExecMemory::ExecMemory(ExecMemory&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapped_(std::exchange(other.mapped_, 0)) {}

ExecMemory& ExecMemory::operator=(ExecMemory&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(size_, other.size_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

ExecMemory::~ExecMemory() {
  // munmap of a range we mapped ourselves fails only for lack of kernel memory to split mappings; nothing could be
  // done.
  if (base_ != nullptr) munmap(base_, mapped_);
}

Status exec_memory_available() {
  static constexpr std::byte kRet{0xc3};
  // The pretended refusal must not become the remembered answer.
  if (refuse_for_testing.load(std::memory_order_relaxed)) return ExecMemory::create({&kRet, 1}).status();
  static const Status once = ExecMemory::create({&kRet, 1}).status();
  return once;
}

void refuse_exec_memory_for_testing(bool refuse) { refuse_for_testing.store(refuse, std::memory_order_relaxed); }

}  // namespace hone::jit
