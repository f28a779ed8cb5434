// The database of measurements and decisions. It stores texts and numbers; it knows no kernels.
//
// A *problem* is a pasteable string, a *program* the text of a TransformProgram, a *machine* is known by its
// compatibility key and its label, a *build* by the engine version and the versions of its code generators. Every
// sample is stored; a decision says which candidate a run chose for a problem and why.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "db/records.h"
#include "engine/base/status.h"

namespace hone::db {

struct TableCount {
  std::string table;
  int64_t rows = 0;
};

enum class OpenMode { kReadWrite, kReadOnly, kInMemory };

struct OpenOptions {
  std::string path;  // empty: default_path()
  OpenMode mode = OpenMode::kReadWrite;
  // When opening to write, look for damage in all tables: also in samples, which are most of the file (a second for a
  // few million). What can be read is then saved, as for damage that is always found.
  bool check_all = false;
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
  // All samples of a round and how much of the budget is spent (seconds since the run began, never lowered); all or
  // none. When this returns they survive a kill of the process. A sample with ns <= 0 refuses the whole call
  // (invalid_argument).
  virtual Status add_round(int64_t run_id, const ProblemKey&, const std::vector<SampleGroup>&,
                           double spent_seconds) = 0;
  // A candidate that was not timed, and why (wrong, crashed, refused), with a command that repeats it.
  virtual Status add_outcome(int64_t run_id, const ProblemKey&, const Candidate&, Outcome, const std::string& detail,
                             const std::string& command) = 0;
  virtual Result<int64_t> add_decision(int64_t run_id, const Decision&) = 0;

  // ---- sessions: the problems of one `hone tune` under one set of options, so that a killed one is taken up again
  // ---- Takes over the newest open session of this machine, build and settings whose process is gone, or was released;
  // makes a new one when there is none or `fresh`. Two processes never get the same.
  virtual Result<SessionClaim> claim_session(const MachineLabel&, const BuildLabel&, const std::string& settings,
                                             bool fresh) = 0;
  virtual Status close_session(int64_t session_id) = 0;                         // done: never taken up again
  virtual Status release_session(int64_t session_id) = 0;                       // stays open for whoever claims it next
  virtual Result<std::vector<StoredRun>> session_runs(int64_t session_id) = 0;  // in the order in which they began

  // ---- rankers ----
  virtual Result<int64_t> save_ranker(const Ranker&) = 0;
  virtual Result<std::optional<Ranker>> newest_ranker(const std::string& machine_key, const std::string& features) = 0;

  // ---- schedules ----
  // In place of those of the same machine, engine and threads from this second or later: the past has no such.
  virtual Status save_schedule(const ScheduleChoice&) = 0;
  // Newest first, of all machines.
  virtual Result<std::vector<ScheduleChoice>> schedules() = 0;

  // ---- code ----
  // Of one problem, all generators; all or none. In place of those of the same machine, build, problem, candidate,
  // cache mode and second.
  virtual Status save_codes(const std::vector<CodeRecord>&) = 0;
  // Newest first, those of one second in the order of their generators' names.
  virtual Result<std::vector<CodeRecord>> codes() = 0;

  // ---- reading: every decision, newest first, so that a caller who must skip one (case d6) has the next ----
  virtual Result<std::vector<StoredDecision>> decisions_for_problem(const std::string& problem_text) = 0;
  // Ordered by m, then newest first.
  virtual Result<std::vector<StoredDecision>> decisions_for_family(const std::string& family) = 0;
  // Ordered by family, m, problem, then newest first.
  virtual Result<std::vector<StoredDecision>> all_decisions() = 0;
  // Newest first; a run has one or none.
  virtual Result<std::vector<StoredDecision>> decisions_of_run(int64_t run_id) = 0;
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
// NAME.corrupt-<unix time> and a new one made of what can be read of it, no HOME means in memory. With kReadOnly
// nothing on disk is changed: a missing or empty file gives an empty store in memory, a corrupt one what can be read of
// it. The path ":memory:" means in memory. Error (invalid_argument) for a path that cannot be our database and is not
// ours to move: a folder or device, another application's SQLite file, other content under a name that does not end in
// .db or .sqlite.
Result<std::unique_ptr<Store>> open(const OpenOptions& options);

}  // namespace hone::db
