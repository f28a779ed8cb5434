// What the subcommands share: the process they run in, and how they report.
//
// stdout carries results only. stderr carries progress and failures; a failure is one line, followed by the command
// that repeats it. Exit codes: 0 done, 1 failed, 2 usage, 130 interrupted.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "db/store.h"
#include "engine/base/machine.h"
#include "engine/base/status.h"
#include "kernels/op/shape_file.h"

namespace hone::cli {

inline constexpr int kDone = 0, kFailed = 1, kUsage = 2, kInterrupted = 130;

// Set by the first Ctrl-C, SIGTERM or SIGHUP; the second one ends the process at once.
const std::atomic<bool>& interrupted();
void install_signal_handlers();

// A closed stdin, stdout or stderr is taken by a stand-in, so that no database or library file gets its number and
// with it our output. The one for stdout refuses what is written to it, and finish() reports that.
void reserve_standard_streams();

// "HONE_DB=x.db hone tune 'matmul:...' --budget 5s": the command line, and the variables that change what it does, as
// they can be pasted into a shell; always one line.
std::string command_line();
void set_command_line(int argc, char** argv);
// The same program and variables with other words.
std::string repeat_command(const std::vector<std::string>& words);

// The only way to stdout. Scripts act on what they read there, so losing a part of it is a failure: see finish().
void write_results(std::string_view results);
template <typename... T>
void print(fmt::format_string<T...> format, T&&... args) {
  write_results(fmt::format(format, std::forward<T>(args)...));
}
// `code`, or kFailed with a message when what was printed has not arrived.
int finish(int code);

// Prints the failure and how to repeat it; returns the exit code (2 for what the user typed, 1 otherwise).
int fail(const Status& status);
// The same for a command line that CLI11 refused: names the command that is not known, and where the help is.
int fail_usage(const CLI::App& app, const std::string& why);
// `status` as a fault in what the user typed: the library calls a name that it lacks unsupported or not found.
Status typed(const Status& status);
// Text that a terminal shows and does not obey: control characters as \xNN.
std::string printable(std::string_view text);
// A message for people, on stderr.
void note(const std::string& message);
// The same, line by line.
void note_lines(const std::string& text);
// To stderr as it is. Not fmt::print, which throws when stderr is full: there is nobody left to tell.
void write_message(std::string_view text);
// The machine that this command runs code on. Says so when HONE_CPU describes another one, and what
// note_ignored_variables() says.
Result<Machine> executing_machine();
// Says so when packed weights of models are not kept because of what HONE_WEIGHTS_LIMIT is, or where HONE_WEIGHTS
// is no folder to write to.
void note_weights_limit();
// Says so when HONE_THREADS is set to something that is not taken as it is.
void note_ignored_variables(const Machine& machine);

// Problems as every command takes them: positional strings with ranges, or a file, else a shipped list.
struct ProblemArgs {
  std::vector<std::string> problems;
  std::string shapes;

  void add_to(CLI::App& command);
  Result<std::vector<op::Shape>> resolve() const { return resolve(op::default_shapes_text(), "decoder.txt"); }
  // With another list to fall back on; `name` stands in its errors.
  Result<std::vector<op::Shape>> resolve(std::string_view fallback, std::string_view name) const;
};

// --numerics, as tune, bench and explain take it, and whether every problem has what it says.
// `more`: what else the command takes there.
void add_numerics(CLI::App& command, std::string& numerics, std::string_view more = "");
Status check_numerics(const std::vector<op::Shape>& shapes, const std::string& numerics);
Status check_model_numerics(const std::string& numerics);  // of a model, before it is read

// For options where an empty text is a slip of a script ("$UNSET") and not a wish for the default.
CLI::Validator not_empty();
// A whole number that fits; CLI11 takes one that does not for the largest.
CLI::Validator seed();
// A whole number of this range, said as such; CLI11's own messages show the limits of a double.
CLI::Validator whole(int64_t least, int64_t most);
// Positive and finite; CLI11's own check lets NaN pass.
CLI::Validator positive();

// "2026-11-29 20:14", of unix seconds.
std::string utc(int64_t unix_seconds);
// "a,,b" -> {"a", "", "b"}: what is empty stays, for the caller to refuse.
std::vector<std::string> split(const std::string& text, char by);
// "60", "60s", "1.5m", "500ms" -> seconds. Error: invalid_argument.
Result<double> parse_duration(const std::string& text);
// "1,2" -> {1, 2}; each >= 1. Error: invalid_argument.
Result<std::vector<int>> parse_threads(const std::string& text);
// "asmjit,llvm" -> names that this build has. Error: invalid_argument listing them.
Result<std::vector<std::string>> parse_codegens(const std::string& text);

// Opens --db, $HONE_DB or the default; says on stderr when it is less than asked for.
Result<std::unique_ptr<db::Store>> open_store(const std::string& path, db::OpenMode mode);
// To look at what is stored and nothing else, so that a file which cannot be read is an error (data_loss) and not an
// empty store. nullptr: there is no file yet.
Result<std::unique_ptr<db::Store>> open_stored(const std::string& path);

// A subcommand registers its options and says what to run; the callable returns the exit code.
using Run = std::function<int()>;
void add_info(CLI::App& app, Run& run);
void add_tune(CLI::App& app, Run& run);
void add_bench(CLI::App& app, Run& run);
void add_explain(CLI::App& app, Run& run);
void add_codegen(CLI::App& app, Run& run);
void add_compile(CLI::App& app, Run& run);
void add_exec(CLI::App& app, Run& run);
void add_run(CLI::App& app, Run& run);
void add_db(CLI::App& app, Run& run);
void add_fuzz(CLI::App& app, Run& run);
void add_synth(CLI::App& app, Run& run);
void add_tokenize(CLI::App& app, Run& run);
void add_db_learn(CLI::App& db, Run& run);  // a part of hone db
// What `hone tune` starts to run candidates in; in no help text.
void add_tune_worker(CLI::App& app, Run& run);
inline constexpr const char* kTuneWorker = "tune-worker";

}  // namespace hone::cli
