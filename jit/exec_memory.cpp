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
std::atomic<size_t> limit_for_testing{0};
std::atomic<size_t> live_bytes{0};

Status refused(const char* call, size_t bytes, int error) {
  return resource_exhausted(std::string("executable memory refused: ") + call + " of " + std::to_string(bytes) +
                            " bytes failed with errno " + std::to_string(error) + " (" + std::strerror(error) +
                            "); allow this process to make memory executable (SELinux execmem, seccomp, PaX MPROTECT, "
                            "vm.max_map_count) or run with the precompiled fallback");
}

}  // namespace

Result<CodeShare> CodeShare::take(size_t bytes) {
  const size_t testing = limit_for_testing.load(std::memory_order_relaxed);
  const size_t limit = testing != 0 ? testing : kMaxCodeBytes;
  size_t live = live_bytes.load(std::memory_order_relaxed);
  do {
    if (bytes > limit || live > limit - bytes)
      return resource_exhausted("the code of live kernels takes " + std::to_string(live) + " bytes and may take " +
                                std::to_string(limit) + ", this kernel needs " + std::to_string(bytes) +
                                " more: let go of kernels that are not needed");
  } while (!live_bytes.compare_exchange_weak(live, live + bytes, std::memory_order_relaxed));
  return CodeShare(bytes);
}

CodeShare::CodeShare(CodeShare&& other) noexcept : bytes_(std::exchange(other.bytes_, 0)) {}

CodeShare& CodeShare::operator=(CodeShare&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

CodeShare::~CodeShare() { live_bytes.fetch_sub(bytes_, std::memory_order_relaxed); }

size_t live_code_bytes() { return live_bytes.load(std::memory_order_relaxed); }

void limit_code_for_testing(size_t bytes) { limit_for_testing.store(bytes, std::memory_order_relaxed); }

size_t whole_pages(size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (std::max<size_t>(bytes, 1) + page - 1) / page * page;
}

Result<ExecMemory> ExecMemory::create(std::span<const std::byte> code) {
  const size_t mapped = whole_pages(code.size());
  HONE_ASSIGN_OR_RETURN(CodeShare share, CodeShare::take(mapped));
  void* base = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return refused("mmap(PROT_READ|PROT_WRITE)", mapped, errno);
  ExecMemory memory(std::move(share), static_cast<std::byte*>(base), code.size(), mapped);
  if (!code.empty()) std::memcpy(base, code.data(), code.size());
  const bool pretend = refuse_for_testing.load(std::memory_order_relaxed);
  if (pretend || mprotect(base, mapped, PROT_READ | PROT_EXEC) != 0)
    return refused("mprotect(PROT_READ|PROT_EXEC)", mapped, pretend ? EACCES : errno);
  return memory;
}

ExecMemory::ExecMemory(ExecMemory&& other) noexcept
    : share_(std::move(other.share_)),
      base_(std::exchange(other.base_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapped_(std::exchange(other.mapped_, 0)) {}

ExecMemory& ExecMemory::operator=(ExecMemory&& other) noexcept {
  std::swap(share_, other.share_);
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
