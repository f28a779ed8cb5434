#include <sqlite3.h>

#include <utility>

#include <fmt/format.h>

#include "db/sqlite_internal.h"

namespace hone::db {

Connection::Connection(std::string path, const std::string& name, int flags)
    : path_(std::move(path)), database_(name, flags, kBusyTimeoutMs) {}

Query Connection::query(const char* sql) {
  auto& slot = statements_[sql];
  if (!slot) slot = std::make_unique<SQLite::Statement>(database_, sql);
  return Query(*slot);
}

bool is_busy(const SQLite::Exception& e) {
  const int code = e.getErrorCode() & 0xff;
  return code == SQLITE_BUSY || code == SQLITE_LOCKED || code == SQLITE_PROTOCOL;
}

bool is_damage(const SQLite::Exception& e) {
  const int code = e.getErrorCode() & 0xff;
  return code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
}

Status to_status(const SQLite::Exception& e, const std::string& path) {
  switch (e.getErrorCode() & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
      return unavailable(fmt::format("another process kept {} busy for {} s; try again", path, kGiveUpAfter.count()));
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return data_loss(fmt::format(
          "{} is damaged ({}); `hone db verify` lists the faults, `hone db gc` saves what can be read into a new file",
          path, e.what()));
    case SQLITE_FULL:
      return resource_exhausted(fmt::format("no space left for {}; free some or give another path with --db", path));
    case SQLITE_NOMEM:
      return resource_exhausted(fmt::format("out of memory in {}", path));
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
      return failed_precondition(fmt::format("cannot write {} ({}); give a writable path with --db", path, e.what()));
    case SQLITE_IOERR:
      return unavailable(
          fmt::format("input or output error on {} ({}, code {})", path, e.what(), e.getExtendedErrorCode()));
    case SQLITE_TOOBIG:
      return invalid_argument(fmt::format("a text is too long for {}", path));
    case SQLITE_CONSTRAINT:
      return invalid_argument(fmt::format("{} refuses this record ({})", path, e.what()));
    default:
      return internal_error(fmt::format("{}: {} (SQLite code {})", path, e.what(), e.getExtendedErrorCode()));
  }
}

}  // namespace hone::db
