#include "tests/tools/run_hone.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>

namespace hone::cli_test {
namespace {

struct Ends {
  int read = -1, write = -1;
};

Ends make_pipe() {
  int fds[2] = {-1, -1};
  if (pipe2(fds, O_CLOEXEC) != 0) std::abort();
  return {fds[0], fds[1]};
}

Ends make_terminal() {
  const int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) std::abort();
  return {master, open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC)};
}

[[noreturn]] void become_hone(const std::vector<std::string>& args, const Setting& setting, int out, int err) {
  if (setting.out_file == "-") {
    close(STDOUT_FILENO);
  } else {
    if (!setting.out_file.empty()) out = open(setting.out_file.c_str(), O_WRONLY | O_CLOEXEC);
    dup2(out, STDOUT_FILENO);
  }
  if (!setting.in_file.empty()) dup2(open(setting.in_file.c_str(), O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  if (!setting.err_file.empty()) err = open(setting.err_file.c_str(), O_WRONLY | O_CLOEXEC);
  dup2(err, STDERR_FILENO);
  if (setting.file_limit > 0) {
    const rlimit limit{static_cast<rlim_t>(setting.file_limit), static_cast<rlim_t>(setting.file_limit)};
    setrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, SIG_IGN);  // then writing fails, as it does without space
  }
  std::vector<std::string> words = {HONE_BINARY}, variables;
  words.insert(words.end(), args.begin(), args.end());
  for (const auto& [name, value] : setting.env) variables.push_back(name + "=" + value);
  std::vector<char*> argv, envp;
  for (std::string& word : words) argv.push_back(word.data());
  for (std::string& variable : variables) envp.push_back(variable.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  execve(HONE_BINARY, argv.data(), envp.data());
  _exit(127);
}

// Reads both until both have ended; a terminal ends with EIO.
void collect(Outcome& outcome, int out, int err, pid_t child, const Setting& setting) {
  std::array<pollfd, 2> ends = {pollfd{out, POLLIN, 0}, pollfd{err, POLLIN, 0}};
  using Clock = std::chrono::steady_clock;
  const Clock::time_point never = Clock::time_point::max();
  Clock::time_point due = never;
  bool sent = setting.signal == 0;
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    const auto shows = [&](const std::string& text) { return text.find(setting.signal_at) != std::string::npos; };
    if (!sent && due == never && (shows(outcome.err) || shows(outcome.out)))
      due = Clock::now() + std::chrono::milliseconds(setting.signal_after_ms);
    if (!sent && Clock::now() >= due) {
      kill(child, setting.signal);
      sent = true;
    }
    const bool waiting = !sent && due != never;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(due - Clock::now());
    if (poll(ends.data(), ends.size(), waiting ? static_cast<int>(left.count()) + 1 : -1) < 0) break;
    for (size_t i = 0; i < ends.size(); ++i) {
      if (ends[i].fd < 0 || ends[i].revents == 0) continue;
      char buffer[4096];
      const ssize_t got = read(ends[i].fd, buffer, sizeof buffer);
      if (got <= 0) {
        ends[i].fd = -1;
        continue;
      }
      (i == 0 ? outcome.out : outcome.err).append(buffer, static_cast<size_t>(got));
    }
  }
}

}  // namespace

Outcome run_hone(const std::vector<std::string>& args, const Setting& setting) {
  const Ends out = make_pipe(), err = setting.terminal ? make_terminal() : make_pipe();
  const pid_t child = fork();
  if (child == 0) become_hone(args, setting, out.write, err.write);
  close(out.write);
  close(err.write);
  Outcome outcome;
  collect(outcome, out.read, err.read, child, setting);
  close(out.read);
  close(err.read);
  int status = 0;
  waitpid(child, &status, 0);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

bool has_terminals() {
  const int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (master >= 0) close(master);
  return master >= 0;
}

}  // namespace hone::cli_test
