// What the verbs of `hone db` share. Each file registers its own: db.cpp path, ls, show, verify; db_query.cpp query;
// db_transfer.cpp export, import, merge; db_gc.cpp gc.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "db/gc.h"
#include "tools/hone/cli.h"
#include "tools/hone/table.h"

namespace hone::cli {

struct DbArgs {
  std::string db;
  std::string output = "md";
  bool json = false;
  std::string what;  // the verb's positional word

  Result<Format> format() const { return parse_format(json ? "json" : output); }
};

// A verb with --db. `fn` gives the exit code.
template <typename Args>
CLI::App* add_verb(CLI::App& db, Run& run, const std::shared_ptr<Args>& args, const char* name, const char* help,
                   int (*fn)(const Args&)) {
  CLI::App* sub = db.add_subcommand(name, help);
  sub->add_option("--db", args->db, "database file (default: hone db path)")->check(not_empty());
  sub->callback([args, fn, &run] { run = [args, fn] { return fn(*args); }; });
  return sub;
}
// -o and --json.
void add_format(CLI::App& verb, DbArgs& args);

// The database as it is on disk, for verbs without which there is nothing to do. Error: not_found naming `task`.
Result<std::unique_ptr<db::Store>> open_existing(const std::string& path, const char* task);
// For writing: what can only be kept in memory or read is an error.
Result<std::unique_ptr<db::Store>> open_to_change(const std::string& path);
// kInterrupted when that is why it failed, else what fail() says.
int fail_or_interrupted(const Status& status);

// The canonical text of a problem; what is no problem stays as it was typed, as a database may hold texts of other
// versions.
std::string problem_text(const std::string& typed);

// What this build thinks of the decisions of a database.
class Judge {
 public:
  // `decisions`: all that there are, to know which are in use.
  static Result<Judge> make(const std::vector<db::StoredDecision>& decisions);
  db::Worth worth(const db::StoredDecision& decision) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

void add_db_query(CLI::App& db, Run& run);
void add_db_transfer(CLI::App& db, Run& run);
void add_db_gc(CLI::App& db, Run& run);

}  // namespace hone::cli
