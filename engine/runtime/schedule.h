// Schedule: how the independent parts of one op map onto cores at run time (never a change of a result).
//
// Cuts: for (n, grain, P) there are T = 0 tasks if n <= 0, else min(P, max(1, n / grain)); task i covers
// [i*n/T, (i+1)*n/T). No range is empty or inverted, none is shorter than grain unless n is.
#pragma once

#include <atomic>
#include <compare>
#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "engine/base/status.h"

namespace hone::runtime {

enum class ScheduleKind : uint8_t {
  kSequential,  // the caller alone
  kTbb,         // oneTBB's workers, which the whole process shares: steady under load, any number of threads
  kDedicated,   // threads of its own, pinned and spinning for a while: wakes fastest, never more threads than CPUs
};
std::string_view schedule_kind_name(ScheduleKind kind);  // "sequential", "tbb", "dedicated"
// Error: invalid_argument with the names there are.
Result<ScheduleKind> parse_schedule_kind(std::string_view name);

// The caller counts as one of `threads`.
struct ScheduleRequest {
  ScheduleKind kind = ScheduleKind::kSequential;
  int threads = 1;
  auto operator<=>(const ScheduleRequest&) const = default;
};
std::string to_string(const ScheduleRequest& request);  // "sequential", "tbb(12)", "dedicated(4)"

// Names the op and the graph node of a region, for traces. Read during the call only.
struct RegionTag {
  std::string_view op;
  std::string_view node;
};

// body(begin, end) over disjoint half-open ranges. A plain function and a context: opening a region allocates nothing.
//
// A body writes only its own part of the output, opens no region that it needs to be parallel (it would run inline),
// and neither its arithmetic nor the order of it depends on the cuts.
struct RangeBody {
  void (*fn)(void* context, int64_t begin, int64_t end);
  void* context;
};

int64_t task_count(int64_t n, int64_t grain, int parallelism);

// Half-open range of task `task` of `tasks`.
struct TaskRange {
  int64_t begin, end;
};
TaskRange task_range(int64_t n, int64_t tasks, int64_t task);

// What this thread is computing, until the end of the scope: the regions that it opens are traced as `node`, whatever
// their tag says, and are not opened at all (they run inline) where the node may not be split. `node` outlives the
// scope.
class NodeScope {
 public:
  enum class Split : uint8_t { kAllowed, kForbidden };
  explicit NodeScope(std::string_view node, Split split = Split::kAllowed);
  ~NodeScope();
  NodeScope(const NodeScope&) = delete;
  NodeScope& operator=(const NodeScope&) = delete;

 private:
  const std::string_view outer_node_;
  const bool outer_forbidden_;
};

class Region;

// Thread safe: any number of callers at once, but for the destructor.
class Schedule {
 public:
  virtual ~Schedule() = default;
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;

  int parallelism() const { return effective_.threads; }  // 1: sequential
  const std::string& name() const { return name_; }       // of what is effective
  const ScheduleRequest& requested() const { return requested_; }
  const ScheduleRequest& effective() const { return effective_; }

  // Runs body over [0, n) in task_count(n, grain, parallelism()) ranges, the first of them on the caller, and returns
  // when all have ended. One task, or a call from inside a region of any Schedule, runs inline: body(0, n).
  //
  // When bodies throw, ranges that have not started are skipped, and the first exception is rethrown here once those
  // that have started are through. Its type is kept; the number of later ones is added to its message where it has one
  // that can be extended (std::runtime_error, std::logic_error and what derives from them), and is in the trace always.
  // Throws std::logic_error after close().
  void for_range(RegionTag tag, int64_t n, int64_t grain, RangeBody body);
  template <std::invocable<int64_t, int64_t> Body>
  void for_range(RegionTag tag, int64_t n, int64_t grain, Body&& body) {
    using Callable = std::remove_reference_t<Body>;
    for_range(
        tag, n, grain,
        RangeBody{[](void* context, int64_t begin, int64_t end) { (*static_cast<Callable*>(context))(begin, end); },
                  const_cast<std::remove_const_t<Callable>*>(&body)});
  }

  // body(i) for every i of [0, count), in tasks of at least min_per_task.
  template <std::invocable<int64_t> Body>
  void for_each(RegionTag tag, int64_t count, int64_t min_per_task, Body&& body) {
    for_range(tag, count, min_per_task, [&body](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) body(i);
    });
  }

  // Ends its threads, after a region that is running. What is called later is an error, not a hang. Not from inside a
  // region: throws std::logic_error.
  void close();

 protected:
  Schedule(std::string name, const ScheduleRequest& requested, const ScheduleRequest& effective);

  // Runs every task of the region, which has at least two. False: the threads are taken by another caller and nothing
  // was run.
  virtual bool run(Region& region) = 0;
  virtual void end_threads() {}

  [[noreturn]] void throw_closed() const;
  // False in a child of fork(): threads that this Schedule started exist in the parent only.
  bool in_its_process() const;

 private:
  void run_inline(int64_t n, RangeBody body, std::string_view reason);

  const std::string name_;
  const ScheduleRequest requested_, effective_;
  const uint32_t process_;  // see in_its_process()
  std::atomic<bool> closed_{false};
  std::atomic<bool> said_forked_{false};
};

// The one way to a Schedule. One thread of any kind is sequential. What cannot be had is answered with the nearest that
// can, `effective()` differs from `requested()`, and a ScheduleDowngraded event (trace.h) says why: kDedicated with
// more threads than this process may use CPUs (affinity and cgroup quota) becomes kTbb; kTbb in a child of fork() whose
// parent had used TBB becomes sequential. kTbb with more threads than CPUs is what was asked for.
// Errors: invalid_argument unless 1 <= threads <= kMaxThreads, and = 1 for kSequential; resource_exhausted (kTbb).
Result<std::unique_ptr<Schedule>> make_schedule(const ScheduleRequest& request);
// What `request`, if it is no error, would become here and now; nothing is made.
ScheduleRequest effective_schedule(const ScheduleRequest& request);

}  // namespace hone::runtime
