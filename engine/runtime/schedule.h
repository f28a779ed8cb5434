// Schedule: how the independent parts of one op map onto cores at run time (never a change of a result).
//
// Cuts: for (n, grain, P) there are T = 0 tasks if n <= 0, else min(P, max(1, n / grain)); task i covers
// [i*n/T, (i+1)*n/T). No range is empty or inverted, none is shorter than grain unless n is.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace hone::runtime {

// Names the op and the graph node of a region, for traces.
struct RegionTag {
  std::string_view op;
  std::string_view node;
};

// body(begin, end) over disjoint half-open ranges. A plain function and a context: opening a region allocates nothing.
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

class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual int parallelism() const = 0;   // 1 = sequential
  virtual std::string name() const = 0;  // "sequential", "tbb(2)"
  // Runs body over [0, n) in task_count(n, grain, parallelism()) ranges; one task, or a call from inside a region of
  // any Schedule, runs inline on the caller. The first exception that a body throws is rethrown here, once every
  // started range has ended.
  virtual void for_range(RegionTag tag, int64_t n, int64_t grain, RangeBody body) = 0;
};

std::unique_ptr<Schedule> make_sequential();
// The caller counts as one of `threads`. Error: invalid_argument unless 1 <= threads <= kMaxThreads; more threads than
// usable CPUs is allowed.
inline constexpr int kMaxThreads = 4096;
Result<std::unique_ptr<Schedule>> make_tbb(int threads);
// What the runtime uses for a number of threads: sequential for one, else TBB. Errors as make_tbb.
Result<std::unique_ptr<Schedule>> make_schedule(int threads);

}  // namespace hone::runtime
