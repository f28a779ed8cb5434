#include "engine/base/guarded_buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/math.h"

namespace hone {
namespace {

constexpr std::byte kPoison{0xff};
constexpr int64_t kMaxBytes = int64_t{1} << 46;

}  // namespace

Result<GuardedBuffer> GuardedBuffer::create(int64_t bytes, Guard guard) {
  if (bytes < 0) return invalid_argument(fmt::format("buffer size must be at least 0, got {}", bytes));
  if (bytes > kMaxBytes) return resource_exhausted(fmt::format("cannot allocate {} guarded bytes", bytes));
  GuardedBuffer buffer;
  buffer.page_ = sysconf(_SC_PAGESIZE);
  int64_t inner = round_up(std::max<int64_t>(bytes, 1), buffer.page_);
  int64_t total = inner + 2 * buffer.page_;
  void* mapped = mmap(nullptr, static_cast<size_t>(total), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return resource_exhausted(fmt::format("cannot allocate {} guarded bytes", bytes));
  buffer.mapped_ = static_cast<std::byte*>(mapped);
  buffer.mapped_bytes_ = total;
  std::byte* first = buffer.mapped_ + buffer.page_;
  if (mprotect(first, static_cast<size_t>(inner), PROT_READ | PROT_WRITE) != 0) {
    return resource_exhausted(fmt::format("cannot allocate {} guarded bytes: mprotect refused", bytes));
  }
  buffer.size_ = bytes;
  buffer.data_ = guard == Guard::kAfter ? first + inner - bytes : first;
  buffer.poison();
  return buffer;
}

void GuardedBuffer::poison() {
  std::memset(mapped_ + page_, static_cast<int>(kPoison), static_cast<size_t>(mapped_bytes_ - 2 * page_));
}

bool GuardedBuffer::slack_intact() const {
  auto is_poison = [](std::byte b) { return b == kPoison; };
  const std::byte* first = mapped_ + page_;
  const std::byte* last = mapped_ + mapped_bytes_ - page_;
  return std::all_of(first, static_cast<const std::byte*>(data_), is_poison) &&
         std::all_of(static_cast<const std::byte*>(data_) + size_, last, is_poison);
}

GuardedBuffer::GuardedBuffer(GuardedBuffer&& other) noexcept
    : mapped_(std::exchange(other.mapped_, nullptr)),
      mapped_bytes_(std::exchange(other.mapped_bytes_, 0)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      page_(other.page_) {}

GuardedBuffer& GuardedBuffer::operator=(GuardedBuffer&& other) noexcept {
  std::swap(mapped_, other.mapped_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(page_, other.page_);
  return *this;
}

GuardedBuffer::~GuardedBuffer() {
  if (mapped_ != nullptr) munmap(mapped_, static_cast<size_t>(mapped_bytes_));
}

}  // namespace hone
