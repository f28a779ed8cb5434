// Tuning one problem: noise, search, confirmation, decision. One entry; no knowledge of a command line.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "autotune/isolate/isolated_racer.h"
#include "autotune/measure/kernel_racer.h"
#include "autotune/measure/peak.h"
#include "autotune/space/space.h"
#include "db/store.h"
#include "engine/base/machine.h"

namespace hone::autotune {

struct TunedPlan {
  std::string program, codegen;
  int threads = 1;
  std::string numerics = "ordered";  // the class of the program
  double ns = 0, gflops = 0;
};

struct TuneOptions {
  double budget_seconds = 60;
  std::vector<std::string> codegens;  // empty: all of this build that emit machine code (else what there is)
  std::vector<int> threads;           // empty: 1 and all that may be used, and powers of two between
  int max_threads = 0;                // how many "all" is; 0: the usable CPUs
  // How regions run here (measure_regions finds out): what candidates with several threads are measured on, and from
  // how much work on the default plan has them.
  runtime::ScheduleKind schedule = runtime::ScheduleKind::kTbb;
  std::optional<int64_t> min_work;
  std::string numerics;  // classes that may compete, see op::check_numerics; "": the op's default
  CacheMode cache = CacheMode::kCold;
  uint64_t seed = 1;
  bool fresh = false;                  // do not let earlier decisions be the incumbent
  std::optional<TunedPlan> incumbent;  // this one is, whatever the store says
  int64_t panel = 0;                   // > 0: b=packed panels have this width already
  std::string strategy = "halving";
  bool search_all = false;  // the search ends when all candidates are through, whatever the budget
  // Of the session that this is part of, and where an earlier process was with it (Session::resume fills them in).
  int64_t session_id = 0;
  int64_t resume_run = 0;  // 0: begin a run
  double spent_seconds = 0;
  Peak peak;  // measured before; zeros: a quick estimate is measured
};

struct Progress {
  std::string_view problem;
  std::string_view phase;  // "prepare", "noise", "search", "confirm"
  int candidates_left = 0;
  double best_ratio = 1;  // time of the best so far over the incumbent's
  double seconds_left = 0;
};

// A candidate that ended its process, or hung.
struct Crash {
  std::string how;      // "SIGSEGV (invalid memory access) while being timed"
  std::string command;  // repeats it
};

struct TuneReport {
  std::string problem;
  db::Verdict decision = db::Verdict::kKept;
  TunedPlan winner, fallback;  // fallback: the default plan
  double speedup = 1, speedup_lo = 1, speedup_hi = 1;
  double noise_bound = 0;
  int enumerated = 0, measured = 0, rejected_wrong = 0, crashed = 0, refused = 0;
  std::vector<Crash> crashes;  // of this process; `crashed` counts those of the whole run
  int rounds = 0;              // search and confirmation
  double seconds = 0;
  std::string order = "analytical";  // whose order of measuring: or "learned"
  int64_t run_id = 0;
  // Who met the incumbent in the confirmation rounds, and the incumbent's time over its, whatever was decided.
  TunedPlan challenger;
  double gain = 1, gain_lo = 1, gain_hi = 1;
  bool decided = false;      // a decision was stored; false when interrupted before there was one
  bool interrupted = false;  // the stop token was set
  std::string not_stored;    // why samples or the decision are not in the store ("" when all are)
};

// What the whole tuning needs to know of where it runs.
struct TuneContext {
  const Machine& machine;
  db::Store& store;
  std::function<void(const Progress&)> on_progress;  // may be empty; called often, must be quick
  const std::atomic<bool>* stop = nullptr;
  Isolation* isolation = nullptr;  // candidates run in its worker; null: in this process, and one that crashes ends it
};

// Measures for about options.budget_seconds. Samples are in the store after every round, the decision at the end.
// Errors: invalid_argument (the problem, or options that name nothing), unsupported (no ISA of this CPU), and what the
// store returns, except that a store which cannot be written does not stop the tuning: decided is then false.
Result<TuneReport> tune(const op::Problem& problem, const TuneOptions& options, const TuneContext& context);

// Adds one outcome to the counts of a report.
void count_outcome(db::Outcome outcome, TuneReport* report);

// The options as enumerate() wants them. Error: not_found naming a code generator this build does not have.
Result<Target> tune_target(const Machine& machine, const TuneOptions& options);

}  // namespace hone::autotune
