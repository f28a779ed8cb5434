// See gc.h. Deleting goes from what refers to what is referred to, in one transaction, and ends with a check that no
// reference is left hanging. SQLite's own checks are off meanwhile: for each deleted candidate they would look through
// all samples.
#include <SQLiteCpp/Backup.h>

#include <filesystem>

#include <fmt/format.h>

#include "db/gc_internal.h"
#include "db/store_internal.h"

namespace hone::db {
namespace {

constexpr int64_t kDay = 86'400;
// A list of problems that nobody took up again for so long will not be.
constexpr int64_t kStaleSession = 30 * kDay;
// A run that holds nothing yet may just have begun.
constexpr int64_t kRunMayBegin = kDay;

struct NoForeignKeyChecks {
  SQLite::Database& database;
  explicit NoForeignKeyChecks(SQLite::Database& d) : database(d) { database.exec("PRAGMA foreign_keys = off"); }
  ~NoForeignKeyChecks() { (void)database.tryExec("PRAGMA foreign_keys = on"); }
};

std::string name_of(const StoredDecision& d) {
  const Candidate& w = d.decision.winner;
  return fmt::format("{} {} {} {} threads '{}' on {}", d.decision.problem.text, w.codegen, w.codegen_version, w.threads,
                     w.program, d.machine.key);
}

class Collection {
 public:
  Collection(SqliteStore& store, const GcOptions& options, GcReport& report)
      : store_(store), c_(store.connection()), options_(options), report_(report) {}

  Status run() {
    HONE_RETURN_IF_ERROR(decisions());
    stale_sessions();
    undecided_runs();
    empty_runs();
    rankers();
    schedules();
    codes();
    unreferenced();
    return nothing_hangs();
  }

 private:
  Status decisions() {
    HONE_ASSIGN_OR_RETURN(const std::vector<StoredDecision> all, store_.all_decisions());
    std::vector<Worth> worth;
    for (const StoredDecision& d : all) {
      worth.push_back(options_.judge(d));
      worth.back().in_use = worth.back().in_use || being_worked_on(d.run_id);
    }
    for (const auto& [i, reason] : choose_decisions(all, worth, options_)) {
      const StoredDecision& d = all[i];
      report_.dropped.push_back({.what = "decision", .id = d.id, .name = name_of(d), .reason = reason});
      erase("decisions", "DELETE FROM decisions WHERE id = :id", d.id);
      drop_evidence(d);
    }
    return {};
  }

  // A session that may be resumed skips the problems that it has decided.
  bool being_worked_on(int64_t run) {
    Query q = c_.query(
        "SELECT 1 FROM runs r JOIN sessions s ON s.id = r.session_id WHERE r.id = :run AND s.state = 'open' AND "
        "s.seen_at >= :stale");
    return q.bind(":run", run).bind(":stale", options_.now - kStaleSession).step();
  }

  // The samples of a run on a problem are there for its decision.
  void drop_evidence(const StoredDecision& d) {
    Query problem = c_.query("SELECT id FROM problems WHERE text = :text");
    if (!problem.bind(":text", d.decision.problem.text).step()) return;
    const int64_t problem_row = problem.integer("id");
    Query left = c_.query("SELECT 1 FROM decisions WHERE run_id = :run AND problem_id = :problem");
    if (left.bind(":run", d.run_id).bind(":problem", problem_row).step()) return;
    Query samples = c_.query("DELETE FROM samples WHERE run_id = :run AND problem_id = :problem");
    samples.bind(":run", d.run_id).bind(":problem", problem_row).run();
    count("samples");
    Query outcomes = c_.query("DELETE FROM outcomes WHERE run_id = :run AND problem_id = :problem");
    outcomes.bind(":run", d.run_id).bind(":problem", problem_row).run();
    count("outcomes");
    emptied_.push_back(d.run_id);
  }

  void stale_sessions() {
    std::vector<std::pair<int64_t, std::string>> stale;
    {
      Query q = c_.query(
          "SELECT id, uid, state, (SELECT count(*) FROM runs WHERE session_id = sessions.id) AS runs FROM sessions "
          "WHERE seen_at < :stale AND (state = 'open' OR NOT EXISTS (SELECT 1 FROM runs WHERE session_id = "
          "sessions.id)) ORDER BY id");
      q.bind(":stale", options_.now - kStaleSession);
      while (q.step()) {
        stale.emplace_back(q.integer("id"), q.text("uid"));
        const bool open = q.text("state") == "open";
        report_.dropped.push_back({.what = "session",
                                   .id = q.integer("id"),
                                   .name = q.text("uid"),
                                   .reason = open ? "not taken up again for 30 days" : "has no run"});
      }
    }
    for (const auto& [id, uid] : stale) {
      c_.query("UPDATE runs SET session_id = NULL WHERE session_id = :id").bind(":id", id).run();
      erase("sessions", "DELETE FROM sessions WHERE id = :id", id);
    }
  }

  // Only when asked for: what an interrupted run measured is of use to learn from.
  void undecided_runs() {
    if (options_.older_than <= 0) return;
    drop_runs(
        "SELECT id, uid FROM runs r WHERE started_at < :before AND NOT EXISTS (SELECT 1 FROM decisions WHERE run_id = "
        "r.id) AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = r.session_id AND s.state = 'open') AND "
        "EXISTS (SELECT 1 FROM samples WHERE run_id = r.id) ORDER BY id",
        options_.now - options_.older_than,
        fmt::format("no decision, and older than {} days", options_.older_than / kDay));
  }

  void empty_runs() {
    for (const int64_t run : emptied_) {
      Query q = c_.query(
          "SELECT 1 FROM runs r WHERE id = :run AND NOT EXISTS (SELECT 1 FROM samples WHERE run_id = r.id) AND NOT "
          "EXISTS (SELECT 1 FROM outcomes WHERE run_id = r.id) AND NOT EXISTS (SELECT 1 FROM decisions WHERE run_id = "
          "r.id)");
      if (q.bind(":run", run).step()) erase("runs", "DELETE FROM runs WHERE id = :id", run);
    }
    drop_runs(
        "SELECT id, uid FROM runs r WHERE started_at < :before AND NOT EXISTS (SELECT 1 FROM samples WHERE run_id = "
        "r.id) AND NOT EXISTS (SELECT 1 FROM outcomes WHERE run_id = r.id) AND NOT EXISTS (SELECT 1 FROM decisions "
        "WHERE run_id = r.id) AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = r.session_id AND s.state = 'open') "
        "ORDER BY id",
        options_.now - kRunMayBegin, "nothing was measured");
  }

  void drop_runs(const char* select, int64_t before, const std::string& reason) {
    std::vector<int64_t> ids;
    {
      Query q = c_.query(select);
      q.bind(":before", before);
      while (q.step()) {
        ids.push_back(q.integer("id"));
        report_.dropped.push_back({.what = "run", .id = ids.back(), .name = q.text("uid"), .reason = reason});
      }
    }
    for (const int64_t id : ids) {
      erase("samples", "DELETE FROM samples WHERE run_id = :id", id);
      erase("outcomes", "DELETE FROM outcomes WHERE run_id = :id", id);
      erase("runs", "DELETE FROM runs WHERE id = :id", id);
    }
  }

  // The newest of its machine and features is the one that is read.
  void rankers() {
    std::vector<int64_t> ids;
    {
      Query q = c_.query(
          "SELECT id, machine_key FROM rankers r WHERE EXISTS (SELECT 1 FROM rankers n WHERE n.machine_key = "
          "r.machine_key AND n.features = r.features AND (n.trained_at, n.id) > (r.trained_at, r.id)) ORDER BY id");
      while (q.step()) {
        ids.push_back(q.integer("id"));
        report_.dropped.push_back(
            {.what = "ranker", .id = ids.back(), .name = q.text("machine_key"), .reason = "a newer one was learned"});
      }
    }
    for (const int64_t id : ids) erase("rankers", "DELETE FROM rankers WHERE id = :id", id);
  }

  // The newest of its machine, build and threads is the one that is used.
  void schedules() {
    std::vector<int64_t> ids;
    {
      Query q = c_.query(
          "SELECT s.id AS id, m.key AS key, s.threads AS threads FROM schedules s JOIN machines m ON m.id = "
          "s.machine_id WHERE EXISTS (SELECT 1 FROM schedules n WHERE n.machine_id = s.machine_id AND n.build_id = "
          "s.build_id AND n.threads = s.threads AND n.measured_at > s.measured_at) ORDER BY s.id");
      while (q.step()) {
        ids.push_back(q.integer("id"));
        report_.dropped.push_back({.what = "schedule",
                                   .id = ids.back(),
                                   .name = fmt::format("{} threads on {}", q.integer("threads"), q.text("key")),
                                   .reason = "a newer one was measured"});
      }
    }
    for (const int64_t id : ids) {
      erase("fork_joins", "DELETE FROM fork_joins WHERE schedule_id = :id", id);
      erase("schedules", "DELETE FROM schedules WHERE id = :id", id);
    }
  }

  // The newest of its machine, problem, generator, threads and cache mode is the one that is compared with.
  void codes() {
    std::vector<int64_t> ids;
    {
      Query q = c_.query(
          "SELECT c.id AS id, p.text AS problem, k.codegen AS codegen FROM codes c JOIN problems p ON p.id = "
          "c.problem_id JOIN candidates k ON k.id = c.candidate_id WHERE EXISTS (SELECT 1 FROM codes n JOIN candidates "
          "nk "
          "ON nk.id = n.candidate_id WHERE n.problem_id = c.problem_id AND n.machine_id = c.machine_id AND "
          "n.cache_mode = "
          "c.cache_mode AND nk.program_id = k.program_id AND nk.codegen = k.codegen AND nk.threads = k.threads AND "
          "(n.measured_at, n.id) > "
          "(c.measured_at, "
          "c.id)) ORDER BY c.id");
      while (q.step()) {
        ids.push_back(q.integer("id"));
        report_.dropped.push_back({.what = "code",
                                   .id = ids.back(),
                                   .name = fmt::format("{} {}", q.text("problem"), q.text("codegen")),
                                   .reason = "a newer one was measured"});
      }
    }
    for (const int64_t id : ids)
      for (size_t i = 0; i < std::size(kEraseCode); ++i) erase(kCodeTables[i], kEraseCode[i], id);
  }

  void unreferenced() {
    const std::pair<const char*, const char*> kUnreferenced[] = {
        {"candidates",
         "DELETE FROM candidates WHERE id NOT IN (SELECT candidate_id FROM samples UNION SELECT candidate_id FROM "
         "outcomes UNION SELECT winner_id FROM decisions UNION SELECT fallback_id FROM decisions UNION SELECT "
         "candidate_id FROM codes)"},
        {"programs", "DELETE FROM programs WHERE id NOT IN (SELECT program_id FROM candidates)"},
        {"problems",
         "DELETE FROM problems WHERE id NOT IN (SELECT problem_id FROM samples UNION SELECT problem_id FROM outcomes "
         "UNION SELECT problem_id FROM decisions UNION SELECT problem_id FROM codes UNION SELECT problem_id FROM runs "
         "WHERE problem_id IS NOT NULL)"},
        {"machines",
         "DELETE FROM machines WHERE id NOT IN (SELECT machine_id FROM runs UNION SELECT machine_id FROM sessions "
         "UNION SELECT machine_id FROM schedules UNION SELECT machine_id FROM codes)"},
        {"builds",
         "DELETE FROM builds WHERE id NOT IN (SELECT build_id FROM runs UNION SELECT build_id FROM sessions UNION "
         "SELECT build_id FROM schedules UNION SELECT build_id FROM codes)"}};
    for (const auto& [table, sql] : kUnreferenced) {
      c_.query(sql).run();
      count(table);
    }
  }

  Status nothing_hangs() {
    SQLite::Statement check(c_.database(), "PRAGMA foreign_key_check");
    if (!check.executeStep()) return {};
    return data_loss(
        fmt::format("{}: table {} refers to a row of {} that does not exist; nothing was dropped, `hone db "
                    "verify` lists the faults",
                    c_.path(), check.getColumn("table").getString(), check.getColumn("parent").getString()));
  }

  void erase(const char* table, const char* sql, int64_t id) {
    c_.query(sql).bind(":id", id).run();
    count(table);
  }

  void count(const std::string& table) {
    const int64_t rows = c_.database().getChanges();
    for (TableCount& t : report_.rows)
      if (t.table == table) t.rows += rows;
  }

  SqliteStore& store_;
  Connection& c_;
  const GcOptions& options_;
  GcReport& report_;
  std::vector<int64_t> emptied_;
};

int64_t bytes_of(SQLite::Database& database) {
  return database.execAndGet("PRAGMA page_count").getInt64() * database.execAndGet("PRAGMA page_size").getInt64();
}

// VACUUM writes the whole database once to a temporary file and once to the log. Failing leaves the file as it was.
std::string compact(Connection& connection) {
  SQLite::Database& database = connection.database();
  if (database.execAndGet("PRAGMA freelist_count").getInt64() == 0) return "";
  const auto needed = static_cast<uintmax_t>(2 * bytes_of(database) + (1 << 20));
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(connection.path()).parent_path();
  const std::filesystem::space_info space = std::filesystem::space(folder.empty() ? "." : folder, error);
  if (connection.path() != ":memory:" && !error && space.available < needed)
    return fmt::format("{} bytes of {} are free, compacting takes up to {}", space.available, folder.string(), needed);
  try {
    database.exec("VACUUM");
    (void)database.execAndGet("PRAGMA wal_checkpoint(TRUNCATE)").getInt64();
    return "";
  } catch (const SQLite::Exception& e) {
    return is_busy(e) ? to_status(e, connection.path()).message() : e.what();
  }
}

Result<GcReport> collect(SqliteStore& store, const GcOptions& options) {
  return store.read([&]() -> Result<GcReport> {
    SQLite::Database& database = store.connection().database();
    GcReport report;
    {
      const NoForeignKeyChecks off(database);
      HONE_RETURN_IF_ERROR(store.write([&]() -> Status {
        report = {};
        for (const Table& table : tables()) report.rows.push_back({table.name, 0});
        report.bytes_before = bytes_of(database);
        const Status status = Collection(store, options, report).run();
        store.forget_ids();
        return status;
      }));
    }
    report.not_compacted = compact(store.connection());
    report.bytes_after = bytes_of(database);
    return report;
  });
}

Result<std::unique_ptr<SqliteStore>> copy_in_memory(SqliteStore& store) {
  return store.read([&]() -> Result<std::unique_ptr<SqliteStore>> {
    auto copy = std::make_unique<Connection>(store.path(), ":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    SQLite::Backup(copy->database(), store.connection().database()).executeStep(-1);
    return std::make_unique<SqliteStore>(
        std::move(copy),
        StoreState{.mode = OpenMode::kInMemory, .message = "", .schema_version = store.schema_version()});
  });
}

}  // namespace

Result<GcReport> collect_garbage(Store& store, const GcOptions& options) {
  HONE_ASSIGN_OR_RETURN(SqliteStore * sqlite, as_sqlite(store));
  const int newest = migrations().back().version;
  if (store.schema_version() > newest) {
    return unsupported(fmt::format("{} was written by a newer version (schema {}, this one knows {}): update hone",
                                   store.path(), store.schema_version(), newest));
  }
  GcOptions complete = options;
  if (complete.now == 0) complete.now = unix_now();
  if (!options.dry_run) return collect(*sqlite, complete);
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<SqliteStore> copy, copy_in_memory(*sqlite));
  return collect(*copy, complete);
}

}  // namespace hone::db
