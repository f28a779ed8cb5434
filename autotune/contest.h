// A race among named choices that are no kernels: whole plans under different policies. The protocol, the records and
// the decision are those of a kernel's tune; what is raced is behind a Racer and known here by its name in the store.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "autotune/measure/clock.h"
#include "autotune/recorder.h"
#include "autotune/search/protocol.h"

namespace hone::autotune {

struct ContestOptions {
  db::ProblemKey problem;
  std::vector<db::Candidate> candidates;  // 0 is the default; the rest most promising first
  int incumbent = 0;
  double budget_seconds = 60;
  uint64_t seed = 1;
  std::string cache_mode = "warm";
  std::string settings = "{}";              // JSON of what else shaped the contest
  std::function<std::string(int)> command;  // repeats one candidate
  const std::atomic<bool>* stop = nullptr;
  // May be empty: phase, candidates left, the leader's time over the incumbent's.
  std::function<void(std::string_view phase, int left, double ratio)> on_progress;
};

struct ContestOutcome {
  int candidate = 0;
  db::Outcome outcome = db::Outcome::kWrong;
  std::string detail;
};

struct ContestReport {
  db::Verdict verdict = db::Verdict::kKept;
  int winner = 0, incumbent = 0, fallback = 0, challenger = 0;
  double ns = 0, default_ns = 0;  // medians of the confirmation rounds
  Interval speedup{1, 1, 1};      // default over winner
  Interval gain{1, 1, 1};         // incumbent over challenger, whoever won
  double noise_bound = 0;
  int measured = 0, rounds = 0;
  std::vector<ContestOutcome> outcomes;  // who was not timed, or not to the end
  int64_t run_id = 0;
  bool decided = false;  // a decision was stored
  bool interrupted = false;
  std::string not_stored;  // why not all is in the store ("" when it is)
};

// Samples are in the store after every round, the decision at the end. Errors: those of run_protocol.
Result<ContestReport> contest(Racer& racer, Clock& clock, db::Store& store, const Machine& machine,
                              const ContestOptions& options);

}  // namespace hone::autotune
