// See folder_internal.h.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "jit/cache/folder_internal.h"
#include "jit/file_limit.h"

namespace hone::jit {
namespace {

constexpr std::string_view kEntrySuffix = ".kernel";
constexpr std::string_view kTemporarySuffix = ".tmp";
constexpr size_t kIdDigits = 64;
constexpr size_t kTemporaryDigits = 16;  // of the id
constexpr std::string_view kHex = "0123456789abcdef";

Status refused(const std::string& what) {
  const int error = errno;
  return resource_exhausted(fmt::format("{}: {}", what, std::strerror(error)));
}

// Whether only this user can have written it. The group bits also show what an access control list grants to others.
Status only_ours(const struct stat& facts, const std::string& what) {
  if (facts.st_uid != geteuid())
    return failed_precondition(
        fmt::format("{} belongs to user {}, this process runs as {}", what, facts.st_uid, geteuid()));
  if ((facts.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return failed_precondition(fmt::format("{} may be written by others: chmod go-w it", what));
  return {};
}

std::string parent_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Whoever may rename a folder on the way can put another one of ours in its place, as sshd's StrictModes has it. In a
// folder with the sticky bit (/tmp), nobody else can.
Status vet_parent(const std::string& path) {
  struct stat facts = {};
  if (lstat(path.c_str(), &facts) != 0) return refused("cannot look at " + path);
  if (facts.st_uid != geteuid() && facts.st_uid != 0)
    return failed_precondition(fmt::format("{} belongs to user {}, this process runs as {}: set HONE_CACHE to a folder",
                                           path, facts.st_uid, geteuid()));
  if ((facts.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (facts.st_mode & S_ISVTX) == 0)
    return failed_precondition(fmt::format("{} may be written by others: chmod go-w it", path));
  return {};
}

enum class Itself { kVetted, kLeftOut };

// The folders on the way to `path`, which is there, as they really lie: links are followed first.
Status vet_way(const std::string& path, Itself itself) {
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(path.c_str(), nullptr), std::free);
  if (real == nullptr) return refused("cannot look at " + path);
  std::string at = real.get();
  if (itself == Itself::kVetted) HONE_RETURN_IF_ERROR(vet_parent(at));
  while (at != "/") {
    at = parent_of(at);
    HONE_RETURN_IF_ERROR(vet_parent(at));
  }
  return {};
}

// Before folders are made below `path`. A root that was given another user's HOME makes none there.
Status vet_place_to_make(std::string path) {
  struct stat facts = {};
  while (stat(path.c_str(), &facts) != 0) {
    if (errno != ENOENT || path == "/" || path == ".") return refused("cannot look at " + path);
    path = parent_of(path);
  }
  return vet_way(path, Itself::kVetted);
}

Status make_folders(const std::string& path) {
  if (mkdir(path.c_str(), S_IRWXU) == 0 || errno == EEXIST) return {};
  if (errno != ENOENT || path == "/" || path == ".") return refused("cannot make the folder " + path);
  HONE_RETURN_IF_ERROR(make_folders(parent_of(path)));
  if (mkdir(path.c_str(), S_IRWXU) == 0 || errno == EEXIST) return {};
  return refused("cannot make the folder " + path);
}

// Without the slashes at the end: behind them, open() would follow a link after all.
std::string trimmed(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

bool is_link(const std::string& path) {
  struct stat facts = {};
  return lstat(path.c_str(), &facts) == 0 && S_ISLNK(facts.st_mode);
}

// Differs between threads, processes and, through the clock, processes of one number on machines that share a folder.
std::string temporary_name(const std::string& name) {
  static std::atomic<uint64_t> next{0};
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  return fmt::format(".{}.{}.{}.{}{}", name.substr(0, kTemporaryDigits), getpid(),
                     now.tv_sec * 1'000'000'000 + now.tv_nsec, next.fetch_add(1, std::memory_order_relaxed),
                     kTemporarySuffix);
}

bool is_entry(std::string_view name) {
  return name.size() == kIdDigits + kEntrySuffix.size() && name.ends_with(kEntrySuffix) &&
         name.find_first_not_of(kHex) == kIdDigits;
}

// Exactly what temporary_name() makes: a folder that somebody names may hold .mail.tmp of others.
bool is_temporary(std::string_view name) {
  if (!name.starts_with('.') || !name.ends_with(kTemporarySuffix)) return false;
  name.remove_prefix(1);
  name.remove_suffix(kTemporarySuffix.size());
  if (name.substr(0, kTemporaryDigits).find_first_not_of(kHex) != std::string_view::npos) return false;
  name.remove_prefix(std::min(kTemporaryDigits, name.size()));
  for (int part = 0; part < 3; ++part) {
    if (!name.starts_with('.')) return false;
    name.remove_prefix(1);
    const size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
    if (digits == 0 || digits > 20) return false;
    name.remove_prefix(digits);
  }
  return name.empty();
}

}  // namespace

Result<Descriptor> open_folder(const CachePlace& place, Missing missing) {
  if (place.folder.empty()) return failed_precondition(place.why_none);
  const std::string path = trimmed(place.folder);
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  int fd = open(path.c_str(), kFlags);
  if (fd < 0 && errno == ENOENT) {
    if (missing == Missing::kFail) return not_found(path + " does not exist");
    HONE_RETURN_IF_ERROR(vet_place_to_make(path));
    HONE_RETURN_IF_ERROR(make_folders(path));
    fd = open(path.c_str(), kFlags);
  }
  if (fd < 0 && is_link(path)) return failed_precondition(path + " is a symbolic link: name the folder itself");
  if (fd < 0) return refused("cannot open " + path);
  Descriptor folder(fd);
  struct stat facts = {};
  if (fstat(fd, &facts) != 0) return refused("cannot look at " + path);
  HONE_RETURN_IF_ERROR(only_ours(facts, path));
  HONE_RETURN_IF_ERROR(vet_way(path, Itself::kLeftOut));
  return folder;
}

Result<std::string> read_trusted(int folder, const std::string& name, int64_t limit, Purpose purpose) {
  // Without O_NONBLOCK, a pipe of this name would keep us waiting for a writer.
  const Descriptor file(openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (file.get() < 0 && errno == ENOENT) return not_found(name);
  if (file.get() < 0) return failed_precondition(fmt::format("{} cannot be opened: {}", name, std::strerror(errno)));
  struct stat facts = {};
  if (fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return failed_precondition(name + " is no file");
  HONE_RETURN_IF_ERROR(only_ours(facts, name));
  if (facts.st_size > limit) return failed_precondition(fmt::format("{} has {} bytes", name, facts.st_size));
  std::string bytes(static_cast<size_t>(facts.st_size), '\0');
  size_t have = 0;
  // Read, not mapped: a mapped file that is cut meanwhile ends the process.
  while (have < bytes.size()) {
    const ssize_t got = read(file.get(), bytes.data() + have, bytes.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    have += static_cast<size_t>(got);
  }
  bytes.resize(have);
  // Where it cannot be noted, entries are dropped in the order in which they were written.
  if (purpose == Purpose::kUse) (void)futimens(file.get(), nullptr);
  return bytes;
}

Status write_whole(int folder, const std::string& name, std::string_view bytes) {
  if (!file_may_have(bytes.size()))
    return resource_exhausted(fmt::format("files may not have {} bytes (ulimit -f)", bytes.size()));
  const std::string temporary = temporary_name(name);
  Descriptor file(
      openat(folder, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (file.get() < 0) return refused("cannot make a file");
  Status status;
  // A network file system may find out only when it is closed that there is no room.
  if (!write_all(file.get(), bytes) || !file.close()) {
    status = refused("cannot write");
  } else if (renameat(folder, temporary.c_str(), folder, name.c_str()) != 0) {
    status = errno == EISDIR ? failed_precondition(name + " is a folder: remove it") : refused("cannot rename");
  }
  if (!status.ok()) (void)remove_file(folder, temporary);
  return status;
}

Status remove_file(int folder, const std::string& name) {
  if (unlinkat(folder, name.c_str(), 0) == 0) return {};
  return errno == ENOENT ? not_found(name) : refused("cannot be removed");
}

std::vector<FolderFile> list_folder(int folder) {
  std::vector<FolderFile> files;
  // A descriptor of its own, as the position in a folder belongs to the descriptor.
  const int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return files;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(fdopendir(fd), closedir);
  if (entries == nullptr) {
    close(fd);
    return files;
  }
  while (const dirent* entry = readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    struct stat facts = {};
    if ((!is_entry(name) && !is_temporary(name)) || fstatat(fd, entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    files.push_back({.name = std::string(name),
                     .bytes = facts.st_size,
                     .used = facts.st_mtim.tv_sec * 1'000'000'000 + facts.st_mtim.tv_nsec,
                     .entry = is_entry(name)});
  }
  std::sort(files.begin(), files.end(), [](const FolderFile& a, const FolderFile& b) { return a.name < b.name; });
  return files;
}

std::string entry_name(std::string_view id) { return std::string(id) + std::string(kEntrySuffix); }

std::string_view entry_id(std::string_view name) { return name.substr(0, kIdDigits); }

}  // namespace hone::jit
