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

constexpr std::string_view kDatabase = "SQLite format 3";
constexpr int kMostLinks = 40;  // as Linux

// The first bytes of a file, `count` at most; none where it cannot be read.
std::string head_of(const std::string& path, size_t count) {
  const FilePtr file(std::fopen(path.c_str(), "r"));
  std::string head(count, '\0');
  head.resize(file ? std::fread(head.data(), 1, count, file.get()) : 0);
  return head;
}

Status check_replaced(const std::string& path, int64_t bytes, std::string_view begins) {
  if (head_of(path, kDatabase.size()) == kDatabase)
    return invalid_argument(fmt::format("{} is a database, not to be replaced; name another file", path));
  if (bytes > 0 && head_of(path, begins.size()) != begins)
    return invalid_argument(
        fmt::format("{} is there and of another kind than what is written; name another file, or remove it", path));
  return {};
}

// The file that a name means. weakly_canonical() would take a link to nothing for the file itself.
Result<std::string> linked_from(const std::string& path) {
  fs::path at = path;
  std::error_code error;
  for (int links = 0; fs::is_symlink(at, error); ++links) {
    const fs::path next = fs::read_symlink(at, error);
    if (error || links == kMostLinks) return invalid_argument(fmt::format("cannot follow the link {}", path));
    at = next.is_absolute() ? next : at.parent_path() / next;
  }
  return at.string();
}

}  // namespace

Status cannot(const char* verb, const std::string& path) {
  const std::string message = fmt::format("cannot {} {}: {}", verb, path, std::strerror(errno));
  return errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? resource_exhausted(message) : invalid_argument(message);
}

Result<NewFile> NewFile::create(const std::string& path, std::string_view example, std::string_view begins) {
  NewFile file;
  file.path_ = path;
  struct stat there {};
  const bool exists = stat(path.c_str(), &there) == 0;
  if (exists && !S_ISREG(there.st_mode)) {
    if (S_ISDIR(there.st_mode))
      return invalid_argument(fmt::format("{} is a folder; name a file, such as {}/{}", path, path, example));
    file.file_.reset(std::fopen(path.c_str(), "w"));  // a device or a pipe
    return file.file_ ? Result<NewFile>(std::move(file)) : cannot("write", path);
  }
  if (exists) HONE_RETURN_IF_ERROR(check_replaced(path, there.st_size, begins));
  HONE_ASSIGN_OR_RETURN(file.path_, linked_from(path));
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
