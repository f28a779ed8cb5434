// See cli.h.
#include "tools/hone/cli.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <map>

#include <filesystem>

#include "engine/base/env.h"
#include "engine/model/packed_store.h"
#include "jit/codegen.h"
#include "kernels/matmul/op.h"
#include "kernels/text/problem_text.h"

namespace hone::cli {
namespace {

std::atomic<bool> g_interrupted{false};
std::string g_command_line, g_program;  // the latter without its words
int g_write_error = 0;                  // the first errno of stdout

void on_signal(int) {
  // The second one means it.
  if (g_interrupted.exchange(true)) std::_Exit(kInterrupted);
}

// Control characters and bytes beyond ASCII would not survive a terminal or a log, so they are escaped as bash reads
// them.
std::string shell_quoted(const std::string& word) {
  constexpr std::string_view kSafe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,@%+";
  if (!word.empty() && word.find_first_not_of(kSafe) == std::string::npos) return word;
  if (std::any_of(word.begin(), word.end(), [](char c) { return c < ' ' || c > '~'; })) {
    std::string out = "$'";
    for (char c : word) {
      if (c < ' ' || c > '~') {
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
      } else {
        out += c == '\'' || c == '\\' ? std::string{'\\', c} : std::string(1, c);
      }
    }
    return out + "'";
  }
  std::string out = "'";
  for (char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// Is there a file where --db, or without it the environment, puts the database?
bool exists(const std::string& db_path) {
  const Result<std::string> path = db_path.empty() ? db::default_path() : Result<std::string>(db_path);
  std::error_code unreadable;  // then it is there, and opening it says what is wrong
  return path.ok() && (std::filesystem::exists(*path, unreadable) || unreadable);
}

}  // namespace

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> parts;
  size_t at = 0;
  while (true) {
    const size_t end = text.find(by, at);
    parts.push_back(text.substr(at, end - at));
    if (end == std::string::npos) return parts;
    at = end + 1;
  }
}

const std::atomic<bool>& interrupted() { return g_interrupted; }

void install_signal_handlers() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  for (int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction inherited = {};
    // Who started us with it ignored (nohup, a background job of a script) does not want it to end us.
    if (sigaction(number, nullptr, &inherited) == 0 && inherited.sa_handler == SIG_IGN) continue;
    sigaction(number, &action, nullptr);
  }
  // Writing beyond a limit then fails as it does on a full disk.
  signal(SIGXFSZ, SIG_IGN);
}

void reserve_standard_streams() {
  for (int fd = 0; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    // open() gives the lowest free number, which is fd. No stand-in: nothing better can be done about it.
    (void)!open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  }
}

std::string command_line() { return g_command_line; }

void set_command_line(int argc, char** argv) {
  g_program.clear();
  for (const char* name : {"HONE_DB", "HONE_CACHE", "HONE_WEIGHTS", "HONE_WEIGHTS_LIMIT", "HONE_THREADS",
                           "HONE_SCHEDULE", "HONE_CPU", "HONE_PEERS"})
    if (const std::optional<std::string> value = env(name))
      g_program += fmt::format("{}={} ", name, shell_quoted(*value));
  g_program += argc > 0 && *argv[0] != '\0' ? shell_quoted(argv[0]) : "hone";
  g_command_line = repeat_command({argv + std::min(argc, 1), argv + argc});
}

std::string repeat_command(const std::vector<std::string>& words) {
  std::string command = g_program;
  for (const std::string& word : words) command += " " + shell_quoted(word);
  return command;
}

void write_results(std::string_view results) {
  if (g_write_error != 0) return;
  errno = 0;
  if (std::fwrite(results.data(), 1, results.size(), stdout) != results.size() || std::fflush(stdout) != 0)
    g_write_error = errno != 0 ? errno : EIO;
}

int finish(int code) {
  errno = 0;
  if (std::fflush(stdout) != 0 && g_write_error == 0) g_write_error = errno != 0 ? errno : EIO;  // help texts
  if (g_write_error == 0) return code;
  const int failed = fail(
      data_loss(fmt::format("cannot write the results to stdout: {}; give a file or a pipe", strerror(g_write_error))));
  return code == kDone ? failed : code;
}

int fail(const Status& status) {
  note(fmt::format("error: {}", status.message()));
  write_message(fmt::format("hone: repeat: {}\n", command_line()));  // as typed, to paste
  const bool typed = status.code() == Code::kInvalidArgument;
  return typed ? kUsage : kFailed;
}

int fail_usage(const CLI::App& app, const std::string& why) {
  // CLI11 misses a subcommand before it looks at the words that are left.
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  std::vector<std::string> names;
  for (const CLI::App* sub : command->get_subcommands([](const CLI::App* a) { return !a->get_group().empty(); }))
    names.push_back(sub->get_name());
  const std::vector<std::string> left = app.remaining(true);
  std::string message = why;
  if (!names.empty() && !left.empty()) {
    message = fmt::format("unknown command or option '{}': commands are {}", left.front(), fmt::join(names, ", "));
  } else if (!names.empty()) {
    message = fmt::format("a command is missing: one of {}", fmt::join(names, ", "));
  }
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::string path;
  for (const CLI::App* at = command; at != &app && at != nullptr; at = at->get_parent())
    path = " " + at->get_name() + path;
  return fail(invalid_argument(fmt::format("{} (help: hone{} --help)", message, path)));
}

Status typed(const Status& status) { return status.ok() ? status : invalid_argument(status.message()); }

std::string printable(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : '\0');
    // U+0080 to U+009F are control characters too: one of them begins an escape sequence as ESC [ does.
    const bool control = c < ' ' || c == 0x7f || (c == 0xc2 && next >= 0x80 && next < 0xa0);
    out += control ? fmt::format("\\x{:02x}", c) : std::string(1, text[i]);
  }
  return out;
}

// Messages name what files and databases hold, and a terminal obeys control characters.
void note(const std::string& message) { write_message(fmt::format("hone: {}\n", printable(message))); }

void note_lines(const std::string& text) {
  for (const std::string& line : split(text, '\n'))
    if (!line.empty()) note(line);
}

void write_message(std::string_view text) {
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
  (void)std::fflush(stderr);
}

Result<Machine> executing_machine() {
  HONE_ASSIGN_OR_RETURN(Machine machine, detect_machine());
  if (const std::optional<std::string> cpu = env("HONE_CPU")) {
    HONE_ASSIGN_OR_RETURN(const Machine described, described_machine());
    std::string lacking;
    for (const std::string& name : described.features.without(machine.features).names())
      lacking += (lacking.empty() ? "; not here: " : ",") + name;
    note(fmt::format("HONE_CPU={}: code runs on this CPU, with the features that both have{}", *cpu, lacking));
  }
  note_ignored_variables(machine);
  return machine;
}

void note_ignored_variables(const Machine& machine) {
  const ThreadSetting threads = threads_in_force(machine);
  if (threads.source.find("HONE_THREADS=") != std::string::npos)
    note(fmt::format("{} thread(s) from {}", threads.threads, threads.source));
}

void note_weights_limit() {
  const model::StorePlace place = model::store_place();
  if (place.why_none.starts_with("HONE_WEIGHTS_LIMIT"))
    return note(fmt::format("{}: packed weights are not kept", place.why_none));
  if (place.folder.empty() || !env("HONE_WEIGHTS")) return;
  if (const std::string why = model::why_unusable(place); !why.empty())
    note(fmt::format("HONE_WEIGHTS={} cannot be used ({}): packed weights are not kept", place.folder, why));
}

CLI::Validator not_empty() {
  return {[](std::string& text) { return text.empty() ? std::string("must not be empty") : std::string(); }, ""};
}

CLI::Validator seed() {
  return CLI::Validator(
      [](const std::string& text) {
        uint64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool whole = error == std::errc() && end == text.data() + text.size();
        return whole ? std::string() : fmt::format("must be a whole number from 0 to 2^64 - 1, got '{}'", text);
      },
      "");
}

CLI::Validator whole(int64_t least, int64_t most) {
  return CLI::Validator(
      [=](const std::string& text) {
        int64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool good = error == std::errc() && end == text.data() + text.size() && value >= least && value <= most;
        return good ? std::string()
                    : fmt::format("must be a whole number from {} to {}, got '{}'", least, most, text.substr(0, 40));
      },
      "");
}

CLI::Validator positive() {
  return {[](std::string& text) {
            double value = 0;
            const bool good =
                CLI::detail::lexical_cast(text, value) && std::isfinite(value) && value > 0 && value < 1e9;
            return good ? std::string() : fmt::format("must be a positive number, got '{}'", text);
          },
          ""};
}

void ProblemArgs::add_to(CLI::App& command) {
  command.add_option("problem", problems,
                     "matmul:f32:m=..,n=..,k=..[,b=nn|nt|packed][:+bias+gelu...], or attention:f32:b=..,hq=..,hkv=..,"
                     "q=..,kv=..,d=..[,page=..][:causal][:window=..][:mask]; m, n, k, b, q, kv take 1-8+1, 1-512*2, "
                     "{1,4}");
  command.add_option("--shapes", shapes, "file with one problem a line")->check(not_empty());
}

Result<std::vector<op::Shape>> ProblemArgs::resolve(std::string_view fallback, std::string_view name) const {
  std::vector<op::Shape> shapes_in_order;
  for (const std::string& text : problems) {
    Result<std::vector<op::Problem>> parsed = op::parse_problems(text);
    if (!parsed.ok()) {
      const std::string caret = text::caret_display(text, parsed.status());
      if (!caret.empty() && isatty(STDERR_FILENO)) write_message(caret + "\n");
      return typed(parsed.status());
    }
    for (op::Problem& p : *parsed) shapes_in_order.push_back({std::move(p), 1});
  }
  if (!shapes.empty()) {
    const Result<std::vector<op::Shape>> from_file = op::read_shape_file(shapes);
    if (!from_file.ok()) return typed(from_file.status());
    shapes_in_order.insert(shapes_in_order.end(), from_file->begin(), from_file->end());
  }
  for (const op::Shape& shape : shapes_in_order) {
    const auto* m = std::get_if<matmul::MatmulProblem>(&shape.problem);
    if (m != nullptr && m->dtype != DType::kF32 && m->b != matmul::BLayout::kPacked)
      return typed(unsupported(fmt::format("{}: B of {} is read in panels only: use b=packed", matmul::to_string(*m),
                                           dtype_name(m->dtype))));
  }
  // What is listed twice is measured once, where it is listed first.
  std::map<std::string, double*> weights;
  std::vector<op::Shape> distinct;
  distinct.reserve(shapes_in_order.size());
  for (op::Shape& shape : shapes_in_order) {
    const auto [at, is_new] = weights.try_emplace(op::to_string(shape.problem), nullptr);
    if (!is_new) {
      *at->second += shape.weight;
      continue;
    }
    distinct.push_back(std::move(shape));
    at->second = &distinct.back().weight;
  }
  if (!distinct.empty()) return distinct;
  return op::parse_shapes(fallback, name);
}

void add_numerics(CLI::App& command, std::string& numerics, std::string_view more) {
  command
      .add_option("--numerics", numerics,
                  fmt::format("classes of plans that may be chosen: default (of attention online(256), of matmul "
                              "ordered), any, or one by its name, such as ordered, or bf16 (of matmul with weights of "
                              "bf16){}",
                              more))
      ->check(not_empty());
}

Status check_model_numerics(const std::string& numerics) {
  const Status s = matmul::Op::check_numerics(numerics);
  return s.ok() ? s : invalid_argument(fmt::format("--numerics {}: {}", printable(numerics), s.message()));
}

Status check_numerics(const std::vector<op::Shape>& shapes, const std::string& numerics) {
  for (const op::Shape& shape : shapes)
    if (Status s = op::check_numerics(shape.problem, numerics); !s.ok())
      return invalid_argument(
          fmt::format("--numerics {}: {}: {}", numerics, op::to_string(shape.problem), s.message()));
  return {};
}

std::string utc(int64_t unix_seconds) {
  const std::time_t t = unix_seconds;
  char text[32];
  std::tm parts{};
  if (gmtime_r(&t, &parts) == nullptr) return std::to_string(unix_seconds);  // a year beyond an int
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts);
  return text;
}

Result<double> parse_duration(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, text.data() + text.size());
  const double scale = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "ms" ? 1e-3 : 0;
  if (error != std::errc() || scale == 0 || !(value > 0) || value * scale > 1e6)
    return invalid_argument(fmt::format("'{}' is no time above 0: write 60s, 1.5m or 500ms", text));
  return value * scale;
}

Result<std::vector<int>> parse_threads(const std::string& text) {
  std::vector<int> threads;
  if (text.empty()) return threads;
  for (const std::string& part : split(text, ',')) {
    int value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || end != part.data() + part.size() || value < 1 || value > kMaxThreads)
      return invalid_argument(
          fmt::format("--threads takes numbers from 1 to {} with commas, got '{}'", kMaxThreads, text));
    threads.push_back(value);
  }
  return threads;
}

Result<std::vector<std::string>> parse_codegens(const std::string& text) {
  std::vector<std::string> names;
  if (text.empty()) return names;
  for (const std::string& part : split(text, ',')) {
    const Result<jit::CodeGenerator*> generator = jit::find_code_generator(part);
    if (!generator.ok()) return typed(generator.status());
    names.emplace_back((*generator)->name());
  }
  return names;
}

Result<std::unique_ptr<db::Store>> open_store(const std::string& path, db::OpenMode mode) {
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<db::Store> store, db::open({.path = path, .mode = mode}));
  // Who only reads and finds no file has lost nothing: there are no plans yet.
  const bool none_yet = mode == db::OpenMode::kReadOnly && !exists(path);
  if (!store->message().empty() && !none_yet) note(store->message());
  return store;
}

Result<std::unique_ptr<db::Store>> open_stored(const std::string& path) {
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<db::Store> store, db::open({.path = path, .mode = db::OpenMode::kReadOnly}));
  if (store->mode() == db::OpenMode::kInMemory && path != ":memory:") {
    if (exists(path)) return data_loss(store->message());
    return std::unique_ptr<db::Store>();
  }
  if (!store->message().empty()) note(store->message());
  return store;
}

}  // namespace hone::cli
