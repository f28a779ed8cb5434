// See mapped_file.h.
#include "engine/model/files/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "engine/base/descriptor.h"

namespace hone::model {
namespace {

int64_t nanoseconds(const timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

}  // namespace

MappedFile::~MappedFile() {
  if (size_ > 0) munmap(const_cast<std::byte*>(memory_), size_);
}

// O_NONBLOCK: opening a pipe would wait for a writer.
Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    const int why = errno;
    const std::string message = fmt::format("cannot open the file: {}", std::strerror(why));
    return why == ENOENT || why == ENOTDIR ? not_found(message) : failed_precondition(message);
  }
  struct stat info = {};
  if (fstat(file.get(), &info) != 0)
    return failed_precondition(fmt::format("cannot read the file: {}", std::strerror(errno)));
  if (!S_ISREG(info.st_mode)) return invalid_argument("not a regular file");
  const auto size = static_cast<size_t>(info.st_size);
  void* memory = nullptr;
  if (size > 0) memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (memory == MAP_FAILED)
    return resource_exhausted(fmt::format("cannot map {} bytes of the file: {}", size, std::strerror(errno)));
  const FileStamp stamp{.device = info.st_dev,
                        .inode = info.st_ino,
                        .modified_ns = nanoseconds(info.st_mtim),
                        .changed_ns = nanoseconds(info.st_ctim)};
  return std::shared_ptr<const MappedFile>(
      std::make_shared<MappedFile>(static_cast<const std::byte*>(memory), size, stamp));
}

}  // namespace hone::model
