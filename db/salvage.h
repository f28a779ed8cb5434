// What can still be read of a damaged database, as a new one.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "db/schema_internal.h"
#include "db/sqlite_internal.h"

namespace hone::db {

struct Salvaged {
  std::unique_ptr<Connection> connection;  // in memory, of the newest schema, consistent
  int64_t records = 0;
  int damaged_tables = 0;
  int64_t dropped_decisions = 0;  // that could be read, but not enough of what they rest on
  std::string summary() const;    // "saved 812 records, 1 table was damaged"
};

// Reads the file at `path` and its log past every bad page; writes nothing. A row is taken when it satisfies the
// schema, the rows that it refers to are there, and no index that can be read says otherwise; rows of a bad page are
// taken from indices where these hold all of them. A decision that verify() would name, as too few of its samples are
// left, is dropped. Row numbers stay. Nothing when the file is not ours or nothing can be read. `name`: what the
// connection calls itself.
std::optional<Salvaged> salvage(const std::string& path, std::span<const Migration> steps,
                                const std::string& name = ":memory:");

}  // namespace hone::db
