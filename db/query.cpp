#include "db/query.h"

#include <sqlite3.h>
#include <strings.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "db/store_internal.h"

namespace hone::db {
namespace {

// Often enough for Ctrl-C to feel immediate, seldom enough to cost nothing.
constexpr int kStepsBetweenStops = 4000;

// PRAGMAs that only tell; those in the second list only without an argument.
constexpr std::string_view kTellingPragmas[] = {
    "table_info",  "table_xinfo",      "table_list",      "index_list",  "index_info",
    "index_xinfo", "foreign_key_list", "integrity_check", "quick_check", "foreign_key_check"};
constexpr std::string_view kPragmasWithoutArgument[] = {
    "user_version",  "application_id", "page_count", "page_size",     "freelist_count",  "schema_version",
    "database_list", "journal_mode",   "encoding",   "function_list", "compile_options", "collation_list"};

template <size_t N>
bool contains(const std::string_view (&names)[N], const char* name) {
  return std::any_of(std::begin(names), std::end(names), [&](std::string_view n) {
    return n.size() == std::char_traits<char>::length(name) && strncasecmp(n.data(), name, n.size()) == 0;
  });
}

struct Action {
  int code;
  const char* verb;
};
constexpr Action kRefusedActions[] = {
    {SQLITE_INSERT, "writing to "},    {SQLITE_UPDATE, "changing "},        {SQLITE_DELETE, "deleting from "},
    {SQLITE_DROP_TABLE, "dropping "},  {SQLITE_DROP_VIEW, "dropping "},     {SQLITE_DROP_INDEX, "dropping "},
    {SQLITE_REINDEX, "reindexing "},   {SQLITE_ATTACH, "attaching "},       {SQLITE_DETACH, "detaching "},
    {SQLITE_TRANSACTION, ""},          {SQLITE_SAVEPOINT, "a savepoint: "}, {SQLITE_ALTER_TABLE, "altering "},
    {SQLITE_DROP_TRIGGER, "dropping "}};

// Where SQLite keeps the schema: CREATE and ANALYZE are seen as writing there.
bool is_schema(const char* table) {
  return table != nullptr && (strcmp(table, "sqlite_master") == 0 || strcmp(table, "sqlite_temp_master") == 0);
}

// Lives as long as one query: what SQLite asks while it compiles and runs, and the first refusal.
struct Guard {
  sqlite3* handle;
  const std::function<bool()>& stop;
  std::string refusal = "";

  Guard(sqlite3* database, const std::function<bool()>& stop_now) : handle(database), stop(stop_now) {
    sqlite3_set_authorizer(handle, authorize, this);
    if (stop) sqlite3_progress_handler(handle, kStepsBetweenStops, must_stop, this);
  }
  ~Guard() {
    sqlite3_set_authorizer(handle, nullptr, nullptr);
    sqlite3_progress_handler(handle, 0, nullptr, nullptr);
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  static int must_stop(void* self) { return static_cast<Guard*>(self)->stop() ? 1 : 0; }

  static int authorize(void* self, int action, const char* first, const char* second, const char*, const char*) {
    auto& guard = *static_cast<Guard*>(self);
    auto refuse = [&](std::string why) {
      if (guard.refusal.empty()) guard.refusal = std::move(why);
      return SQLITE_DENY;
    };
    if (action == SQLITE_SELECT || action == SQLITE_READ || action == SQLITE_RECURSIVE) return SQLITE_OK;
    if (action == SQLITE_FUNCTION) {
      if (strcasecmp(second, "load_extension") != 0) return SQLITE_OK;
      return refuse("load_extension is refused: a query runs no code from elsewhere");
    }
    if (action == SQLITE_PRAGMA) {
      if (contains(kTellingPragmas, first) || (second == nullptr && contains(kPragmasWithoutArgument, first)))
        return SQLITE_OK;
      return refuse(fmt::format("PRAGMA {}{} is refused: a query only reads", first, second ? " with a value" : ""));
    }
    // Naming a table-valued function (json_each, pragma_table_info) is seen as UPDATE of the schema. A real one cannot
    // get through: SQLite refuses it, and the statement would not count as one that reads.
    if (action == SQLITE_UPDATE && is_schema(first)) return SQLITE_OK;
    const auto* known = std::find_if(std::begin(kRefusedActions), std::end(kRefusedActions),
                                     [&](const Action& a) { return a.code == action; });
    if (known == std::end(kRefusedActions)) return refuse("this statement is refused: a query only reads");
    if (is_schema(first)) return refuse("changing the schema is refused: a query only reads");
    return refuse(fmt::format("{}{} is refused: a query only reads", known->verb, first ? first : ""));
  }
};

struct Finalize {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using StatementPtr = std::unique_ptr<sqlite3_stmt, Finalize>;

std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  return text;
}

std::string names_of(sqlite3* handle, const char* type) {
  sqlite3_stmt* raw = nullptr;
  sqlite3_prepare_v2(handle, "SELECT name FROM sqlite_schema WHERE type = ? ORDER BY name", -1, &raw, nullptr);
  const StatementPtr statement(raw);
  if (!statement) return "";
  sqlite3_bind_text(raw, 1, type, -1, SQLITE_STATIC);
  std::string names;
  while (sqlite3_step(raw) == SQLITE_ROW)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", reinterpret_cast<const char*>(sqlite3_column_text(raw, 0)));
  return names;
}

// What went wrong with the statement, for the person who wrote it. A file that is busy or damaged is another matter:
// that is thrown, as everywhere in db.
Status explain(sqlite3* handle, int code, const std::string& sql, const Guard& guard) {
  if (!guard.refusal.empty()) return invalid_argument(one_line(guard.refusal));
  const int kind = code & 0xff;
  if (kind == SQLITE_INTERRUPT) return unavailable("the query was interrupted");
  if (kind != SQLITE_ERROR && kind != SQLITE_AUTH && kind != SQLITE_TOOBIG && kind != SQLITE_MISMATCH)
    throw SQLite::Exception(handle, code);
  std::string message = one_line(sqlite3_errmsg(handle));
  const int offset = sqlite3_error_offset(handle);
  if (message.starts_with("no such table")) {
    message += fmt::format("; tables: {}", names_of(handle, "table"));
    if (const std::string views = names_of(handle, "view"); !views.empty()) message += "; views: " + views;
  } else if (offset >= 0 && static_cast<size_t>(offset) < sql.size()) {
    message += fmt::format(", at column {}", offset + 1);
  }
  return invalid_argument("SQL: " + message);
}

// The one statement of `sql`: what follows it may only be white space, comments and semicolons.
Result<StatementPtr> prepare(sqlite3* handle, const std::string& sql, const Guard& guard) {
  if (sql.find('\0') != std::string::npos) return invalid_argument("SQL: the statement holds a NUL byte");
  StatementPtr statement;
  for (const char* at = sql.c_str(); *at != '\0';) {
    sqlite3_stmt* raw = nullptr;
    const int code = sqlite3_prepare_v2(handle, at, -1, &raw, &at);
    StatementPtr next(raw);
    if (statement && (code != SQLITE_OK || next))
      return invalid_argument("SQL: there is more than one statement; give one at a time");
    if (code != SQLITE_OK) return explain(handle, code, sql, guard);
    if (next) statement = std::move(next);
  }
  if (!statement) return invalid_argument("SQL: there is no statement");
  if (sqlite3_stmt_readonly(statement.get()) == 0) return invalid_argument("SQL: only statements that read are run");
  if (sqlite3_bind_parameter_count(statement.get()) > 0)
    return invalid_argument("SQL: parameters (?, :name) have no value here; write the value itself");
  return statement;
}

Value value_of(sqlite3_stmt* statement, int column) {
  auto bytes = [&](const void* data) {
    const auto size = static_cast<size_t>(sqlite3_column_bytes(statement, column));
    return data == nullptr ? std::string() : std::string(static_cast<const char*>(data), size);
  };
  switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER:
      return int64_t{sqlite3_column_int64(statement, column)};
    case SQLITE_FLOAT:
      return sqlite3_column_double(statement, column);
    case SQLITE_TEXT:
      return bytes(sqlite3_column_text(statement, column));
    case SQLITE_BLOB:
      return Blob{bytes(sqlite3_column_blob(statement, column))};
    default:
      return std::monostate{};
  }
}

// JSON objects and SQL tables want names that differ: the second `x` becomes `x_2`.
std::vector<std::string> column_names(sqlite3_stmt* statement) {
  std::vector<std::string> names;
  for (int c = 0; c < sqlite3_column_count(statement); ++c) {
    const std::string name = sqlite3_column_name(statement, c);
    std::string free = name;
    for (int i = 2; std::find(names.begin(), names.end(), free) != names.end(); ++i)
      free = fmt::format("{}_{}", name, i);
    names.push_back(std::move(free));
  }
  return names;
}

Status run(sqlite3* handle, const std::string& sql, const QuerySink& sink, const std::function<bool()>& stop,
           bool& sent) {
  Guard guard(handle, stop);
  HONE_ASSIGN_OR_RETURN(const StatementPtr statement, prepare(handle, sql, guard));
  const size_t count = static_cast<size_t>(sqlite3_column_count(statement.get()));
  std::vector<Value> row(count);
  bool first = true;
  for (;;) {
    const int code = sqlite3_step(statement.get());
    if (code != SQLITE_ROW && code != SQLITE_DONE) return explain(handle, code, sql, guard);
    sent = true;
    if (first) HONE_RETURN_IF_ERROR(sink.columns(column_names(statement.get())));
    first = false;
    if (code == SQLITE_DONE) return {};
    for (size_t c = 0; c < count; ++c) row[c] = value_of(statement.get(), static_cast<int>(c));
    HONE_RETURN_IF_ERROR(sink.row(row));
  }
}

}  // namespace

Status query(Store& store, const std::string& sql, const QuerySink& sink, const std::function<bool()>& stop) {
  HONE_ASSIGN_OR_RETURN(SqliteStore * sqlite, as_sqlite(store));
  Connection& connection = sqlite->connection();
  return sqlite->read([&] {
    return until_sent(connection,
                      [&](bool& sent) { return run(connection.database().getHandle(), sql, sink, stop, sent); });
  });
}

}  // namespace hone::db
