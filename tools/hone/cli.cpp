// See cli.h.
#include "tools/hone/cli.h"

#include <fmt/format.h>

#include <charconv>
#include <csignal>
#include <cstdio>

#include "jit/codegen.h"

namespace hone::cli {
namespace {

std::atomic<bool> g_interrupted{false};
std::string g_command_line;

void on_signal(int) {
  // The second one means it.
  if (g_interrupted.exchange(true)) std::_Exit(kInterrupted);
}

std::string shell_quoted(const std::string& word) {
  constexpr std::string_view kSafe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,@%";
  if (!word.empty() && word.find_first_not_of(kSafe) == std::string::npos) return word;
  std::string out = "'";
  for (char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

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

}  // namespace

const std::atomic<bool>& interrupted() { return g_interrupted; }

void install_signal_handlers() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

std::string command_line() { return g_command_line; }

void set_command_line(int argc, char** argv) {
  g_command_line = "hone";
  for (int i = 1; i < argc; ++i) g_command_line += " " + shell_quoted(argv[i]);
}

int fail(const Status& status) {
  note(fmt::format("error: {}", status.message()));
  note(fmt::format("repeat: {}", command_line()));
  const bool typed = status.code() == Code::kInvalidArgument;
  return typed ? kUsage : kFailed;
}

void note(const std::string& message) { fmt::print(stderr, "hone: {}\n", message); }

void ProblemArgs::add_to(CLI::App& command) {
  command.add_option("problem", problems,
                     "matmul:f32:m=..,n=..,k=..[,b=nn|nt|packed][:+bias+gelu...]; m, n, k take 1-8+1, 1-512*2, {1,4}");
  command.add_option("--shapes", shapes, "file with one problem a line")->check(CLI::ExistingFile);
}

Result<std::vector<matmul::Shape>> ProblemArgs::resolve() const {
  std::vector<matmul::Shape> shapes_in_order;
  for (const std::string& text : problems) {
    HONE_ASSIGN_OR_RETURN(std::vector<matmul::MatmulProblem> parsed, matmul::parse_problems(text));
    for (matmul::MatmulProblem& p : parsed) shapes_in_order.push_back({std::move(p), 1});
  }
  if (!shapes.empty()) {
    HONE_ASSIGN_OR_RETURN(std::vector<matmul::Shape> from_file, matmul::read_shape_file(shapes));
    shapes_in_order.insert(shapes_in_order.end(), from_file.begin(), from_file.end());
  }
  if (!shapes_in_order.empty()) return shapes_in_order;
  return matmul::parse_shapes(matmul::default_shapes_text(), "decoder.txt");
}

Result<double> parse_duration(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, text.data() + text.size());
  const double scale = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "ms" ? 1e-3 : 0;
  if (error != std::errc() || scale == 0 || !(value > 0) || value * scale > 1e6)
    return invalid_argument(fmt::format("'{}' is not a time: write 60s, 1.5m or 500ms", text));
  return value * scale;
}

Result<std::vector<int>> parse_threads(const std::string& text) {
  std::vector<int> threads;
  if (text.empty()) return threads;
  for (const std::string& part : split(text, ',')) {
    int value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || end != part.data() + part.size() || value < 1 || value > 1024)
      return invalid_argument(fmt::format("--threads takes numbers from 1 to 1024 with commas, got '{}'", text));
    threads.push_back(value);
  }
  return threads;
}

Result<std::vector<std::string>> parse_codegens(const std::string& text) {
  std::vector<std::string> names;
  if (text.empty()) return names;
  for (const std::string& part : split(text, ',')) {
    HONE_ASSIGN_OR_RETURN(jit::CodeGenerator * generator, jit::find_code_generator(part));
    names.emplace_back(generator->name());
  }
  return names;
}

Result<std::unique_ptr<db::Store>> open_store(const std::string& path, db::OpenMode mode) {
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<db::Store> store, db::open({.path = path, .mode = mode}));
  if (!store->message().empty()) note(store->message());
  return store;
}

}  // namespace hone::cli
