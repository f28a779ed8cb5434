// See sandbox.h.
#include "engine/base/sandbox.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>

#include "engine/base/memory.h"

namespace hone {
namespace {

[[noreturn]] void out_of_memory() { _exit(kOutOfMemoryCode); }

// Private writable memory that this process has now, as RLIMIT_DATA counts it. (A sanitizer's shadow is terabytes.)
int64_t data_bytes() {
  long pages[6] = {};
  FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  const int n =
      std::fscanf(file, "%ld %ld %ld %ld %ld %ld", &pages[0], &pages[1], &pages[2], &pages[3], &pages[4], &pages[5]);
  std::fclose(file);
  return n == 6 ? pages[5] * sysconf(_SC_PAGESIZE) : 0;
}

std::string signal_text(int signal) {
  switch (signal) {
    case SIGILL:
      return "SIGILL (illegal instruction)";
    case SIGSEGV:
      return "SIGSEGV (invalid memory access)";
    case SIGBUS:
      return "SIGBUS (access beyond the end of a mapped file, or misaligned)";
    case SIGFPE:
      return "SIGFPE (arithmetic fault)";
    case SIGABRT:
      return "SIGABRT (aborted)";
    case SIGKILL:
      return "out of memory, most likely: SIGKILL (the kernel's out-of-memory killer, or somebody's hand)";
    default: {
      const char* name = sigabbrev_np(signal);
      return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
    }
  }
}

}  // namespace

bool enter_sandbox(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) return false;
  for (int s : {SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGTRAP}) signal(s, SIG_DFL);
  // 1 and not 0: the kernel pipes a core to a handler whatever the limit is, except for this value.
  const rlimit no_core{1, 1};
  setrlimit(RLIMIT_CORE, &no_core);
  if (FILE* file = std::fopen("/proc/self/oom_score_adj", "w"); file != nullptr) {
    std::fputs("1000", file);
    std::fclose(file);
  }
  std::set_new_handler(out_of_memory);
  return true;
}

void limit_memory(double bytes) {
  const int64_t now = data_bytes();
  if (now == 0) return;  // /proc is not there: the kernel's out-of-memory killer is what is left
  const double available = 0.9 * static_cast<double>(available_memory(""));
  rlimit limit{};
  getrlimit(RLIMIT_DATA, &limit);
  const double most = static_cast<double>(now) + std::min(bytes, available);
  limit.rlim_cur = std::min(limit.rlim_max, static_cast<rlim_t>(std::min(most, 0x1p62)));
  setrlimit(RLIMIT_DATA, &limit);
}

std::string exit_text(int status) {
  if (WIFSIGNALED(status)) return signal_text(WTERMSIG(status));
  if (WEXITSTATUS(status) == kOutOfMemoryCode) return "out of memory";
  return fmt::format("exited with code {}", WEXITSTATUS(status));
}

}  // namespace hone
