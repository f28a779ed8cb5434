// See fuzz_worker.h.
#include "tools/hone/fuzz_worker.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <new>

#include "engine/base/sandbox.h"

namespace hone::cli {
namespace {

constexpr size_t kStageBytes = 256;
constexpr int kAsleep = 8;  // limits, for a process that does not compute
// Beyond what it has when it starts: code generators and the operands of small programs. What eats memory is to be
// found out soon, as its shrinking asks many times.
constexpr double kMemory = 512 << 20;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Status cannot(std::string_view what) {
  return unavailable(fmt::format("cannot start a worker process: {}: {}", what, strerror(errno)));
}

bool write_all(int socket, const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t sent = ::send(socket, at, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent, size -= static_cast<size_t>(sent);
  }
  return true;
}
bool read_all(int socket, void* data, size_t size) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = recv(socket, at, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got, size -= static_cast<size_t>(got);
  }
  return true;
}
// A text: its length, then its bytes.
bool write_text(int socket, std::string_view text) {
  const uint64_t size = text.size();
  return write_all(socket, &size, sizeof size) && write_all(socket, text.data(), text.size());
}
std::optional<std::string> read_text(int socket) {
  constexpr uint64_t kMost = uint64_t{64} << 20;  // a child that went mad may say anything
  uint64_t size = 0;
  if (!read_all(socket, &size, sizeof size) || size > kMost) return std::nullopt;
  std::string text(size, '\0');
  if (!read_all(socket, text.data(), size)) return std::nullopt;
  return text;
}

}  // namespace

Result<std::unique_ptr<FuzzWorker>> FuzzWorker::start(const Work& work) {
  std::unique_ptr<FuzzWorker> worker(new FuzzWorker);
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return cannot("socketpair");
  worker->socket_ = ends[0];
  void* page = mmap(nullptr, kStageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    close(ends[1]);
    return cannot("mmap");
  }
  worker->stage_ = static_cast<char*>(page);
  std::fflush(nullptr);  // or both would write what is still buffered
  const pid_t parent = getpid();
  worker->pid_ = fork();
  if (worker->pid_ == 0) {
    close(ends[0]);
    serve(work, ends[1], worker->stage_, parent);
  }
  close(ends[1]);
  if (worker->pid_ < 0) return cannot("fork");
  return worker;
}

void FuzzWorker::serve(const Work& work, int socket, char* stage, pid_t parent) {
  // What a terminal sends to all processes in front of it is the parent's business.
  sigset_t deaf;
  sigemptyset(&deaf);
  for (const int s : {SIGINT, SIGTERM, SIGQUIT, SIGHUP}) sigaddset(&deaf, s);
  sigprocmask(SIG_BLOCK, &deaf, nullptr);
  dup2(STDERR_FILENO, STDOUT_FILENO);  // stdout carries results
  if (!enter_sandbox(parent)) _exit(0);
  limit_memory(kMemory);
  const jit::Progress progress = [stage](std::string_view what) {
    const size_t size = std::min(what.size(), kStageBytes - 1);
    std::memcpy(stage, what.data(), size);
    stage[size] = '\0';
  };
  try {
    while (const std::optional<std::string> request = read_text(socket)) {
      progress("");
      if (!write_text(socket, work(*request, progress))) break;
    }
  } catch (const std::bad_alloc&) {
    _exit(kOutOfMemoryCode);
  }
  // At once: what a program has left behind must not be torn down in an order that crashes or waits.
  _exit(0);
}

FuzzWorker::~FuzzWorker() {
  if (pid_ > 0) (void)ended(Answer::Kind::kHung);
  if (socket_ >= 0) close(socket_);
  if (stage_ != nullptr) munmap(stage_, kStageBytes);
}

bool FuzzWorker::send(std::string_view request) {
  sent_ = now();
  cpu_when_sent_ = cpu_seconds();
  return write_text(socket_, request);
}

std::optional<FuzzWorker::Answer> FuzzWorker::poll(double limit) {
  pollfd ready{socket_, POLLIN, 0};
  if (::poll(&ready, 1, 0) > 0) {
    std::optional<std::string> text = read_text(socket_);
    if (!text) return ended(Answer::Kind::kDied);
    return Answer{Answer::Kind::kText, std::move(*text), ""};
  }
  const bool computed = cpu_seconds() - cpu_when_sent_ > limit;
  if (computed || now() - sent_ > kAsleep * limit) return ended(Answer::Kind::kHung);
  return std::nullopt;
}

std::optional<FuzzWorker::Answer> FuzzWorker::wait(double limit, const std::atomic<bool>& stop) {
  constexpr int kLookMs = 50;
  while (!stop.load()) {
    if (std::optional<Answer> answer = poll(limit)) return answer;
    pollfd ready{socket_, POLLIN, 0};
    (void)::poll(&ready, 1, kLookMs);
  }
  return std::nullopt;
}

double FuzzWorker::cpu_seconds() const {
  clockid_t clock;
  timespec t{};
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &t) != 0) return 0;
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

FuzzWorker::Answer FuzzWorker::ended(Answer::Kind kind) {
  constexpr int kReapMs = 2000;  // one that has closed its socket is about to end, and how is what we want to know
  int status = 0;
  pid_t reaped = 0;
  for (int ms = 0; kind == Answer::Kind::kDied && reaped == 0 && ms < kReapMs; ++ms) {
    reaped = waitpid(pid_, &status, WNOHANG);
    if (reaped == 0) usleep(1000);
  }
  if (reaped == 0) {
    kill(pid_, SIGKILL);
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
  }
  pid_ = -1;
  const std::string how = kind == Answer::Kind::kHung ? kHangs : exit_text(status);
  return {kind, how, std::string(stage_, strnlen(stage_, kStageBytes))};
}

}  // namespace hone::cli
