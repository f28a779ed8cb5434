// See perf_internal.h.
#include "jit/announce/perf_internal.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <sstream>

#include "engine/base/descriptor.h"
#include "engine/base/env.h"
#include "jit/file_limit.h"

namespace hone::jit {
namespace {

// Once per kind and process: after a failure, nothing more is tried.
void complain(const char* kind, const std::string& what, int error) {
  std::fprintf(stderr, "hone: HONE_JIT_SYMBOLS=%s: %s: %s; it is not written\n", kind, what.c_str(),
               std::strerror(error));
}

// When this process began, in ns since 1970; a little early, as the system counts in hundredths of a second. nullopt
// without /proc.
std::optional<int64_t> process_start() {
  std::ifstream in("/proc/self/stat");
  std::string stat;
  std::getline(in, stat);
  // The name in parentheses may hold anything; the 20th word behind it is the start, in ticks since the machine's.
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream words(stat.substr(name_end + 1));
  std::string word;
  for (int i = 0; i < 19; ++i) words >> word;
  int64_t ticks = 0;
  if (!(words >> ticks)) return std::nullopt;
  timespec now = {}, since_boot = {};
  clock_gettime(CLOCK_REALTIME, &now);
  clock_gettime(CLOCK_BOOTTIME, &since_boot);
  constexpr int64_t kSecond = 1'000'000'000;
  const auto ns = [](const timespec& t) { return t.tv_sec * kSecond + t.tv_nsec; };
  return ns(now) - ns(since_boot) + ticks * (kSecond / sysconf(_SC_CLK_TCK));
}

// What an earlier process of this number left in our folder of maps: perf would give its names to our addresses. A file
// that was written since we began is one of another JIT in this process, and is added to.
void remove_stale(const std::string& path) {
  struct stat facts = {};
  if (lstat(path.c_str(), &facts) != 0 || facts.st_uid != geteuid() || !S_ISREG(facts.st_mode)) return;
  const std::optional<int64_t> start = process_start();
  if (!start || facts.st_mtim.tv_sec * 1'000'000'000 + facts.st_mtim.tv_nsec < *start) unlink(path.c_str());
}

// The file is opened for each line: no descriptor to keep, and none to share with a child.
class PerfMap {
 public:
  void append(const std::string& line) {
    const std::lock_guard lock(mutex_);
    if (failed_in_ == getpid()) return;
    const std::string path = fmt::format("/tmp/perf-{}.map", getpid());
    if (began_in_ != getpid()) remove_stale(path);
    began_in_ = getpid();
    const Descriptor file(
        open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, S_IRUSR | S_IWUSR));
    struct stat facts = {};
    bool written = file.get() >= 0 && fstat(file.get(), &facts) == 0;
    // A second name would be a file of ours elsewhere, which somebody linked here.
    if (written && (facts.st_uid != geteuid() || !S_ISREG(facts.st_mode) || facts.st_nlink != 1)) {
      errno = EPERM;
      written = false;
    } else if (written && !file_may_have(static_cast<size_t>(facts.st_size) + line.size())) {
      errno = EFBIG;
      written = false;
    }
    if (written && write_all(file.get(), line)) return;
    complain("map", path, errno);
    failed_in_ = getpid();
  }

 private:
  std::mutex mutex_;
  pid_t began_in_ = 0, failed_in_ = 0;
};

// ---- jitdump

struct FileHeader {
  uint32_t magic = 0x4A695444;  // "JiTD"
  uint32_t version = 1;
  uint32_t total_size = sizeof(FileHeader);
#if defined(__aarch64__)
  uint32_t elf_mach = EM_AARCH64;
#else
  uint32_t elf_mach = EM_X86_64;
#endif
  uint32_t pad = 0;
  uint32_t pid = 0;
  uint64_t timestamp = 0;
  uint64_t flags = 0;  // times are of CLOCK_MONOTONIC, which `perf record -k mono` uses too
};
static_assert(sizeof(FileHeader) == 40);

struct CodeLoad {
  uint32_t id = 0;  // JIT_CODE_LOAD
  uint32_t total_size = 0;
  uint64_t timestamp = 0;
  uint32_t pid = 0;
  uint32_t tid = 0;
  uint64_t vma = 0;
  uint64_t code_addr = 0;
  uint64_t code_size = 0;
  uint64_t code_index = 0;
};
static_assert(sizeof(CodeLoad) == 56);

uint64_t monotonic_ns() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

template <typename T>
std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// Where the file goes; made when it is missing. `why` when it cannot be.
std::optional<std::string> dump_folder(std::string& why) {
  std::error_code error;
  if (const std::optional<std::string> named = env("JITDUMPDIR")) {
    std::filesystem::create_directories(*named, error);
    if (!error) return *named;
    why = *named + ": " + error.message();
    return std::nullopt;
  }
  const std::optional<std::string> home = env("HOME");
  if (!home) {
    why = "neither JITDUMPDIR nor HOME is set";
    return std::nullopt;
  }
  const std::string base = *home + "/.debug/jit";
  std::filesystem::create_directories(base, error);
  const std::time_t now = std::time(nullptr);
  std::tm day = {};
  gmtime_r(&now, &day);
  std::string folder =
      fmt::format("{}/hone-{:04}{:02}{:02}.XXXXXX", base, day.tm_year + 1900, day.tm_mon + 1, day.tm_mday);
  if (!error && mkdtemp(folder.data()) != nullptr) return folder;
  why = base + ": " + (error ? error.message() : std::strerror(errno));
  return std::nullopt;
}

class JitDump {
 public:
  void append(const std::string& symbol, std::span<const std::byte> code) {
    const std::lock_guard lock(mutex_);
    if (pid_ != getpid() || removed()) start();
    if (fd_ < 0) return;
    CodeLoad load;
    load.total_size = static_cast<uint32_t>(sizeof load + symbol.size() + 1 + code.size());
    load.timestamp = monotonic_ns();
    load.pid = static_cast<uint32_t>(pid_);
    load.tid = static_cast<uint32_t>(syscall(SYS_gettid));
    load.vma = load.code_addr = reinterpret_cast<uint64_t>(code.data());
    load.code_size = code.size();
    load.code_index = index_++;
    std::string record = bytes_of(load) + symbol + '\0';
    record.append(reinterpret_cast<const char*>(code.data()), code.size());
    if (!add(record)) give_up(path_, errno);
  }

 private:
  // A new file for this process; what is open came with a fork and is the parent's.
  void start() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
    pid_ = getpid();
    bytes_ = index_ = 0;
    std::string why;
    const std::optional<std::string> folder = dump_folder(why);
    if (!folder) {
      std::fprintf(stderr, "hone: HONE_JIT_SYMBOLS=jitdump: %s; it is not written\n", why.c_str());
      return;
    }
    path_ = fmt::format("{}/jit-{}.dump", *folder, pid_);
    unlink(path_.c_str());  // of an earlier process with this number
    fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd_ < 0) return give_up(path_, errno);
    FileHeader header;
    header.pid = static_cast<uint32_t>(pid_);
    header.timestamp = monotonic_ns();
    if (!add(bytes_of(header))) return give_up(path_, errno);
    // perf records which files are mapped executable, and so learns of this one. It stays mapped; nothing is executed.
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    if (mmap(nullptr, page, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd_, 0) == MAP_FAILED)
      give_up(path_ + " cannot be mapped as perf wants it (a file system mounted noexec?)", errno);
  }

  // Somebody cleaned up: perf would never find what is written from now on.
  bool removed() const {
    struct stat facts = {};
    return fd_ >= 0 && fstat(fd_, &facts) == 0 && facts.st_nlink == 0;
  }

  bool add(const std::string& bytes) {
    bytes_ += bytes.size();
    errno = EFBIG;
    return file_may_have(bytes_) && write_all(fd_, bytes);
  }

  void give_up(const std::string& what, int error) {
    complain("jitdump", what, error);
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

  std::mutex mutex_;
  pid_t pid_ = 0;
  int fd_ = -1;
  std::string path_;
  size_t bytes_ = 0;
  uint64_t index_ = 0;
};

}  // namespace

void append_to_perf_map(const std::string& symbol, std::span<const std::byte> code) {
  static PerfMap& map = *new PerfMap;  // never destroyed: threads may compile while a process ends
  map.append(fmt::format("{:x} {:x} {}\n", reinterpret_cast<uint64_t>(code.data()), code.size(), symbol));
}

void append_to_jitdump(const std::string& symbol, std::span<const std::byte> code) {
  static JitDump& dump = *new JitDump;
  dump.append(symbol, code);
}

}  // namespace hone::jit
