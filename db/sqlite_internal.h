// One connection and its prepared statements. Inside db failures travel as SQLite::Exception, because every step of a
// statement can fail and each aborts the whole operation; the public methods turn them into a Status here, at one
// place.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>

#include "engine/base/status.h"

namespace hone::db {

// One use of a prepared statement: resets it at the end, whatever happened, so that no read transaction stays open.
class Query {
 public:
  explicit Query(SQLite::Statement& statement) : statement_(statement) {}
  ~Query() { statement_.tryReset(); }
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  Query& bind(const char* name, int64_t value) {
    statement_.bind(name, value);
    return *this;
  }
  Query& bind(const char* name, double value) {
    statement_.bind(name, value);
    return *this;
  }
  Query& bind(const char* name, const std::string& value) {
    statement_.bind(name, value);
    return *this;
  }
  Query& bind_blob(const char* name, const std::string& bytes) {
    statement_.bind(name, static_cast<const void*>(bytes.data()), static_cast<int>(bytes.size()));
    return *this;
  }
  Query& bind_null(const char* name) {
    statement_.bind(name);
    return *this;
  }
  // Runs to the next row; false at the end.
  bool step() { return statement_.executeStep(); }
  // Runs a statement that gives no rows; it can be bound and run again.
  void run() {
    statement_.exec();
    statement_.reset();
  }
  int64_t integer(const char* column) const { return statement_.getColumn(column).getInt64(); }
  double real(const char* column) const { return statement_.getColumn(column).getDouble(); }
  std::string text(const char* column) const { return statement_.getColumn(column).getString(); }

 private:
  SQLite::Statement& statement_;
};

class Connection {
 public:
  // `path` is for messages; `name` is what SQLite opens (a URI when flags say so).
  Connection(std::string path, const std::string& name, int flags);

  const std::string& path() const { return path_; }
  SQLite::Database& database() { return database_; }
  // `sql` must be a literal: statements are kept under its text. At most one Query per sql is alive at a time.
  Query query(const char* sql);

 private:
  std::string path_;
  SQLite::Database database_;
  std::unordered_map<std::string, std::unique_ptr<SQLite::Statement>> statements_;  // destroyed before database_
};

bool is_busy(const SQLite::Exception& e);
bool is_damage(const SQLite::Exception& e);  // the file is not a sound SQLite database

// The Status of a failed operation on `path`: names the path, what failed and what to do.
Status to_status(const SQLite::Exception& e, const std::string& path);

// SQLite waits this long by itself for a lock. Some locks (the switch to WAL, recovery after a crash) do not wait,
// hence with_retry around every operation.
constexpr int kBusyTimeoutMs = 10'000;
constexpr std::chrono::seconds kGiveUpAfter{60};

// What hands rows to a caller as it reads them cannot start again after the first: the caller would have them twice. f
// gets a flag to set before it hands one over; from then on a failure is a Status, which with_retry leaves alone.
template <typename F>
auto until_sent(const Connection& connection, F f) {
  bool sent = false;
  try {
    return f(sent);
  } catch (const SQLite::Exception& e) {
    if (!sent) throw;
    return decltype(f(sent))(to_status(e, connection.path()));
  }
}

// Runs f, again while another process holds the lock, until kGiveUpAfter. Pauses are random so that processes which
// collided once do not collide again.
template <typename F>
auto with_retry(F f) {
  const auto deadline = std::chrono::steady_clock::now() + kGiveUpAfter;
  for (;;) {
    try {
      return f();
    } catch (const SQLite::Exception& e) {
      if (!is_busy(e) || std::chrono::steady_clock::now() >= deadline) throw;
    }
    thread_local std::minstd_rand random{std::random_device{}()};
    std::this_thread::sleep_for(std::chrono::milliseconds(1 + random() % 20));
  }
}

}  // namespace hone::db
