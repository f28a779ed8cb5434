// What the CPU counts while code runs: cycles, instructions and cache misses of the calling thread, in user space only,
// through perf_event_open.
//
//   PerfCounters counters = PerfCounters::of_this_thread();
//   counters.start();
//   run_kernel();
//   const CounterReading reading = counters.stop();
//   if (reading[Counter::kCycles]) ... else counters.why_not(Counter::kCycles) says why there is no number
//
// Most virtual machines and containers grant none of them. A counter that is not there has no value and a reason; it is
// never 0. Cycles and instructions are scheduled together, so their quotient is of one stretch of time; each kind of
// miss is scheduled on its own, as a CPU may have fewer counters than are asked for. A count that the kernel could only
// take for a part of the time is scaled to all of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace hone {

// HONE_COUNTER(enumerator, name, what it counts)
#define HONE_COUNTERS(HONE_COUNTER)                                                         \
  HONE_COUNTER(kCycles, "cycles", "core cycles, whatever the frequency")                    \
  HONE_COUNTER(kInstructions, "instructions", "instructions retired")                       \
  HONE_COUNTER(kL1dReadMisses, "l1d_read_misses", "loads that the first-level cache lacks") \
  HONE_COUNTER(kLlcReadMisses, "llc_read_misses", "loads that the last-level cache lacks")

enum class Counter : uint8_t {
#define HONE_COUNTER(id, name, what) id,
  HONE_COUNTERS(HONE_COUNTER)
#undef HONE_COUNTER
};
inline constexpr std::array kAllCounters = {
#define HONE_COUNTER(id, name, what) Counter::id,
    HONE_COUNTERS(HONE_COUNTER)
#undef HONE_COUNTER
};
std::string_view counter_name(Counter counter);

// Counts between start() and stop(); nullopt is "not counted".
struct CounterReading {
  std::array<std::optional<double>, kAllCounters.size()> values;
  std::optional<double> operator[](Counter counter) const { return values.at(static_cast<size_t>(counter)); }
};

// The system calls, so that tests can refuse and count as kernels do.
struct PerfSystem {
  // A file descriptor of the event in the group of `leader` (-1: its own), or -errno.
  std::function<int(Counter counter, int leader)> open;
  // The three numbers of the event: {count, ns enabled, ns running}; false when they cannot be read.
  std::function<bool(int fd, std::array<uint64_t, 3>& numbers)> read;
  std::function<void(int fd)> close;
  std::function<std::string()> paranoid;  // /proc/sys/kernel/perf_event_paranoid, "" when it cannot be read

  static PerfSystem real();
};

class PerfCounters {
 public:
  // Opens what the kernel grants. Belongs to the thread that called; any other one would count that thread too.
  static PerfCounters of_this_thread(PerfSystem system = PerfSystem::real());

  PerfCounters(PerfCounters&& other) noexcept;
  PerfCounters& operator=(PerfCounters&& other) noexcept;
  ~PerfCounters();

  // Is any of them counted?
  bool any() const;
  // Why this counter has no value: "" as long as it has one. After a stop() also what went wrong while counting.
  const std::string& why_not(Counter counter) const { return events_.at(static_cast<size_t>(counter)).why_not; }
  // One reason for people, of the first counter that is missing; "" when all are there.
  std::string why_not() const;

  void start();
  CounterReading stop();

 private:
  struct Event {
    int fd = -1;
    std::array<uint64_t, 3> before = {};
    std::string why_not;
  };
  explicit PerfCounters(PerfSystem system) : system_(std::move(system)) {}
  std::optional<double> read(Counter counter);

  PerfSystem system_;
  std::array<Event, kAllCounters.size()> events_;
};

}  // namespace hone
