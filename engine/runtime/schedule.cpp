// See schedule.h. What holds for every kind of Schedule is here, once: cuts, what runs inline, failures, events.
#include "engine/runtime/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "engine/base/cpu_quota.h"
#include "engine/base/env.h"
#include "engine/base/printable.h"
#include "engine/runtime/pools_internal.h"
#include "engine/runtime/region_internal.h"
#include "engine/runtime/trace.h"

namespace hone::runtime {
namespace {

constexpr std::array<std::string_view, 3> kKindNames = {"sequential", "tbb", "dedicated"};

class Sequential final : public Schedule {
 public:
  explicit Sequential(const ScheduleRequest& requested) : Schedule("sequential", requested, {}) {}

 protected:
  bool run(Region&) override { return false; }  // of one thread: there is no region
};

// What `request` becomes here, and why it is not itself.
struct Choice {
  ScheduleRequest effective;
  std::string reason;
};

Choice choose(const ScheduleRequest& request) {
  if (request.threads == 1) return {{}, ""};
  Choice choice{request, ""};
  if (request.kind == ScheduleKind::kDedicated) {
    const UsableCpus usable = usable_cpus(affinity_cpus(), read_cpu_quota(""));
    if (usable.count >= request.threads) return choice;
    choice.effective.kind = ScheduleKind::kTbb;
    choice.reason = fmt::format("this process may use {} CPUs ({})", usable.count, usable.source);
  }
  if (!tbb_works_in_this_process()) {
    choice.effective = {};
    choice.reason +=
        fmt::format("{}the threads of TBB did not come along through fork()", choice.reason.empty() ? "" : "; ");
  }
  return choice;
}

}  // namespace

std::string_view schedule_kind_name(ScheduleKind kind) { return kKindNames.at(static_cast<size_t>(kind)); }

Result<ScheduleKind> parse_schedule_kind(std::string_view name) {
  for (size_t i = 0; i < kKindNames.size(); ++i)
    if (kKindNames[i] == name) return static_cast<ScheduleKind>(i);
  return invalid_argument(
      fmt::format("unknown schedule '{}'; there are {}", printable(name), fmt::join(kKindNames, ", ")));
}

std::string to_string(const ScheduleRequest& request) {
  const std::string_view kind = schedule_kind_name(request.kind);
  return request.kind == ScheduleKind::kSequential ? std::string(kind) : fmt::format("{}({})", kind, request.threads);
}

int64_t task_count(int64_t n, int64_t grain, int parallelism) {
  if (n <= 0) return 0;
  int64_t by_grain = std::max<int64_t>(1, n / std::max<int64_t>(1, grain));
  return std::min<int64_t>(std::max(1, parallelism), by_grain);
}

TaskRange task_range(int64_t n, int64_t tasks, int64_t task) {
  // i*n/T without the overflow of i*n: n = q*T + r gives i*q + i*r/T, and i*r < T*T is small.
  int64_t q = n / tasks, r = n % tasks;
  auto cut = [&](int64_t i) { return i * q + i * r / tasks; };
  return {.begin = cut(task), .end = cut(task + 1)};
}

Result<std::unique_ptr<Schedule>> make_schedule(const ScheduleRequest& request) {
  if (request.threads < 1 || request.threads > kMaxThreads)
    return invalid_argument(fmt::format("threads must be from 1 to {}, got {}", kMaxThreads, request.threads));
  if (request.kind == ScheduleKind::kSequential && request.threads != 1)
    return invalid_argument(fmt::format("a sequential schedule has 1 thread, not {}", request.threads));
  const Choice choice = choose(request);
  if (!choice.reason.empty() && tracing())
    emit(ScheduleDowngraded{to_string(request), to_string(choice.effective), choice.reason});
  switch (choice.effective.kind) {
    case ScheduleKind::kSequential:
      return std::unique_ptr<Schedule>(std::make_unique<Sequential>(request));
    case ScheduleKind::kTbb:
      return make_tbb(request, choice.effective);
    case ScheduleKind::kDedicated:
      return make_dedicated(request, choice.effective);
  }
  return internal_error("a kind of schedule that does not exist");
}

ScheduleRequest effective_schedule(const ScheduleRequest& request) { return choose(request).effective; }

Schedule::Schedule(std::string name, const ScheduleRequest& requested, const ScheduleRequest& effective)
    : name_(std::move(name)), requested_(requested), effective_(effective), process_(process_number()) {}

bool Schedule::in_its_process() const { return process_number() == process_; }

void Schedule::for_range(RegionTag tag, int64_t n, int64_t grain, RangeBody body) {
  if (closed_.load(std::memory_order_relaxed)) throw_closed();
  const int64_t tasks = task_count(n, grain, parallelism());
  if (tasks == 0) return;
  const CurrentNode& node = current_node();
  if (tasks == 1 || in_region() || !node.may_split) return body.fn(body.context, 0, n);
  if (!in_its_process()) {
    // Once: the schedule stays what it is now.
    const bool said = said_forked_.exchange(true, std::memory_order_relaxed);
    return run_inline(n, body, said ? "" : "its threads did not come along through fork()");
  }
  const bool traced = tracing();
  const int64_t begin_ns = traced ? steady_now_ns() : 0;
  Region region(n, tasks, body);
  if (!run(region)) return run_inline(n, body, "its threads work for another caller");
  if (traced)
    emit(ScheduleRegion{.op = tag.op,
                        .node = node.name.empty() ? tag.node : node.name,
                        .schedule = name_,
                        .elements = n,
                        .tasks = tasks,
                        .grain = grain,
                        .begin_ns = begin_ns,
                        .duration_ns = steady_now_ns() - begin_ns,
                        .failed = region.failures() > 0,
                        .failures = region.failures()});
  region.rethrow();
}

void Schedule::run_inline(int64_t n, RangeBody body, std::string_view reason) {
  if (!reason.empty() && tracing()) emit(ScheduleDowngraded{name_, "sequential", reason});
  body.fn(body.context, 0, n);
}

void Schedule::throw_closed() const { throw std::logic_error(name_ + " is closed; make a new schedule"); }

void Schedule::close() {
  if (in_region()) throw std::logic_error(name_ + " cannot be closed from inside a region");
  closed_.store(true, std::memory_order_relaxed);
  end_threads();
}

}  // namespace hone::runtime
