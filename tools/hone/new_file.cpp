// See new_file.h.
#include "tools/hone/new_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

namespace hone::cli {
namespace {

namespace fs = std::filesystem;

bool is_database(const std::string& path) {
  constexpr std::string_view kMagic = "SQLite format 3";
  const FilePtr file(std::fopen(path.c_str(), "r"));
  char head[kMagic.size()] = {};
  return file && std::fread(head, 1, sizeof head, file.get()) == sizeof head &&
         std::string_view(head, sizeof head) == kMagic;
}

}  // namespace

Status cannot(const char* verb, const std::string& path) {
  const std::string message = fmt::format("cannot {} {}: {}", verb, path, std::strerror(errno));
  return errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? resource_exhausted(message) : invalid_argument(message);
}

Result<NewFile> NewFile::create(const std::string& path, std::string_view example) {
  NewFile file;
  file.path_ = path;
  struct stat there {};
  if (stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    if (S_ISDIR(there.st_mode))
      return invalid_argument(fmt::format("{} is a folder; name a file, such as {}/{}", path, path, example));
    file.file_.reset(std::fopen(path.c_str(), "w"));  // a device or a pipe
    return file.file_ ? Result<NewFile>(std::move(file)) : cannot("write", path);
  }
  if (is_database(path))
    return invalid_argument(fmt::format("{} is a database, not to be replaced; name another file", path));
  std::error_code error;
  const fs::path target = fs::is_symlink(path, error) ? fs::weakly_canonical(path, error) : fs::path(path);
  file.path_ = target.string();
  file.temporary_ = file.path_ + ".XXXXXX";
  const int fd = mkstemp(file.temporary_.data());
  if (fd < 0) {
    file.temporary_.clear();
    return cannot("write", path);
  }
  const mode_t mask = umask(0);
  umask(mask);
  (void)fchmod(fd, 0666 & ~mask);  // mkstemp's 0600 otherwise
  file.file_.reset(fdopen(fd, "w"));
  if (!file.file_) {
    const Status status = cannot("write", path);
    (void)close(fd);
    return status;
  }
  return file;
}

NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::move(other.path_)), temporary_(std::exchange(other.temporary_, "")), file_(std::move(other.file_)) {}

NewFile::~NewFile() {
  if (!temporary_.empty()) (void)unlink(temporary_.c_str());
}

Status NewFile::write(std::string_view text) {
  errno = 0;
  return std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size() ? Status{} : cannot("write", path_);
}

Status NewFile::commit() {
  errno = 0;
  if (std::fflush(file_.get()) != 0) return cannot("write", path_);
  if (temporary_.empty()) return {};
  if (fsync(fileno(file_.get())) != 0 || std::rename(temporary_.c_str(), path_.c_str()) != 0)
    return cannot("write", path_);
  temporary_.clear();
  return {};
}

}  // namespace hone::cli
