// See perf_counters.h. Events count from when they are opened, and a reading is the difference of two: resetting one
// would reset its count but not its times, which the scaling needs.
#include "engine/base/perf_counters.h"

#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <utility>

namespace hone {
namespace {

constexpr std::array kCounterNames = {
#define HONE_COUNTER(id, name, what) std::string_view(name),
    HONE_COUNTERS(HONE_COUNTER)
#undef HONE_COUNTER
};

constexpr uint64_t read_misses_of(uint64_t cache) {
  return cache | (PERF_COUNT_HW_CACHE_OP_READ << 8) | (PERF_COUNT_HW_CACHE_RESULT_MISS << 16);
}

perf_event_attr attributes(Counter counter) {
  perf_event_attr attr = {};
  attr.size = sizeof attr;
  attr.exclude_kernel = 1;  // also what an unprivileged process may have at perf_event_paranoid 2
  attr.exclude_hv = 1;
  attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  switch (counter) {
    case Counter::kCycles:
      attr.type = PERF_TYPE_HARDWARE;
      attr.config = PERF_COUNT_HW_CPU_CYCLES;
      break;
    case Counter::kInstructions:
      attr.type = PERF_TYPE_HARDWARE;
      attr.config = PERF_COUNT_HW_INSTRUCTIONS;
      break;
    case Counter::kL1dReadMisses:
      attr.type = PERF_TYPE_HW_CACHE;
      attr.config = read_misses_of(PERF_COUNT_HW_CACHE_L1D);
      break;
    case Counter::kLlcReadMisses:
      attr.type = PERF_TYPE_HW_CACHE;
      attr.config = read_misses_of(PERF_COUNT_HW_CACHE_LL);
      break;
  }
  return attr;
}

int open_event(Counter counter, int leader) {
  perf_event_attr attr = attributes(counter);
  constexpr pid_t kThisThread = 0;
  constexpr int kAnyCpu = -1;
  const long fd = syscall(SYS_perf_event_open, &attr, kThisThread, kAnyCpu, leader, PERF_FLAG_FD_CLOEXEC);
  return fd >= 0 ? static_cast<int>(fd) : -errno;
}

std::string read_paranoid() {
  std::ifstream in("/proc/sys/kernel/perf_event_paranoid");
  std::string level;
  in >> level;
  return level;
}

// What keeps a counter away, and what a person can do about it.
std::string refusal(int error, const std::string& paranoid) {
  int level = 0;
  std::from_chars(paranoid.data(), paranoid.data() + paranoid.size(), level);
  switch (error) {
    case ENOENT:
    case EOPNOTSUPP:
    case ENODEV:
    case ENXIO:
      return "this CPU does not count it, or a virtual machine hides the counters: enable its virtual PMU";
    case EACCES:
    case EPERM:
      if (level > 2)
        return fmt::format("perf_event_paranoid is {}: set it to 2 (sysctl kernel.perf_event_paranoid=2)", level);
      return "perf_event_open is not permitted: a container's seccomp profile forbids it unless CAP_PERFMON is added";
    case ENOSYS:
      return "the kernel was built without performance events";
    case EMFILE:
    case ENFILE:
      return "no file descriptor is left: raise the limit (ulimit -n)";
    default:
      return fmt::format("perf_event_open failed with errno {} ({})", error, std::strerror(error));
  }
}

}  // namespace

std::string_view counter_name(Counter counter) { return kCounterNames.at(static_cast<size_t>(counter)); }

PerfSystem PerfSystem::real() {
  return {.open = open_event,
          .read =
              [](int fd, std::array<uint64_t, 3>& numbers) {
                return ::read(fd, numbers.data(), sizeof numbers) == static_cast<ssize_t>(sizeof numbers);
              },
          .close = [](int fd) { ::close(fd); },
          .paranoid = read_paranoid};
}

PerfCounters PerfCounters::of_this_thread(PerfSystem system) {
  PerfCounters counters(std::move(system));
  for (const Counter counter : kAllCounters) {
    Event& event = counters.events_.at(static_cast<size_t>(counter));
    const int leader = counter == Counter::kInstructions ? counters.events_[0].fd : -1;
    const int fd = counters.system_.open(counter, leader);
    if (fd >= 0) {
      event.fd = fd;
    } else {
      event.why_not = refusal(-fd, counters.system_.paranoid());
    }
  }
  return counters;
}

PerfCounters::PerfCounters(PerfCounters&& other) noexcept
    : system_(std::move(other.system_)), events_(std::exchange(other.events_, {})) {}

PerfCounters& PerfCounters::operator=(PerfCounters&& other) noexcept {
  std::swap(system_, other.system_);
  std::swap(events_, other.events_);
  return *this;
}

PerfCounters::~PerfCounters() {
  // Members of a group before its leader.
  for (size_t i = events_.size(); i-- > 0;)
    if (events_.at(i).fd >= 0) system_.close(events_.at(i).fd);
}

bool PerfCounters::any() const {
  for (const Event& event : events_)
    if (event.fd >= 0) return true;
  return false;
}

std::string PerfCounters::why_not() const {
  for (const Counter counter : kAllCounters)
    if (!why_not(counter).empty()) return fmt::format("{}: {}", counter_name(counter), why_not(counter));
  return "";
}

void PerfCounters::start() {
  for (Event& event : events_) {
    if (event.fd < 0) continue;
    event.why_not = system_.read(event.fd, event.before) ? "" : "its count cannot be read";
  }
}

CounterReading PerfCounters::stop() {
  CounterReading reading;
  for (const Counter counter : kAllCounters) reading.values.at(static_cast<size_t>(counter)) = read(counter);
  return reading;
}

std::optional<double> PerfCounters::read(Counter counter) {
  Event& event = events_.at(static_cast<size_t>(counter));
  if (event.fd < 0 || !event.why_not.empty()) return std::nullopt;
  std::array<uint64_t, 3> now = {};
  if (!system_.read(event.fd, now)) {
    event.why_not = "its count cannot be read";
    return std::nullopt;
  }
  const auto count = static_cast<double>(now[0] - event.before[0]);
  const auto enabled = static_cast<double>(now[1] - event.before[1]);
  const auto running = static_cast<double>(now[2] - event.before[2]);
  if (running <= 0) {
    event.why_not = "never scheduled: other users (the NMI watchdog, perf) hold the CPU's counters";
    return std::nullopt;
  }
  // Some hypervisors offer counters that do not count. No stretch of code takes no cycle; it may well miss no cache.
  const bool never_zero = counter == Counter::kCycles || counter == Counter::kInstructions;
  if (count == 0 && never_zero) {
    event.why_not = "counted nothing while code ran: a virtual machine offers counters that stand still";
    return std::nullopt;
  }
  return count * (enabled / running);
}

}  // namespace hone
