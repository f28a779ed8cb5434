// See trace.h.
#include "engine/runtime/trace.h"

#include <pthread.h>

#include <chrono>

namespace hone::runtime {
namespace {

struct Installed {
  std::mutex mutex;
  std::shared_ptr<TraceSink> sink;
};

// Never destroyed: a thread may emit while the process exits.
Installed& installed() {
  static Installed* instance = new Installed;
  return *instance;
}

std::shared_ptr<TraceSink> sink() {
  const std::lock_guard lock(installed().mutex);
  return installed().sink;
}

}  // namespace

std::atomic<bool> trace_detail::tracing{false};

int64_t steady_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void set_trace_sink(std::shared_ptr<TraceSink> sink) {
  // Another thread may hold the locks of a sink while this one forks, and nobody would open them in the child.
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { trace_detail::tracing.store(false, std::memory_order_relaxed); });
  const std::lock_guard lock(installed().mutex);
  trace_detail::tracing.store(sink != nullptr, std::memory_order_relaxed);
  installed().sink.swap(sink);
}

// An event for which there is no memory is lost: it must not take the place of what the region itself has thrown.
void emit(const ScheduleRegion& event) {
  try {
    if (const std::shared_ptr<TraceSink> to = sink()) to->region(event);
  } catch (const std::exception&) {
  }
}

void emit(const ScheduleDowngraded& event) {
  try {
    if (const std::shared_ptr<TraceSink> to = sink()) to->downgraded(event);
  } catch (const std::exception&) {
  }
}

void RecordingSink::region(const ScheduleRegion& event) {
  const std::lock_guard lock(mutex_);
  Region& kept =
      regions_.emplace_back(Region{std::string(event.op), std::string(event.node), std::string(event.schedule), event});
  kept.numbers.op = kept.numbers.node = kept.numbers.schedule = {};
}

void RecordingSink::downgraded(const ScheduleDowngraded& event) {
  const std::lock_guard lock(mutex_);
  downgrades_.push_back({std::string(event.requested), std::string(event.effective), std::string(event.reason)});
}

std::vector<RecordingSink::Region> RecordingSink::regions() const {
  const std::lock_guard lock(mutex_);
  return regions_;
}

std::vector<RecordingSink::Downgraded> RecordingSink::downgrades() const {
  const std::lock_guard lock(mutex_);
  return downgrades_;
}

}  // namespace hone::runtime
