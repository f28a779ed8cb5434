// The tuner's side of isolation: a Racer that lets a worker process do the work and survives its death. Who was running
// when the worker died or fell silent is recorded as crashed; a new worker goes on with the others.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "autotune/isolate/child.h"
#include "autotune/measure/clock.h"
#include "autotune/measure/matmul_racer.h"
#include "kernels/matmul/problem.h"

namespace hone::autotune {

// The worker of a whole command: warm from one problem to the next. Not thread safe; start it from a thread that stays,
// as the worker dies with the thread that started it.
class Isolation {
 public:
  // `note` is told in one line when candidates run in this process after all, because no worker can be had.
  Isolation(WorkerCommand command, std::function<void(const std::string&)> note);

  // The worker that is running, or a new one; nullptr when there is none to be had: do without from now on.
  Child* child();
  // Changes whenever what was set up in the worker is gone: it is another one, or another problem's.
  int generation() const { return generation_; }
  int renew() { return ++generation_; }
  // Ends the worker and says how it ended. When no candidate can be blamed (`innocent`) it is the worker that is at
  // fault, and the third such end in a row is the last.
  std::string end(bool innocent);
  // It has been through a whole round: whatever happened before, workers work.
  void worked() { ends_ = 0; }
  void give_up(const std::string& why);

 private:
  Status start();

  WorkerCommand command_;
  std::function<void(const std::string&)> note_;
  std::unique_ptr<Child> child_;
  int generation_ = 0;
  int ends_ = 0;
  bool given_up_ = false;
};

// How long a candidate may take for one step (compiling, a check, a sample).
//   Nothing is known yet: half the budget, and 5 s at least, as the first compilation warms the compiler up.
//   Afterwards, from what preparing the first candidate (the default plan) took: 20 times that long, but not more than
//   an eighth of the budget, so that a hang does not eat the tune; though never under 8 times, as legal candidates are
//   that slow (one thread instead of many, no packing), nor under 2 s (1 s when the budget is below 8 s), since a busy
//   machine may pause a process for as long as that.
double step_limit(double budget_seconds, double first_prepare_seconds);

// `isolation` null: a MatmulRacer in this process. Everything passed by reference must outlive the racer.
// Errors: those of MatmulRacer::create.
Result<std::unique_ptr<Racer>> make_racer(Isolation* isolation, const matmul::MatmulProblem& problem,
                                          const std::vector<Candidate>& candidates, Clock& clock,
                                          const RacerOptions& options, double budget_seconds);

}  // namespace hone::autotune
