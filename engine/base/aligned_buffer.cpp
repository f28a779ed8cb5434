#include "engine/base/aligned_buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "engine/base/math.h"
#include "engine/base/memory.h"

namespace hone {
namespace {

constexpr int64_t kCacheLine = 64;
constexpr int64_t kPage = 4096;
constexpr int64_t kHugePage = 2 << 20;
// User space has 47 bits on x86-64 with four-level page tables. More is a size computed wrongly, and refusing it here
// keeps every rounding below from overflowing.
constexpr int64_t kMaxBytes = int64_t{1} << 47;

// mmap promises more than there is, and touching it all would get the process killed. Looking takes 0.1 ms, so only who
// wants much does: below this the rest of the machine varies by more.
constexpr int64_t kLooksFirst = 64 << 20;

double gib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

Status out_of_memory(int64_t bytes) {
  return resource_exhausted(fmt::format("cannot allocate {} bytes ({:.1f} GiB)", bytes, gib(bytes)));
}

// Memory of `bytes` (whole huge pages) that begins on a huge page: map one more, give back both ends.
std::byte* map_huge(int64_t bytes) {
  size_t reserve = static_cast<size_t>(bytes + kHugePage);
  void* mapped = mmap(nullptr, reserve, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* base = static_cast<std::byte*>(mapped);
  auto address = reinterpret_cast<uintptr_t>(base);
  size_t head = (static_cast<size_t>(kHugePage) - address % kHugePage) % kHugePage;
  if (head != 0) munmap(base, head);
  munmap(base + head + bytes, static_cast<size_t>(kHugePage) - head);
  // Advice only: without transparent huge pages the memory is as right, and slower.
  (void)madvise(base + head, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  return base + head;
}

void touch_pages(std::byte* data, int64_t bytes) {
#ifdef MADV_POPULATE_WRITE
  // One system call (Linux 5.14) instead of a fault per page; refused by older kernels and some sandboxes.
  if (bytes >= kHugePage && madvise(data, static_cast<size_t>(bytes), MADV_POPULATE_WRITE) == 0) return;
#endif
  for (int64_t i = 0; i < bytes; i += kPage) *const_cast<volatile std::byte*>(data + i) = std::byte{0};
}

}  // namespace

Result<AlignedBuffer> AlignedBuffer::allocate(int64_t bytes, Touch touch) {
  if (bytes < 0) return invalid_argument(fmt::format("buffer size must be at least 0, got {}", bytes));
  AlignedBuffer buffer;
  if (bytes == 0) return buffer;
  if (bytes > kMaxBytes) return out_of_memory(bytes);
  if (touch == Touch::kNow && bytes >= kLooksFirst) {
    const int64_t available = available_memory("");
    if (bytes > available)
      return resource_exhausted(fmt::format("cannot allocate {} bytes ({:.1f} GiB): {:.1f} GiB of memory are available",
                                            bytes, gib(bytes), gib(available)));
  }
  if (bytes >= kHugePage) {
    buffer.mapped_ = round_up(bytes, kHugePage);
    buffer.data_ = map_huge(buffer.mapped_);
  } else {
    int64_t alignment = bytes >= kPage ? kPage : kCacheLine;
    buffer.data_ = static_cast<std::byte*>(
        std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(round_up(bytes, alignment))));
  }
  if (buffer.data_ == nullptr) {
    buffer.mapped_ = 0;
    return out_of_memory(bytes);
  }
  buffer.size_ = bytes;
  if (touch == Touch::kNow) touch_pages(buffer.data_, bytes);
  return buffer;
}

Result<AlignedBuffer> AlignedBuffer::allocate_elements(int64_t count, int64_t element_bytes, Touch touch) {
  if (count < 0 || element_bytes < 0) {
    return invalid_argument(
        fmt::format("buffer size must be at least 0, got {} elements of {} bytes", count, element_bytes));
  }
  int64_t bytes = 0;
  if (__builtin_mul_overflow(count, element_bytes, &bytes)) {
    return resource_exhausted(fmt::format("cannot allocate {} elements of {} bytes: too large", count, element_bytes));
  }
  return allocate(bytes, touch);
}

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapped_(std::exchange(other.mapped_, 0)) {}

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

AlignedBuffer::~AlignedBuffer() {
  if (mapped_ > 0) {
    munmap(data_, static_cast<size_t>(mapped_));
  } else {
    std::free(data_);
  }
}

}  // namespace hone
