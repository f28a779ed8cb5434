// The Racer of real kernels of any op in this process: compiles, gates, warms up and times candidates under the
// Schedule that the runtime uses.
#pragma once

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "autotune/measure/clock.h"
#include "autotune/measure/peak.h"
#include "autotune/measure/workload.h"
#include "autotune/search/racer.h"
#include "autotune/space/space.h"
#include "engine/base/perf_counters.h"
#include "engine/runtime/schedule.h"
#include "jit/launch.h"

namespace hone::autotune {

enum class CacheMode { kWarm, kCold };

// What a candidate is going through: whoever watches from another process must know whom to blame, and for what.
enum class Stage : uint8_t { kIdle, kCompile, kGuardedCheck, kCheck, kTime };

struct RacerOptions {
  CacheMode cache = CacheMode::kCold;
  uint64_t seed = 1;
  Peak peak;                                                     // 0: not known, nothing is refused for being too fast
  int cpus = 1;                                                  // usable
  runtime::ScheduleKind schedule = runtime::ScheduleKind::kTbb;  // of candidates with several threads
  // Where weights are left for the next racer (Operands::create); null: they are this racer's own.
  std::shared_ptr<Weights>* weights = nullptr;
  // Called at the start of every stage, also within a round: must take nanoseconds. May be empty.
  std::function<void(int candidate, Stage stage)> on_stage;
};

class KernelRacer final : public Racer {
 public:
  // `candidates` and `clock` must outlive the racer. Candidates may be added meanwhile, none may change.
  static Result<std::unique_ptr<KernelRacer>> create(const op::Problem& problem,
                                                     const std::vector<Candidate>& candidates, Clock& clock,
                                                     const RacerOptions& options);

  Prepared prepare(int candidate) override;
  std::vector<Timing> round(std::span<const int> arms) override;
  void release(int candidate) override;
  // What the hardware counts in one call of a candidate that is prepared, with the caches as for a sample. `counters`
  // are of the calling thread, so this is for candidates with one thread.
  Result<CounterReading> count(int candidate, PerfCounters& counters);

 private:
  struct Ready {
    Compiled compiled;
    int64_t repeat = 1;  // calls per sample
  };

  KernelRacer(const op::Problem& problem, const std::vector<Candidate>& candidates, Clock& clock,
              const RacerOptions& options, std::unique_ptr<Workload> workload)
      : flops_(op::flops(problem)),
        problem_(problem),
        candidates_(candidates),
        clock_(clock),
        options_(options),
        workload_(std::move(workload)) {}

  void stage(int candidate, Stage stage) const {
    if (options_.on_stage) options_.on_stage(candidate, stage);
  }
  Result<runtime::Schedule*> schedule(int threads);
  Status compile(const Candidate& candidate, Compiled& compiled);
  // `refuted` is set by the check whose status this is.
  Status judged(Status checked, const bool& refuted);
  Result<int64_t> sample(int candidate);
  Result<int64_t> time_once(const Compiled& candidate);
  Status plausible(double ns, int threads, std::string_view numerics) const;

  const double flops_;
  const op::Problem problem_;
  const std::vector<Candidate>& candidates_;
  Clock& clock_;
  RacerOptions options_;
  std::unique_ptr<Workload> workload_;
  std::unordered_map<int, std::unique_ptr<runtime::Schedule>> schedules_;
  std::unordered_map<int, Ready> ready_;
  jit::WorkspacePool workspaces_;
};

}  // namespace hone::autotune
