// The folder of the cache and the files in it, as far as they can be trusted. Every path is opened once and looked at
// through its descriptor, so that nothing can be exchanged between the look and the use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "jit/cache/disk_cache.h"

namespace hone::jit {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();
  int get() const { return fd_; }

 private:
  int fd_;
};

enum class Missing { kFail, kMake };

// Errors: not_found (with kFail), failed_precondition when it is not this user's alone to write, resource_exhausted or
// unavailable when the system refuses.
Result<Descriptor> open_folder(const CachePlace& place, Missing missing);

enum class Purpose { kUse, kLook };  // use is noted in the file's modification time

// All of a regular file that is this user's alone to write. Errors: not_found; failed_precondition when it is something
// else, or larger than `limit`.
Result<std::string> read_trusted(int folder, const std::string& name, int64_t limit, Purpose purpose);

// Makes `name` appear with these bytes, or not at all. Error: resource_exhausted naming the call.
Status write_whole(int folder, const std::string& name, std::string_view bytes);

// True when it was removed; one that is gone already is nobody's concern.
bool remove_file(int folder, const std::string& name);

struct FolderFile {
  std::string name;
  int64_t bytes = 0;
  int64_t used = 0;    // modification time, ns since 1970
  bool entry = false;  // else a temporary file of write_whole()
};
// Entries and temporary files; what else lies there is not ours to count or remove.
std::vector<FolderFile> list_folder(int folder);

std::string entry_name(std::string_view id);
// The id in the name of an entry.
std::string_view entry_id(std::string_view name);

}  // namespace hone::jit
