// What the subcommands share: the process they run in, and how they report.
//
// stdout carries results only. stderr carries progress and failures; a failure is one line, followed by the command
// that repeats it. Exit codes: 0 done, 1 failed, 2 usage, 130 interrupted.
#pragma once

#include <CLI/CLI.hpp>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "db/store.h"
#include "engine/base/machine.h"
#include "engine/base/status.h"
#include "kernels/matmul/shape_file.h"

namespace hone::cli {

inline constexpr int kDone = 0, kFailed = 1, kUsage = 2, kInterrupted = 130;

// Set by the first Ctrl-C or SIGTERM; the second one ends the process at once.
const std::atomic<bool>& interrupted();
void install_signal_handlers();

// "hone tune 'matmul:...' --budget 5s": the command line as it can be pasted into a shell.
std::string command_line();
void set_command_line(int argc, char** argv);

// Prints the failure and how to repeat it; returns the exit code (2 for what the user typed, 1 otherwise).
int fail(const Status& status);
// A message for people, on stderr.
void note(const std::string& message);

// Problems as every command takes them: positional strings with ranges, or a file, else the shipped decoder shapes.
struct ProblemArgs {
  std::vector<std::string> problems;
  std::string shapes;

  void add_to(CLI::App& command);
  Result<std::vector<matmul::Shape>> resolve() const;
};

// "60", "60s", "1.5m", "500ms" -> seconds. Error: invalid_argument.
Result<double> parse_duration(const std::string& text);
// "1,2" -> {1, 2}; each >= 1. Error: invalid_argument.
Result<std::vector<int>> parse_threads(const std::string& text);
// "asmjit,llvm" -> names that this build has. Error: not_found listing them.
Result<std::vector<std::string>> parse_codegens(const std::string& text);

// Opens --db, $HONE_DB or the default; says on stderr when it is less than asked for.
Result<std::unique_ptr<db::Store>> open_store(const std::string& path, db::OpenMode mode);

// A subcommand registers its options and says what to run; the callable returns the exit code.
using Run = std::function<int()>;
void add_info(CLI::App& app, Run& run);
void add_tune(CLI::App& app, Run& run);
void add_bench(CLI::App& app, Run& run);
void add_explain(CLI::App& app, Run& run);
void add_db(CLI::App& app, Run& run);

}  // namespace hone::cli
