#include "db/schema_internal.h"

#include <SQLiteCpp/Savepoint.h>
#include <sqlite3.h>

#include <fmt/format.h>

namespace hone::db {
namespace {

constexpr Migration kMigrations[] = {
#define X(version, sql) {version, sql},
#include "db/migrations.inc"
#undef X
};

constexpr Table kTables[] = {
    {"machines", true},          {"builds", true},      {"problems", true},         {"programs", true},
    {"sessions", true},          {"runs", true},        {"candidates", true},       {"samples", false},
    {"outcomes", false},         {"decisions", true},   {"rankers", false, true},   {"schedules", true, true},
    {"fork_joins", true, true},  {"codes", true, true}, {"code_parts", true, true}, {"code_models", true, true},
    {"code_samples", true, true}};

int64_t scalar(SQLite::Database& database, const char* sql) { return database.execAndGet(sql).getInt64(); }

}  // namespace

std::span<const Migration> migrations() { return kMigrations; }

std::span<const Table> tables() { return kTables; }

SchemaState read_schema(SQLite::Database& database) {
  // One snapshot: between two reads another process may create the tables, and they would look like someone else's.
  SQLite::Savepoint snapshot(database, "read_schema");
  SchemaState state;
  state.version = static_cast<int>(scalar(database, "PRAGMA user_version"));
  const int64_t application = scalar(database, "PRAGMA application_id");
  if (application == kApplicationId) {
    state.owner = Owner::kHone;
  } else if (application != 0 || state.version != 0 || scalar(database, "SELECT count(*) FROM sqlite_schema") != 0) {
    state.owner = Owner::kOther;
  }
  snapshot.release();
  return state;
}

bool is_read_only(SQLite::Database& database) { return sqlite3_db_readonly(database.getHandle(), "main") == 1; }

void configure_writer(SQLite::Database& database) {
  // A file system without shared memory answers with another mode; SQLite then works with its rollback journal. Asked
  // first, as changing the mode takes an exclusive lock even when nothing changes.
  if (database.execAndGet("PRAGMA journal_mode").getString() != "wal") {
    (void)database.execAndGet("PRAGMA journal_mode = wal").getString();
  }
  database.exec("PRAGMA synchronous = normal");
  database.exec("PRAGMA foreign_keys = on");
  // After a burst the log shrinks again to this size when it is next reset; 4 MB is the automatic checkpoint (1000
  // pages).
  (void)database.execAndGet("PRAGMA journal_size_limit = 4194304").getInt64();
}

void configure_reader(SQLite::Database& database) { database.exec("PRAGMA query_only = on"); }

SchemaState migrate(SQLite::Database& database, std::span<const Migration> steps) {
  SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
  SchemaState state = read_schema(database);
  if (state.owner == Owner::kOther) return state;
  for (const Migration& step : steps) {
    if (step.version <= state.version) continue;
    database.exec(step.sql);
    database.exec(fmt::format("PRAGMA user_version = {}", step.version));
    state.version = step.version;
  }
  if (state.owner == Owner::kNobody) database.exec(fmt::format("PRAGMA application_id = {}", kApplicationId));
  state.owner = Owner::kHone;
  transaction.commit();
  return state;
}

void check_tables(SQLite::Database& database, bool all) {
  for (const Table& table : tables()) {
    if (!table.checked && !all) continue;
    const std::string answer = database.execAndGet(fmt::format("PRAGMA quick_check('{}')", table.name)).getString();
    if (answer == "ok") continue;
    // Many lines, one a fault; the first may be a heading.
    const size_t begin = answer.starts_with("***") ? answer.find('\n') + 1 : 0;
    throw SQLite::Exception(
        fmt::format("table {}: {}", table.name, answer.substr(begin, answer.find('\n', begin) - begin)),
        SQLITE_CORRUPT);
  }
}

}  // namespace hone::db
