// What makes a SQLite file ours: application id, schema version, and the steps from each version to the next. The only
// place with PRAGMAs, apart from the checks in verify.cpp and gc.cpp, which compacts the file.
#pragma once

#include <span>

#include "db/sqlite_internal.h"

namespace hone::db {

constexpr int32_t kApplicationId = 0x686f6e65;  // "hone", at offset 68 of the file: `file` and others can tell

struct Migration {
  int version;
  const char* sql;
};
std::span<const Migration> migrations();  // ascending versions from 1

struct Table {
  const char* name;
  bool checked;  // when opening; see check_tables
  bool derived =
      false;  // made of the others: not worth saving from a damaged file, where nothing vouches for its bytes
};
// Every table of the newest schema; a table comes after those that it refers to.
std::span<const Table> tables();

enum class Owner { kNobody, kHone, kOther };  // kNobody: no table yet

struct SchemaState {
  Owner owner = Owner::kNobody;
  int version = 0;
};
SchemaState read_schema(SQLite::Database& database);

// The file was opened, but not for writing (permission bits, read-only mount).
bool is_read_only(SQLite::Database& database);

// Settings of a connection that writes: WAL, NORMAL, foreign keys. NORMAL in WAL mode: a commit is in the hands of the
// operating system when it returns, so it survives a kill of the process; a power cut may cost the last commits but
// never the soundness of the file. README.md has the cost of FULL.
void configure_writer(SQLite::Database& database);
void configure_reader(SQLite::Database& database);

// Applies what is missing, in one transaction: concurrent first openers wait for each other and only one creates. Does
// nothing to a file that meanwhile belongs to someone else or has a newer schema. Returns the state afterwards.
SchemaState migrate(SQLite::Database& database, std::span<const Migration> steps);

// Throws SQLITE_CORRUPT when the trees that plans are read from are damaged. Unless `all`, leaves out those that grow
// with what was measured (samples above all) and hold no plan, so that the cost of opening does not grow with it.
void check_tables(SQLite::Database& database, bool all);

}  // namespace hone::db
