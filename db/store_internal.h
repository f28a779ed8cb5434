// The one Store: SQLite, on a file or in memory. Apart from open.cpp, which decides on what a store stands.
#pragma once

#include <fmt/format.h>
#include <sys/types.h>

#include <memory>
#include <mutex>
#include <span>
#include <string>
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
  Status add_samples(int64_t run_id, const ProblemKey& problem, const Candidate& candidate,
                     const std::vector<Sample>& samples) override;
  Status add_outcome(int64_t run_id, const ProblemKey& problem, const Candidate& candidate, Outcome outcome,
                     const std::string& detail, const std::string& command) override;
  Result<int64_t> add_decision(int64_t run_id, const Decision& decision) override;

  Result<std::vector<StoredDecision>> decisions_for_problem(const std::string& problem_text) override;
  Result<std::vector<StoredDecision>> decisions_for_family(const std::string& family) override;
  Result<std::vector<StoredDecision>> all_decisions() override;
  Result<std::vector<std::pair<Candidate, std::vector<Sample>>>> samples(int64_t run_id,
                                                                         const std::string& problem_text) override;
  Result<std::vector<StoredOutcome>> outcomes(int64_t run_id) override;
  Result<std::vector<StoredRun>> runs() override;

 private:
  // Runs body (returning a Result) under the mutex, again while the file is busy, with every exception made a Status.
  template <typename Body>
  auto read(Body body) -> decltype(body());
  // The same inside a transaction that is committed when body succeeds and undone otherwise.
  template <typename Body>
  auto write(Body body) -> decltype(body());

  Status usable() const;
  Status to_status(const SQLite::Exception& e) const;
  Status require_run(int64_t run_id);
  Result<int64_t> problem_id(const ProblemKey& problem);
  int64_t candidate_id(const Candidate& candidate);
  Result<std::vector<StoredDecision>> read_decisions(const char* sql, const std::string* key);

  std::mutex mutex_;
  std::unique_ptr<Connection> connection_;
  const StoreState state_;
  const pid_t owner_;
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
    SQLite::Transaction transaction(connection_->database(), SQLite::TransactionBehavior::IMMEDIATE);
    auto result = body();
    const bool ok = result.ok();
    if (ok) transaction.commit();
    return result;
  });
}

// open() with another list of migrations, so that the steps to later versions can be tested today.
Result<std::unique_ptr<Store>> open_with(const OpenOptions& options, std::span<const Migration> steps);

std::vector<std::string> find_faults(Connection& connection);  // verify.cpp

}  // namespace hone::db
