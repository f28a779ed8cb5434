// The database of measurements and decisions. It stores texts and numbers; it knows no kernels.
//
// A *problem* is a pasteable string, a *program* the text of a TransformProgram, a *machine* is known by its
// compatibility key and its label, a *build* by the engine version and the versions of its code generators. Every
// sample is stored; a decision says which candidate a run chose for a problem and why.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/status.h"

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
};

struct RunInfo {
  int64_t seed = 0;
  std::string cache_mode;  // "warm", "cold"
  double noise_bound = 0;  // A/A bound as a ratio minus 1 (0.012 = 1.2%)
  std::string settings;    // JSON of everything else that shaped the run
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
};

struct StoredRun {
  int64_t id = 0;
  int64_t started_at = 0;  // unix seconds
  MachineLabel machine;
  BuildLabel build;
  RunInfo info;
};

struct StoredOutcome {
  std::string problem;
  Candidate candidate;
  Outcome outcome = Outcome::kWrong;
  std::string detail;
  std::string command;
  int64_t noted_at = 0;  // unix seconds
};

struct TableCount {
  std::string table;
  int64_t rows = 0;
};

enum class OpenMode { kReadWrite, kReadOnly, kInMemory };

struct OpenOptions {
  std::string path;  // empty: default_path()
  OpenMode mode = OpenMode::kReadWrite;
};

// Methods may be called from several threads. A Store does not survive fork(): the child opens its own.
class Store {
 public:
  virtual ~Store() = default;

  // ---- state ----
  virtual std::string path() const = 0;     // ":memory:" when in memory
  virtual OpenMode mode() const = 0;        // what it is, which may be less than what was asked
  virtual std::string message() const = 0;  // why it is less, or what was quarantined ("" when all is as asked)
  virtual int schema_version() const = 0;   // of the file
  virtual Result<std::vector<TableCount>> counts() = 0;
  // Integrity of file and content; one line per fault, empty when sound.
  virtual Result<std::vector<std::string>> verify() = 0;

  // ---- writing (failed_precondition when read-only; resource_exhausted when the disk is full, and nothing is changed)
  // ----
  virtual Result<int64_t> begin_run(const MachineLabel&, const BuildLabel&, const RunInfo&) = 0;
  // Updates the noise bound once it is known.
  virtual Status set_noise_bound(int64_t run_id, double noise_bound) = 0;
  // Samples of one candidate, of one round or more; all or none. When this returns they survive a kill of the process.
  // A sample with ns <= 0 refuses the whole call (invalid_argument).
  virtual Status add_samples(int64_t run_id, const ProblemKey&, const Candidate&, const std::vector<Sample>&) = 0;
  // A candidate that was not timed, and why (wrong, crashed, refused), with a command that repeats it.
  virtual Status add_outcome(int64_t run_id, const ProblemKey&, const Candidate&, Outcome, const std::string& detail,
                             const std::string& command) = 0;
  virtual Result<int64_t> add_decision(int64_t run_id, const Decision&) = 0;

  // ---- reading: every decision, newest first, so that a caller who must skip one (case d6) has the next ----
  virtual Result<std::vector<StoredDecision>> decisions_for_problem(const std::string& problem_text) = 0;
  // Ordered by m, then newest first.
  virtual Result<std::vector<StoredDecision>> decisions_for_family(const std::string& family) = 0;
  // Ordered by family, m, problem, then newest first.
  virtual Result<std::vector<StoredDecision>> all_decisions() = 0;
  // Candidates in the order in which they entered the database; samples by phase, round, order.
  virtual Result<std::vector<std::pair<Candidate, std::vector<Sample>>>> samples(int64_t run_id,
                                                                                 const std::string& problem_text) = 0;
  virtual Result<std::vector<StoredOutcome>> outcomes(int64_t run_id) = 0;  // oldest first
  virtual Result<std::vector<StoredRun>> runs() = 0;                        // newest first
};

// $HONE_DB, else $XDG_DATA_HOME/hone/hone.db, else $HOME/.local/share/hone/hone.db. A relative XDG_DATA_HOME is
// ignored, as the XDG specification demands. Error: not_found when none is set.
Result<std::string> default_path();

// Opens or creates, with parent folders. Degrades instead of failing, and message() says so: a read-only folder or file
// opens read-only (or in memory when there is no file), a newer schema opens read-only, a corrupt file is renamed to
// NAME.corrupt-<unix time> and a new one made, no HOME means in memory. With kReadOnly nothing on disk is changed: a
// missing, empty or corrupt file gives an empty store in memory. The path ":memory:" means in memory. Error
// (invalid_argument) for a path that cannot be our database and is not ours to move: a folder or device, another
// application's SQLite file, other content under a name that does not end in .db or .sqlite.
Result<std::unique_ptr<Store>> open(const OpenOptions& options);

}  // namespace hone::db
