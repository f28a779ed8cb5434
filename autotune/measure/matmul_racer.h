// The Racer of real matmul kernels in this process: compiles, gates, warms up and times candidates under the Schedule
// that the runtime uses.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "autotune/measure/clock.h"
#include "autotune/measure/gate.h"
#include "autotune/measure/operands.h"
#include "autotune/measure/peak.h"
#include "autotune/search/racer.h"
#include "autotune/space/space.h"
#include "engine/base/guarded_buffer.h"
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

class MatmulRacer final : public Racer {
 public:
  // `candidates` and `clock` must outlive the racer. Candidates may be added meanwhile, none may change.
  static Result<std::unique_ptr<MatmulRacer>> create(const matmul::MatmulProblem& problem,
                                                     const std::vector<Candidate>& candidates, Clock& clock,
                                                     const RacerOptions& options);

  Prepared prepare(int candidate) override;
  std::vector<Timing> round(std::span<const int> arms) override;
  void release(int candidate) override;

 private:
  struct Ready {
    jit::Executable executable;
    runtime::Schedule* schedule = nullptr;
    int64_t width = 0;   // of packed panels
    int64_t repeat = 1;  // calls per sample
  };

  MatmulRacer(const matmul::MatmulProblem& problem, const std::vector<Candidate>& candidates, Clock& clock,
              const RacerOptions& options, Operands operands)
      : problem_(problem), candidates_(candidates), clock_(clock), options_(options), operands_(std::move(operands)) {}

  void stage(int candidate, Stage stage) const {
    if (options_.on_stage) options_.on_stage(candidate, stage);
  }
  Result<runtime::Schedule*> schedule(int threads);
  Status compile(const Candidate& candidate, Ready& ready);
  // The two steps of gate.h.
  Result<const float*> guarded_b(int64_t width);
  Status check_guarded(const Candidate& candidate, Ready& ready);
  Status check_real(Ready& ready);
  Status judge(const matmul::MatmulProblem& shape, std::span<const float> c);
  Status call(Ready& ready, runtime::Schedule& schedule, const matmul::MatmulProblem& shape,
              const matmul::MatmulOperands& operands);
  Result<int64_t> sample(int candidate);
  Result<int64_t> time_once(Ready& ready);
  Status plausible(double ns, int threads) const;

  matmul::MatmulProblem problem_;
  std::string node_ = matmul::to_string(problem_);  // what a trace calls it
  const std::vector<Candidate>& candidates_;
  Clock& clock_;
  RacerOptions options_;
  Operands operands_;
  std::unique_ptr<OutputCheck> check_;
  std::map<int64_t, GuardedBuffer> guarded_b_;  // by panel width
  std::unordered_map<int, std::unique_ptr<runtime::Schedule>> schedules_;
  std::unordered_map<int, Ready> ready_;
  jit::WorkspacePool workspaces_;
};

}  // namespace hone::autotune
