// See child.h.
//
// posix_spawn and an executable of its own instead of fork(): a forked child of a process with threads may not even
// allocate, and it would share the tuner's heap pages, database file and locks.
#include "autotune/isolate/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <new>
#include <thread>

#include "engine/base/sandbox.h"

extern char** environ;

namespace hone::autotune {
namespace {

using Milliseconds = std::chrono::milliseconds;

// A dying process closes its socket some time before it can be reaped (its memory is given back first or afterwards).
constexpr int kReapMs = 2000;
// The limit is looked at in so many slices, each of which counts only if the same step was under way all along.
constexpr int kSlices = 4;
constexpr std::chrono::microseconds kWatch{1500};
constexpr int kPatience = 2;  // limits, for a process that hardly ran
// Who presses Ctrl-C does not wait longer than this for a candidate that hangs; a round that is about to end is kept.
constexpr Milliseconds kStopGrace{250};

Status cannot(std::string_view what, int error = errno) {
  return unavailable(fmt::format("cannot start a worker process: {}: {}", what, strerror(error)));
}

// Numbers from 10 up, so that none is in the way when they are moved to their fixed places.
struct Descriptor {
  int fd = -1;
  Descriptor() = default;
  explicit Descriptor(int from) {
    if (from < 0) return;
    fd = fcntl(from, F_DUPFD_CLOEXEC, 10);
    const int error = errno;
    close(from);
    errno = error;
  }
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
  Descriptor(Descriptor&& o) noexcept : fd(std::exchange(o.fd, -1)) {}
  Descriptor& operator=(Descriptor&& o) noexcept { return std::swap(fd, o.fd), *this; }
};

struct Actions {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  Actions() {
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
  }
  ~Actions() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  Actions(const Actions&) = delete;
  Actions& operator=(const Actions&) = delete;
};

// stdout carries the tuner's results: what a worker or a library in it prints goes to stderr. From its first moment the
// worker is deaf to what a terminal sends to all processes in front of it; the tuner ends it.
int spawn(const WorkerCommand& command, int socket, int page, pid_t* pid) {
  Actions a;
  posix_spawn_file_actions_addopen(&a.files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&a.files, STDERR_FILENO, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&a.files, socket, kSocketDescriptor);
  posix_spawn_file_actions_adddup2(&a.files, page, kPageDescriptor);
  posix_spawn_file_actions_addclosefrom_np(&a.files, kPageDescriptor + 1);
  sigset_t all, deaf;
  sigfillset(&all);
  sigemptyset(&deaf);
  for (int s : {SIGINT, SIGTERM, SIGQUIT, SIGHUP}) sigaddset(&deaf, s);
  posix_spawnattr_setsigdefault(&a.attributes, &all);
  posix_spawnattr_setsigmask(&a.attributes, &deaf);
  posix_spawnattr_setflags(&a.attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  std::vector<std::string> words = {command.executable};
  words.insert(words.end(), command.arguments.begin(), command.arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return posix_spawn(pid, command.executable.c_str(), &a.files, &a.attributes, argv.data(), environ);
}

}  // namespace

std::string WorkerCommand::name() const {
  std::error_code error;
  std::string target;
  if (executable.starts_with("/proc/")) target = std::filesystem::read_symlink(executable, error).string();
  return target.empty() ? executable : target;
}

Result<std::unique_ptr<Child>> Child::start(const WorkerCommand& command) {
  std::unique_ptr<Child> child(new Child);
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return cannot("socketpair");
  child->socket_ = ends[0];
  const Descriptor other(ends[1]);
  const Descriptor page(memfd_create("hone-worker", MFD_CLOEXEC));
  if (other.fd < 0) return cannot("descriptor");
  if (page.fd < 0 || ftruncate(page.fd, kPageBytes) != 0) return cannot("memfd_create");
  void* mapped = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, page.fd, 0);
  if (mapped == MAP_FAILED) return cannot("mmap");
  child->page_ = new (mapped) SharedPage;
  child->page_->tuner = getpid();
  child->buffer_.resize(kMostMessageBytes);
  if (const int error = spawn(command, other.fd, page.fd, &child->pid_); error != 0) {
    child->pid_ = -1;
    return cannot(command.name(), error);
  }
  return child;
}

Child::~Child() {
  (void)end();
  if (socket_ >= 0) close(socket_);
  if (page_ != nullptr) munmap(page_, kPageBytes);
}

bool Child::send(const Message& message) {
  const std::string bytes = encode(message);
  page_->more_to_come.store(true, std::memory_order_relaxed);
  while (!closed_) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent == static_cast<ssize_t>(bytes.size())) {
      page_->questions.fetch_add(1, std::memory_order_release);
      return true;
    }
    if (sent >= 0 || errno != EINTR) break;
  }
  return false;
}

Child::Got Child::read(Message* message) {
  const ssize_t got = recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT | MSG_TRUNC);
  if (got <= 0) {
    closed_ = true;
    return Got::kDeath;
  }
  ++answers_;
  if (static_cast<size_t>(got) > buffer_.size()) return Got::kNonsense;
  std::optional<Message> decoded = decode(std::string_view(buffer_).substr(0, static_cast<size_t>(got)));
  if (!decoded) return Got::kNonsense;
  *message = std::move(*decoded);
  return Got::kMessage;
}

Child::Got Child::receive(double limit, Message* message, bool watching, const std::atomic<bool>* stop) {
  if (watching) watch(page_->answers, answers_, kWatch);
  const auto slice = Milliseconds(std::max<int64_t>(1, static_cast<int64_t>(limit * 1000 / kSlices)));
  uint64_t step = page_->number();
  double cpu = cpu_seconds();
  int slices = 0;
  auto slice_end = std::chrono::steady_clock::now() + slice;
  while (!closed_) {
    pollfd ready{socket_, POLLIN, 0};
    const auto now = std::chrono::steady_clock::now();
    auto left = std::chrono::ceil<Milliseconds>(std::max(slice_end - now, decltype(slice_end - now)::zero()));
    if (stop != nullptr) left = std::min(left, kStopGrace);
    const int n = poll(&ready, 1, static_cast<int>(left.count()));
    if (n > 0) return read(message);
    if (n < 0 && errno != EINTR) break;
    if (n == 0 && stop != nullptr && stop->load()) return Got::kStopped;
    if (std::chrono::steady_clock::now() < slice_end) continue;  // a signal, or to look at `stop`
    slice_end = std::chrono::steady_clock::now() + slice;
    if (page_->number() != step) {
      step = page_->number();
      cpu = cpu_seconds();
      slices = 0;
      continue;
    }
    ++slices;
    const bool ran = cpu_seconds() - cpu >= limit / 2;
    if (slices >= kSlices * kPatience || (slices >= kSlices && ran)) return Got::kSilence;
  }
  return Got::kDeath;
}

double Child::cpu_seconds() const {
  clockid_t clock;
  timespec t{};
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &t) != 0) return 0;
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

const std::string& Child::end() {
  if (pid_ < 0 || !how_.empty()) return how_;
  int status = 0;
  pid_t reaped = 0;
  // One that has hung up is about to end by itself, and how is what we want to know.
  for (int ms = 0; closed_ && ms < kReapMs && reaped == 0; ++ms) {
    reaped = waitpid(pid_, &status, WNOHANG);
    if (reaped == 0) std::this_thread::sleep_for(Milliseconds(1));
  }
  if (reaped == 0) {
    kill(pid_, SIGKILL);
    while ((reaped = waitpid(pid_, &status, 0)) < 0 && errno == EINTR) {
    }
    how_ = "killed";
    return how_;
  }
  // Where the program ignores SIGCHLD the kernel reaps for it, and nobody knows how.
  how_ = reaped == pid_ ? exit_text(status) : "ended, and how is not known";
  return how_;
}

}  // namespace hone::autotune
