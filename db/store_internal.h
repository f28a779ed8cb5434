// The one Store: SQLite, on a file or in memory. Apart from open.cpp, which decides on what a store stands.
#pragma once

#include <fmt/format.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "db/schema_internal.h"
#include "db/sqlite_internal.h"
#include "db/store.h"

namespace hone::db {

struct StoreState {
  OpenMode mode = OpenMode::kReadWrite;
  std::string message;
  int schema_version = 0;
  std::string damage;  // of the file, where this store is what could be read of it
};

class SqliteStore final : public Store {
 public:
  SqliteStore(std::unique_ptr<Connection> connection, StoreState state);
  ~SqliteStore() override;

  std::string path() const override;
  OpenMode mode() const override { return state_.mode; }
  std::string message() const override { return state_.message; }
  int schema_version() const override { return state_.schema_version; }
  Result<std::vector<TableCount>> counts() override;
  Result<std::vector<std::string>> verify() override;

  Result<int64_t> begin_run(const MachineLabel& machine, const BuildLabel& build, const RunInfo& info) override;
  Status set_noise_bound(int64_t run_id, double noise_bound) override;
  Status add_round(int64_t run_id, const ProblemKey& problem, const std::vector<SampleGroup>& groups,
                   double spent_seconds) override;
  Status add_outcome(int64_t run_id, const ProblemKey& problem, const Candidate& candidate, Outcome outcome,
                     const std::string& detail, const std::string& command) override;
  Result<int64_t> add_decision(int64_t run_id, const Decision& decision) override;

  Result<SessionClaim> claim_session(const MachineLabel& machine, const BuildLabel& build, const std::string& settings,
                                     bool fresh) override;
  Status close_session(int64_t session_id) override;
  Status release_session(int64_t session_id) override;
  Result<std::vector<StoredRun>> session_runs(int64_t session_id) override;

  Result<int64_t> save_ranker(const Ranker& ranker) override;
  Result<std::optional<Ranker>> newest_ranker(const std::string& machine_key, const std::string& features) override;

  Status save_schedule(const ScheduleChoice& choice) override;
  Result<std::vector<ScheduleChoice>> schedules() override;

  Status save_codes(const std::vector<CodeRecord>& records) override;
  Result<std::vector<CodeRecord>> codes() override;

  Result<std::vector<StoredDecision>> decisions_for_problem(const std::string& problem_text) override;
  Result<std::vector<StoredDecision>> decisions_for_family(const std::string& family) override;
  Result<std::vector<StoredDecision>> all_decisions() override;
  Result<std::vector<StoredDecision>> decisions_of_run(int64_t run_id) override;
  Result<std::vector<std::pair<Candidate, std::vector<Sample>>>> samples(int64_t run_id,
                                                                         const std::string& problem_text) override;
  Result<std::vector<StoredOutcome>> outcomes(int64_t run_id) override;
  Result<std::vector<StoredRun>> runs() override;

  // For the functions of db that work on the whole store (transfer, gc, query).
  Connection& connection() { return *connection_; }
  // Runs body (returning a Result) under the mutex, again while the file is busy, with every exception made a Status.
  template <typename Body>
  auto read(Body body) -> decltype(body());
  // The same inside a transaction that is committed when body succeeds and undone otherwise. The body may read.
  template <typename Body>
  auto write(Body body) -> decltype(body());
  // Row numbers of texts, made when they are new.
  int64_t machine_id(const MachineLabel& machine);
  int64_t build_id(const BuildLabel& build);
  Result<int64_t> problem_id(const ProblemKey& problem);
  int64_t candidate_id(const Candidate& candidate);
  // `verdict` as it is stored: an import may bring one that this version has no name for.
  int64_t insert_decision(int64_t run_id, const Decision& decision, int64_t problem_row, const std::string& verdict);
  void insert_schedule(const ScheduleChoice& choice);  // which is not there yet
  Status insert_code(const CodeRecord& record);        // which is not there yet
  // Of the same machine, build, problem, candidate, cache mode and second; 0: none.
  Result<int64_t> code_row(const CodeRecord& like);
  // Rows were deleted: row numbers that were looked up may be of others.
  void forget_ids() { ids_ = {}; }

 private:
  Status usable() const;
  Status to_status(const SQLite::Exception& e) const;
  Status require_run(int64_t run_id);
  Status require_session(int64_t session_id);
  int64_t find_or_insert(const Candidate& candidate);
  Status insert_samples(int64_t run_id, int64_t problem_row, const ProblemKey& problem, const SampleGroup& group);
  void forget_ids_of_others();
  Status end_session(int64_t session_id, const char* state);
  void touch_session(int64_t run_id);
  template <typename Key>
  Result<std::vector<StoredDecision>> read_decisions(const char* sql, const Key* key);
  Result<std::vector<StoredRun>> read_runs(const char* sql, const int64_t* session_id);

  std::recursive_mutex mutex_;  // a write reads
  std::unique_ptr<Connection> connection_;
  const StoreState state_;
  const pid_t owner_;

  // Row numbers that were looked up. They hold while nobody else writes (gc may delete a row and its number be used
  // again), which data_version tells, and unless the transaction that made them is undone.
  struct Ids {
    std::unordered_map<std::string, int64_t> candidates;
    std::unordered_map<std::string, std::pair<int64_t, ProblemKey>> problems;
    int64_t run = 0;  // one that exists
    int64_t data_version = -1;
  };
  Ids ids_;
  // When the session of a run was last told that this process lives.
  int64_t touched_run_ = 0, touched_at_ = 0;
};

template <typename Body>
auto SqliteStore::read(Body body) -> decltype(body()) {
  HONE_RETURN_IF_ERROR(usable());
  std::lock_guard lock(mutex_);
  try {
    return with_retry(body);
  } catch (const SQLite::Exception& e) {
    return to_status(e);
  } catch (const std::exception& e) {
    return resource_exhausted(fmt::format("{}: {}", path(), e.what()));
  }
}

template <typename Body>
auto SqliteStore::write(Body body) -> decltype(body()) {
  if (state_.mode == OpenMode::kReadOnly) {
    return failed_precondition(
        fmt::format("{} is open for reading only{}{}", path(), state_.message.empty() ? "" : ": ", state_.message));
  }
  return read([&]() -> decltype(body()) {
    // Last in, first out: the numbers are forgotten when the transaction did not commit.
    struct ForgetUnlessKept {
      Ids& ids;
      bool kept = false;
      ~ForgetUnlessKept() {
        if (!kept) ids = {};
      }
    } guard{ids_};
    SQLite::Transaction transaction(connection_->database(), SQLite::TransactionBehavior::IMMEDIATE);
    forget_ids_of_others();
    auto result = body();
    if (result.ok()) {
      transaction.commit();
      guard.kept = true;
    }
    return result;
  });
}

// open() with another list of migrations, so that the steps to later versions can be tested today.
Result<std::unique_ptr<Store>> open_with(const OpenOptions& options, std::span<const Migration> steps);

// The store as what it is. Error: unsupported when it is another kind, which has no rows of its own.
Result<SqliteStore*> as_sqlite(Store& store);

// Of a row of rankers, without its id.
Ranker read_ranker(const Query& q);

// What is beyond an int stays too many: a cut number would be another plan's.
int threads_of(int64_t stored);

// The kinds of one row of schedules.
std::vector<ForkJoin> read_fork_joins(Connection& connection, int64_t schedule);
// Every schedule, oldest first in an order of the content only, handed over as it is read.
Status read_schedules(Connection& connection, const std::function<Status(const ScheduleChoice&)>& sink);

// A code and what belongs to it, by :id.
inline constexpr const char* kEraseCode[] = {
    "DELETE FROM code_parts WHERE code_id = :id", "DELETE FROM code_models WHERE code_id = :id",
    "DELETE FROM code_samples WHERE code_id = :id", "DELETE FROM codes WHERE id = :id"};
inline constexpr const char* kCodeTables[] = {"code_parts", "code_models", "code_samples", "codes"};
// What is left out is not asked for.
struct CodeFilter {
  std::string problem, machine_key;
  int64_t id = 0;
};
// Codes, oldest first in an order of the content only, handed over as they are read.
Status read_codes(Connection& connection, const CodeFilter& filter,
                  const std::function<Status(const CodeRecord&)>& sink);

std::string new_uid();  // 128 random bits, in hex
int64_t unix_now();

// verify.cpp
std::vector<std::string> find_faults(Connection& connection);
int64_t drop_faulty_decisions(Connection& connection);  // those that find_faults() names; how many

}  // namespace hone::db
