// SQL of a person on a store: one statement that reads, and nothing else. What it may do is decided by SQLite's
// authorizer, which sees every action of the compiled statement, and not by looking at the text.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "db/store.h"
#include "db/value.h"

namespace hone::db {

struct QuerySink {
  std::function<Status(const std::vector<std::string>&)> columns;  // called once, also when there are no rows
  std::function<Status(const std::vector<Value>&)> row;            // a failure ends the query and is returned
};

// Errors: invalid_argument for whatever is wrong with the statement (SQLite's message, what there is instead of a table
// that is missing, what is refused and why); unavailable when `stop` said so, which it is asked for every few
// thousand steps.
Status query(Store& store, const std::string& sql, const QuerySink& sink, const std::function<bool()>& stop = {});

// A query for the tables and views of a store: columns name, type, columns.
inline constexpr char kListTables[] =
    "SELECT s.name AS name, s.type AS type, group_concat(c.name, ', ') AS columns FROM sqlite_schema s, "
    "pragma_table_info(s.name) c WHERE s.type IN ('table', 'view') GROUP BY s.name ORDER BY s.type, s.name";

}  // namespace hone::db
