// A file descriptor that closes itself, and writing to one.
#pragma once

#include <string_view>
#include <utility>

namespace hone {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}  // negative: none
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();
  int get() const { return fd_; }
  // Closes it now. False, with errno, when the system reports only then what it could not write.
  bool close();

 private:
  int fd_;
};

// All of it, however often a signal comes or a write is short; false with errno. Beyond RLIMIT_FSIZE a write ends the
// process: who may come there asks first (jit/file_limit.h).
bool write_all(int fd, std::string_view bytes);

}  // namespace hone
