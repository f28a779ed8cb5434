// What the schedules did, for tests and for Perfetto. One sink for the whole process, as with logs; without one an
// event costs a relaxed load.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/runtime/schedule.h"

namespace hone::runtime {

// A region that was opened: none for what ran inline. Texts are valid during the call of the sink.
struct ScheduleRegion {
  std::string_view op, node;
  std::string_view schedule;  // "tbb(8)"
  int64_t elements = 0, tasks = 0, grain = 0;
  int64_t begin_ns = 0, duration_ns = 0;  // steady clock
  bool failed = false;                    // some range threw
  int64_t failures = 0;                   // how many did
};

struct ScheduleDowngraded {
  std::string_view requested, effective;  // "dedicated(8)", "tbb(8)"
  std::string_view reason;
};

// Called by any thread, by several at once. What it throws is dropped with the event.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  virtual void region(const ScheduleRegion& event) = 0;
  virtual void downgraded(const ScheduleDowngraded& event) = 0;
};

// null: none. Who is emitting while this is called may still reach the sink before. A child of fork() has none until it
// calls this.
void set_trace_sink(std::shared_ptr<TraceSink> sink);

namespace trace_detail {
extern std::atomic<bool> tracing;
}
inline bool tracing() { return trace_detail::tracing.load(std::memory_order_relaxed); }
int64_t steady_now_ns();
// Pass on to the sink, if there is one.
void emit(const ScheduleRegion& event);
void emit(const ScheduleDowngraded& event);

// Keeps every event, for tests.
class RecordingSink final : public TraceSink {
 public:
  struct Region {
    std::string op, node, schedule;
    ScheduleRegion numbers;  // its texts are empty
  };
  struct Downgraded {
    std::string requested, effective, reason;
  };
  void region(const ScheduleRegion& event) override;
  void downgraded(const ScheduleDowngraded& event) override;
  std::vector<Region> regions() const;
  std::vector<Downgraded> downgrades() const;

 private:
  mutable std::mutex mutex_;
  std::vector<Region> regions_;
  std::vector<Downgraded> downgrades_;
};

// Writes `path` as Chrome's trace JSON, which ui.perfetto.dev and chrome://tracing open: valid at every moment, also
// when the process is killed or the disk fills (chrome_trace.cpp says how). A file that another process is tracing to
// is left to it, and `path`.PID written. Errors: invalid_argument, resource_exhausted, with the path and what the
// system says.
Result<std::shared_ptr<TraceSink>> make_chrome_trace(const std::string& path);

// Once per process: HONE_TRACE=file installs the Chrome sink. A file that cannot be written is one line on stderr.
void trace_as_environment_says();

}  // namespace hone::runtime
