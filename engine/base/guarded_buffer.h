// Memory that catches a kernel which touches what is not its own: the correctness gate of the tuner and the tests run
// on it.
//
//   Guard::kAfter    | PROT_NONE | slack ... | data | PROT_NONE |     an access past the last byte faults
//   Guard::kBefore   | PROT_NONE | data | slack ... | PROT_NONE |     an access before the first byte faults
//
// Data and slack are filled with 0xff bytes: a NaN in every float format at every offset, and -1 in every integer. So a
// stale read shows in the result, and slack_intact() finds stores on the side that has no guard. With kAfter the data
// is aligned only as far as its size is: that is wanted, kernels must not rely on more than their contract says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/status.h"

namespace hone {

enum class Guard : uint8_t { kAfter, kBefore };

class GuardedBuffer {
 public:
  // `bytes` may be 0: data() then points at the guard page. Errors: invalid_argument, resource_exhausted.
  static Result<GuardedBuffer> create(int64_t bytes, Guard guard = Guard::kAfter);

  GuardedBuffer(GuardedBuffer&& other) noexcept;
  GuardedBuffer& operator=(GuardedBuffer&& other) noexcept;
  ~GuardedBuffer();

  std::byte* data() const { return data_; }
  int64_t size() const { return size_; }
  Guard guard() const { return data_ == mapped_ + page_ ? Guard::kBefore : Guard::kAfter; }
  template <typename T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data_), static_cast<size_t>(size_) / sizeof(T)};
  }

  void poison();              // fills data and slack again
  bool slack_intact() const;  // no byte of the slack was written since the last poison

 private:
  GuardedBuffer() = default;
  std::byte* mapped_ = nullptr;  // the leading guard page
  int64_t mapped_bytes_ = 0;
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
  int64_t page_ = 0;
};

}  // namespace hone
