// See link.h. A linker is a program that is started directly, with its messages read from a pipe.
#include "jit/aot/link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "engine/base/env.h"
#include "jit/aot/package.h"

extern char** environ;

namespace hone::jit {
namespace {

// Nothing of what is linked depends on when or where: no build id, no paths. Symbols that only a debugger reads go.
const std::vector<std::string> kOptions = {
    "--build-id=none", "--hash-style=gnu", "-z", "noexecstack", "-z", "defs", "-s"};

struct Finished {
  int code = -1;
  std::string output;  // of stderr and stdout
};

// Error: not_found when there is no such program; internal when it cannot be started.
Result<Finished> run_program(const std::vector<std::string>& words) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return resource_exhausted(fmt::format("pipe: {}", std::strerror(errno)));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int error = posix_spawnp(&child, arguments.front(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  Finished finished;
  if (error == 0) {
    char buffer[4096];
    for (ssize_t got = 1; got > 0 || (got < 0 && errno == EINTR);) {
      got = read(ends[0], buffer, sizeof buffer);
      if (got > 0) finished.output.append(buffer, static_cast<size_t>(got));
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    finished.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  close(ends[0]);
  if (error == ENOENT) return not_found(words.front());
  if (error != 0) return internal_error(fmt::format("cannot start {}: {}", words.front(), std::strerror(error)));
  return finished;
}

// Compilers take options of the linker behind -Wl, and start files unless told otherwise.
bool is_driver(const std::string& program) {
  const std::string name = std::filesystem::path(program).filename().string();
  for (const char* driver : {"gcc", "g++", "clang", "cc", "c++"})
    if (name.find(driver) != std::string::npos) return true;
  return false;
}

std::vector<std::string> command(const std::string& program, const std::vector<std::string>& objects,
                                 const std::string& output) {
  std::vector<std::string> words = {program, "-shared"};
  if (is_driver(program)) words.push_back("-nostdlib");
  for (const std::string& option : kOptions) words.push_back(is_driver(program) ? "-Wl," + option : option);
  words.insert(words.end(), {"-o", output});
  words.insert(words.end(), objects.begin(), objects.end());
  return words;
}

std::vector<std::string> candidates(const std::string& arch) {
  if (const std::optional<std::string> wish = env("HONE_LINKER")) return {*wish};
  std::vector<std::string> all = {"ld.lld-19", "/usr/lib/llvm-19/bin/ld.lld", "ld.lld"};
  const std::string prefix = arch == process_arch() ? "" : arch + "-linux-gnu-";
  all.insert(all.end(), {prefix + "ld", prefix + "gcc"});
  return all;
}

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '\r') c = ' ';
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text.size() > 400 ? text.substr(0, 400) + "..." : text;
}

}  // namespace

Status link_shared(const std::vector<std::string>& objects, const std::string& output, const std::string& arch) {
  std::string tried;
  for (const std::string& program : candidates(arch)) {
    const Result<Finished> finished = run_program(command(program, objects, output));
    if (finished.ok() && finished->code == 0) return {};
    if (finished.ok())
      return internal_error(
          fmt::format("{} failed with exit code {}: {}", program, finished->code, one_line(finished->output)));
    if (finished.status().code() != Code::kNotFound) return finished.status();
    tried += (tried.empty() ? "" : ", ") + program;
  }
  const bool wished = env("HONE_LINKER").has_value();
  return unsupported(fmt::format(
      "no linker for {} (tried {}): {}", arch, tried,
      wished ? "HONE_LINKER names no program" : "install lld-19, or set HONE_LINKER to a linker that has the target"));
}

}  // namespace hone::jit
