// Owned memory for tensors, packed weights and arenas.
//
// Below 2 MiB: a 64-byte aligned heap block (one cache line, one AVX-512 vector), page aligned from 4 KiB up. From 2
// MiB up: whole 2 MiB pages from mmap, advised to be huge, as a weight matrix walked in 4 KiB pages misses the TLB on
// every row. The first touch of fresh memory costs far more than a pass over it (0.3-1 GB/s on small VMs: each page is
// zeroed by the kernel, often after an exit to the hypervisor), so whatever is timed allocates once, with Touch::kNow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/status.h"

namespace hone {

enum class Touch : uint8_t {
  kLater,  // pages arrive as they are used
  kNow,    // every page is present when allocate returns
};

class AlignedBuffer {
 public:
  // No memory: data() is null, size() is 0.
  AlignedBuffer() = default;
  AlignedBuffer(AlignedBuffer&& other) noexcept;
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;
  ~AlignedBuffer();

  // `bytes` of memory; its content is unspecified. 0 gives the empty buffer. Errors: invalid_argument (negative),
  // resource_exhausted naming the size.
  static Result<AlignedBuffer> allocate(int64_t bytes, Touch touch = Touch::kLater);
  // The same for count elements of element_bytes each; a product beyond 63 bits is refused like any other absurd size.
  static Result<AlignedBuffer> allocate_elements(int64_t count, int64_t element_bytes, Touch touch = Touch::kLater);

  std::byte* data() const { return data_; }
  int64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // The whole buffer as elements of T; a rest shorter than one T is left out.
  template <typename T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data_), static_cast<size_t>(size_) / sizeof(T)};
  }

 private:
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
  int64_t mapped_ = 0;  // bytes to unmap; 0: heap
};

}  // namespace hone
