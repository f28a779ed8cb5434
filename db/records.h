// The records of the database, as they are written and as they are read back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hone::db {

struct MachineLabel {
  std::string key;    // compatibility key: what decides legality
  std::string label;  // JSON description (model, caches, ...): preference only
};

struct BuildLabel {
  std::string engine;    // "hone 0.1.0"
  std::string codegens;  // "asmjit=1.10+3;llvm=19.1.7+2"
};

// Identity of what was measured or chosen.
struct Candidate {
  std::string program;  // canonical TransformProgram text
  std::string codegen;  // "asmjit"
  std::string codegen_version;
  int threads = 1;
  std::string numerics = "ordered";
  bool operator==(const Candidate&) const = default;
};

struct ProblemKey {
  std::string text;    // canonical, with m: "matmul:f32:m=4,n=4096,k=4096,b=packed"
  std::string family;  // the text without m; plans of one family are near shapes of each other
  int64_t m = 0;
  bool operator==(const ProblemKey&) const = default;
};

// Cache mode of a run whose samples were taken while a whole ran that the problem is part of: a model.
inline constexpr std::string_view kInWhole = "whole";

// What such a run has as settings.
struct Whole {
  std::string why;  // "in the whole of m.gguf (pp512) the default plan is faster by 5.2% [3.1%, 7.0%]"
  int threads = 0;  // that the whole ran with; 0: not known
};
std::string whole_settings(const Whole& whole);
// Nothing but the defaults of what the text does not have.
Whole read_whole_settings(const std::string& settings);

// One tuning of one problem.
struct RunInfo {
  int64_t seed = 0;
  std::string cache_mode;   // "warm", "cold", or kInWhole
  double noise_bound = 0;   // A/A bound as a ratio minus 1 (0.012 = 1.2%)
  std::string settings;     // JSON of everything else that shaped the run
  int64_t session_id = 0;   // 0: of no session
  ProblemKey problem = {};  // text "" where it is not known (an old run that touched several)
};

// Which part of the protocol a sample belongs to. Rounds are counted per phase.
enum class Phase { kSearch, kConfirm, kNoise };  // stored as 0, 1, 2: never renumber
std::string_view phase_name(Phase p);

// (phase, round, order) is one slot in which one kernel ran: the same slot twice for a candidate is refused.
struct Sample {
  int64_t round = 0;
  int order = 0;   // position within the round
  int64_t ns = 0;  // > 0; 0 is refused at insert (case d4)
  Phase phase = Phase::kSearch;
};

// What one candidate gave in a round.
struct SampleGroup {
  Candidate candidate;
  std::vector<Sample> samples;
};

enum class Outcome { kMeasured, kWrong, kCrashed, kRefused };  // stored by name
std::string_view outcome_name(Outcome o);

enum class Verdict { kNew, kKept, kTie };
std::string_view verdict_name(Verdict v);

struct Decision {
  ProblemKey problem;
  Candidate winner;
  Candidate fallback;  // the default plan it was compared with
  Verdict verdict = Verdict::kNew;
  double ns = 0;  // median of confirmation rounds
  double default_ns = 0;
  // Paired estimate and its 95% interval, lo <= speedup <= hi. verify() wants default_ns / ns within the interval
  // widened by half (a ratio of medians is not a median of ratios).
  double speedup = 1;
  double speedup_lo = 1, speedup_hi = 1;
  double noise_bound = 0;
  int64_t decided_at = 0;  // unix seconds; 0: now
};

// A decision as read back, with where it was measured.
struct StoredDecision {
  int64_t id = 0;
  int64_t run_id = 0;
  MachineLabel machine;
  BuildLabel build;
  Decision decision;
  std::optional<Whole> whole = {};  // of a decision that was made in one
};

struct StoredRun {
  int64_t id = 0;
  int64_t started_at = 0;  // unix seconds
  MachineLabel machine;
  BuildLabel build;
  RunInfo info;
  std::string uid;           // the same in every database that this run was copied to
  double spent_seconds = 0;  // of its budget, as of the last round
  bool decided = false;      // has a decision
};

// What claim_session gave: the list of problems of one command, taken up again or begun.
struct SessionClaim {
  int64_t id = 0;
  bool resumed = false;
  int64_t started_at = 0;  // unix seconds; of the first start
};

struct StoredOutcome {
  std::string problem;
  Candidate candidate;
  Outcome outcome = Outcome::kWrong;
  std::string detail;
  std::string command;
  int64_t noted_at = 0;  // unix seconds
};

// A learned order of candidates, for the machines that share a compatibility key.
struct Ranker {
  int64_t id = 0;  // set when read
  std::string machine_key;
  std::string features;               // name and version of the features the model takes; another one cannot use it
  int64_t trained_at = 0;             // unix seconds; 0: now
  int64_t problems = 0, samples = 0;  // what it was trained on
  double correlation = 0;             // rank correlation on held-out problems
  double baseline_correlation = 0;    // the analytical model's on the same
  std::string model;                  // bytes; not empty
};

// What opening and closing a region costs under one kind of Schedule, the work in it taken off.
struct ForkJoin {
  std::string schedule;                             // "tbb"
  int64_t median_ns = 0, p99_ns = 0;                // region after region
  int64_t paused_median_ns = 0, paused_p99_ns = 0;  // after the caller was busy with something else
  bool operator==(const ForkJoin&) const = default;
};

// How regions of `threads` threads are run on a machine, and from how much work on one pays.
struct ScheduleChoice {
  MachineLabel machine;
  BuildLabel build;
  int threads = 0;
  std::string schedule;              // of the kinds measured; a name, as db knows none
  int64_t min_work = 0;              // from which a matmul is faster with a region (matmul::region_work); 0: not found
  std::vector<ForkJoin> fork_joins;  // of each kind, ordered by its name
  int64_t measured_at = 0;           // unix seconds; 0: now
};

// A stretch of machine code, counted by classes of instructions.
struct CodePart {
  int64_t bytes = 0, total = 0, vector = 0, fma = 0, load = 0, store = 0, branch = 0, address = 0, stack = 0,
          spills = 0, reloads = 0;
  bool operator==(const CodePart&) const = default;
};

// What a model of a CPU says of one iteration of a loop.
struct CodeModel {
  std::string cpu;
  double block_rthroughput = 0, cycles = 0, ipc = 0, uops = 0;
  std::string bottleneck;
  bool operator==(const CodeModel&) const = default;
};

// What one code generator made of a program, how fast that was, and what it was compared with.
struct CodeRecord {
  MachineLabel machine;
  BuildLabel build;
  ProblemKey problem;
  Candidate candidate;
  std::string cache_mode;               // "warm", "cold"
  std::string bits;                     // the results' beside those of the other generators: "equal", "differ", "alone"
  double compile_ns = 0;                // 0: not timed
  std::optional<CodePart> whole, loop;  // all of it and its inner loop, where there is one
  int64_t spilling_loops = 0;           // innermost ones
  std::vector<CodeModel> models;        // of the loop, ordered by CPU
  std::vector<int64_t> rounds_ns;       // times of a call, in the order of the rounds
  double ns = 0;                        // their median; 0: not timed
  double ratio = 0, ratio_lo = 0, ratio_hi = 0;  // to the native code within rounds, with its interval; 0: none
  int64_t measured_at = 0;                       // unix seconds; 0: now
};

}  // namespace hone::db
