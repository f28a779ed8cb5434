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

// Says of a file that it is the one that it was, as far as a file system tells: contents that change, and a name, owner
// or permission, give it another time of change, which no call sets back.
struct FileStamp {
  uint64_t device = 0, inode = 0;
  int64_t modified_ns = 0, changed_ns = 0;  // since 1970
};

class MappedFile {
 public:
  // not_found where there is no such file; invalid_argument for what is not a regular file (a folder, a pipe).
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);

  MappedFile(const std::byte* memory, size_t size, const FileStamp& stamp)
      : memory_(memory), size_(size), stamp_(stamp) {}
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {memory_, size_}; }  // begins at a page
  const FileStamp& stamp() const { return stamp_; }

 private:
  const std::byte* memory_;
  size_t size_;
  FileStamp stamp_;
};

}  // namespace hone::model
