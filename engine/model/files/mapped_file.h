// A whole file in memory, read-only. Private to this process: nothing that is done with it reaches the disk.
//
// What cannot be had: a file that somebody makes shorter while it is mapped. Its pages beyond the new end raise SIGBUS
// when they are read, which no check at opening prevents. Whoever replaces a model writes another file and renames it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/base/status.h"

namespace hone::model {

class MappedFile {
 public:
  // not_found where there is no such file; invalid_argument for what is not a regular file (a folder, a pipe).
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);

  MappedFile(const std::byte* memory, size_t size, int64_t modified_ns)
      : memory_(memory), size_(size), modified_ns_(modified_ns) {}
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {memory_, size_}; }  // begins at a page
  int64_t modified_ns() const { return modified_ns_; }                   // since 1970

 private:
  const std::byte* memory_;
  size_t size_;
  int64_t modified_ns_;
};

}  // namespace hone::model
