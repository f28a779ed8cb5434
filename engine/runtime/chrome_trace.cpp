// Events as Chrome's trace JSON (an array of objects), which Perfetto opens.
//
// The file is valid JSON at every moment that somebody can look: an event is one pwrite that replaces the closing
// bracket by ",\n<event>\n]\n", nothing is kept in memory, and so a process that is killed, or leaves by _exit, loses
// nothing. When the disk is full, what was written of the event is cut off again and the bracket put back, into space
// that the file already has; the trace then ends, with one line on stderr.
//
// One process writes a file: it holds a lock on it, and another that is told the same name (a worker that inherited
// HONE_TRACE) writes <file>.<pid>.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "engine/base/cpu_quota.h"
#include "engine/base/env.h"
#include "engine/runtime/trace.h"

namespace hone::runtime {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kClosing = "\n]\n";

std::string text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

class ChromeTrace final : public TraceSink {
 public:
  ChromeTrace(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  ~ChromeTrace() override { ::close(fd_); }

  // Error: resource_exhausted with what the system says. The file is then as it was before.
  Status add(std::string_view before, const Json& event) {
    const std::string block = fmt::format("{}{}{}", before, text(event), kClosing);
    const std::lock_guard lock(mutex_);
    if (full_) return {};
    const ssize_t written = ::pwrite(fd_, block.data(), block.size(), end_);
    if (written == static_cast<ssize_t>(block.size())) {
      end_ += written - static_cast<ssize_t>(kClosing.size());
      return {};
    }
    const int error = written < 0 ? errno : ENOSPC;
    full_ = true;
    if (end_ > 0 && ::ftruncate(fd_, end_ + static_cast<off_t>(kClosing.size())) == 0)
      (void)!::pwrite(fd_, kClosing.data(), kClosing.size(), end_);
    return resource_exhausted(fmt::format("cannot write {}: {}", path_, std::strerror(error)));
  }

  void region(const ScheduleRegion& e) override {
    add_or_say({{"name", e.op},
                {"cat", "schedule"},
                {"ph", "X"},
                {"ts", static_cast<double>(e.begin_ns) / 1e3},
                {"dur", static_cast<double>(e.duration_ns) / 1e3},
                {"pid", ::getpid()},
                {"tid", ::gettid()},
                {"args",
                 {{"node", e.node},
                  {"schedule", e.schedule},
                  {"elements", e.elements},
                  {"tasks", e.tasks},
                  {"grain", e.grain},
                  {"failed", e.failed},
                  {"failures", e.failures}}}});
  }

  void downgraded(const ScheduleDowngraded& e) override {
    add_or_say({{"name", "ScheduleDowngraded"},
                {"cat", "schedule"},
                {"ph", "i"},
                {"s", "t"},
                {"ts", static_cast<double>(steady_now_ns()) / 1e3},
                {"pid", ::getpid()},
                {"tid", ::gettid()},
                {"args", {{"requested", e.requested}, {"effective", e.effective}, {"reason", e.reason}}}});
  }

 private:
  void add_or_say(const Json& event) {
    if (const Status s = add(",\n", event); !s.ok())
      (void)std::fprintf(stderr, "hone: warning: the trace ends here: %s\n", s.message().c_str());
  }

  const std::string path_;
  const int fd_;
  std::mutex mutex_;
  off_t end_ = 0;  // of the last event: where the closing bracket begins
  bool full_ = false;
};

Status system_error(const std::string& path, int error) {
  return invalid_argument(fmt::format("cannot write {}: {}", path, std::strerror(error)));
}

// O_RDWR: opening a FIFO that nobody reads must not wait.
int open_to_write(const std::string& path) {
  return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
}

}  // namespace

Result<std::shared_ptr<TraceSink>> make_chrome_trace(const std::string& file) {
  std::string path = file;
  int fd = open_to_write(path);
  if (fd >= 0 && ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(fd);
    path += fmt::format(".{}", ::getpid());
    fd = open_to_write(path);
  }
  if (fd < 0) return system_error(path, errno);
  auto trace = std::make_shared<ChromeTrace>(path, fd);
  struct stat what {};
  if (::fstat(fd, &what) != 0) return system_error(path, errno);
  if (S_ISREG(what.st_mode) && ::ftruncate(fd, 0) != 0) return system_error(path, errno);
  const std::string cpus = fmt::format("{} CPUs usable", usable_cpus(affinity_cpus(), read_cpu_quota("")).count);
  HONE_RETURN_IF_ERROR(
      trace->add("[\n", {{"name", "process_labels"}, {"ph", "M"}, {"pid", ::getpid()}, {"args", {{"labels", cpus}}}}));
  return std::shared_ptr<TraceSink>(std::move(trace));
}

void trace_as_environment_says() {
  static std::once_flag once;
  std::call_once(once, [] {
    const std::optional<std::string> path = env("HONE_TRACE");
    if (!path) return;
    Result<std::shared_ptr<TraceSink>> trace = make_chrome_trace(*path);
    if (trace.ok()) return set_trace_sink(*std::move(trace));
    (void)std::fprintf(stderr, "hone: warning: HONE_TRACE: %s; nothing is traced\n", trace.status().message().c_str());
  });
}

}  // namespace hone::runtime
