// The tuner's side of isolation: a Racer that lets a worker process do the work and survives its death. Who was running
// when the worker died or fell silent is recorded as crashed; a new worker goes on with the others.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "autotune/isolate/child.h"
#include "autotune/measure/clock.h"
#include "autotune/measure/kernel_racer.h"
#include "kernels/op/op.h"

namespace hone::autotune {

// The worker of a whole command: warm from one problem to the next. Not thread safe; start it from a thread that stays,
// as the worker dies with the thread that started it.
class Isolation {
 public:
  // `note` is told in one line when candidates run in this process after all, because no worker can be had.
  Isolation(WorkerCommand command, std::function<void(const std::string&)> note);

  // The worker that is running, or a new one; nullptr when there is none to be had: do without from now on. And nullptr
  // when `stop` (may be null) was set before it was up.
  Child* child(const std::atomic<bool>* stop = nullptr);
  // Changes whenever what was set up in the worker is gone: it is another one, or another problem's.
  int generation() const { return generation_; }
  // A problem has been set up in the worker: the new generation.
  int has_set_up();
  // Ends the worker, which did not get as far as that for this reason. The third in a row is the last. No candidate
  // has run in these: whatever a candidate does to its worker never brings it into this process.
  void failed_to_set_up(std::string_view why);
  // Ends the worker and says how it ended.
  std::string end();
  // The worker gives up its CPU until it is asked again.
  void rest() {
    if (child_ != nullptr) child_->rest();
  }

 private:
  Status start(const std::atomic<bool>* stop);
  void give_up(const std::string& why);

  WorkerCommand command_;
  std::function<void(const std::string&)> note_;
  std::unique_ptr<Child> child_;
  int generation_ = 0;
  int failed_ = 0;  // set-ups in a row
  bool given_up_ = false;
};

// How long a candidate may take for one step (compiling, a check, a sample).
//   Nothing is known yet: half the budget; 5 s at least, as the first compilation warms the compiler up, and at most a
//   minute, which no legal default plan takes for a step.
//   Afterwards, from what preparing the first candidate (the default plan) took: 20 times that long, but not more than
//   an eighth of the budget, so that a hang does not eat the tune; though never under 8 times, as legal candidates are
//   that slow (one thread instead of many, no packing), nor under 2 s (1 s when the budget is below 8 s), since a busy
//   machine may pause a process for as long as that.
double step_limit(double budget_seconds, double first_prepare_seconds);

// Whether to keep a CPU busy while waiting for an answer (Child::receive): where the last such question was answered
// soon, and a CPU is left that none of those who are timed uses. `threads`: the most that one of them has, 0 when
// nobody is timed. (Of a round as a whole: waiting differently for one of its arms may show in their times.)
bool worth_watching(int cpus, int threads, int64_t last_answer_ns);

// `isolation` null: a KernelRacer in this process. Everything passed by reference must outlive the racer.
// `stop` (may be null): once it is set, what waits for the worker ends within a quarter of a second, and arms that are
// then not done are refused as "interrupted".
// Errors: those of KernelRacer::create.
Result<std::unique_ptr<Racer>> make_racer(Isolation* isolation, const op::Problem& problem,
                                          const std::vector<Candidate>& candidates, Clock& clock,
                                          const RacerOptions& options, double budget_seconds,
                                          const std::atomic<bool>* stop = nullptr);

}  // namespace hone::autotune
