// See worker.h. It runs in a sandbox (engine/base/sandbox.h); when idle it also ends as the socket does, and what may
// be allocated for a problem is limited to many times what its operands need.
#include "autotune/isolate/worker.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>
#include <new>

#include "autotune/isolate/message.h"
#include "autotune/isolate/page.h"
#include "autotune/measure/workload.h"
#include "engine/base/sandbox.h"
#include "engine/base/version.h"

namespace hone::autotune {
namespace {

// Beyond the operands: code generators, workspaces, guarded copies, thread stacks.
constexpr int64_t kMemoryAtLeast = int64_t{1} << 30;
constexpr int64_t kMemoryPerCpu = int64_t{16} << 20;
// B once for every panel width, and outputs to compare with.
constexpr int64_t kTimesOperands = 16;

// After an answer the next question comes within the time that a round takes to be stored and thought about. The worker
// stays awake for it, if the tuner has another CPU to do that on: on a virtual machine the first candidate after a
// sleep was slower, 512^3 by 5% in the median of three arms a round. Within a problem nobody else measures meanwhile;
// at its end the tuner says so on the page, since it then measures the ceiling on all CPUs.
constexpr std::chrono::milliseconds kWatch{20};

SharedPage* map_page() {
  void* page = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, kPageDescriptor, 0);
  return page == MAP_FAILED ? nullptr : static_cast<SharedPage*>(page);
}

bool is_socket(int fd) {
  int type = 0;
  socklen_t size = sizeof type;
  return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET;
}

void limit_memory_to(const op::Problem& problem, int cpus) {
  limit_memory(static_cast<double>(kMemoryAtLeast) + static_cast<double>(kMemoryPerCpu) * cpus +
               static_cast<double>(kTimesOperands) * operand_bytes(problem));
}

class Worker {
 public:
  explicit Worker(SharedPage& page) : page_(page) {}

  int run() {
    if (!send(HelloMessage{std::string(engine_label())})) return 1;
    std::string buffer(kMostMessageBytes, '\0');
    for (uint32_t questions = 0;; ++questions) {
      if (cpus_ > 1) watch(page_.questions, questions, kWatch, &page_.more_to_come);
      ssize_t got = 0;
      do got = recv(kSocketDescriptor, buffer.data(), buffer.size(), MSG_TRUNC);
      while (got < 0 && errno == EINTR);
      if (got <= 0) return 0;
      if (static_cast<size_t>(got) > buffer.size()) return 1;
      const std::optional<Message> message = decode(std::string_view(buffer).substr(0, static_cast<size_t>(got)));
      if (!message || !std::visit([this](const auto& m) { return on(m); }, *message)) return 1;
    }
  }

 private:
  bool send(const Message& message) {
    const std::string bytes = encode(message);
    if (::send(kSocketDescriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size()))
      return false;
    page_.answers.fetch_add(1, std::memory_order_release);
    return true;
  }

  // False: the message has no business here.
  template <typename Unexpected>
  bool on(const Unexpected&) {
    return false;
  }

  bool on(const ProblemMessage& m) {
    racer_.reset();
    candidates_.clear();
    return send(SetUpAnswer{set_up(m)});
  }

  Status set_up(const ProblemMessage& m) {
    HONE_ASSIGN_OR_RETURN(const op::Problem problem, op::parse_problem(m.text));
    limit_memory_to(problem, m.cpus);
    problem_ = problem;
    cpus_ = m.cpus;
    RacerOptions options{.cache = m.cold ? CacheMode::kCold : CacheMode::kWarm,
                         .seed = m.seed,
                         .peak = m.peak,
                         .cpus = m.cpus,
                         .schedule = m.schedule,
                         .on_stage = [this](int candidate, Stage stage) {
                           page_.set({candidate, stage});
                         }};
    HONE_ASSIGN_OR_RETURN(racer_, KernelRacer::create(problem, candidates_, clock_, options));
    return {};
  }

  bool on(const PrepareMessage& m) {
    constexpr int kMostCandidates = 10'000'000;
    if (racer_ == nullptr || m.candidate < 0 || m.candidate >= kMostCandidates) return false;
    const Result<op::Program> program = op::parse_program(problem_, m.program);
    if (!program.ok()) return send(PrepareAnswer{{db::Outcome::kRefused, program.status().message()}});
    if (candidates_.size() <= static_cast<size_t>(m.candidate))
      candidates_.resize(static_cast<size_t>(m.candidate) + 1);
    candidates_[static_cast<size_t>(m.candidate)] = {*program, m.codegen, m.threads};
    const Prepared prepared = racer_->prepare(m.candidate);
    page_.set({});
    return send(PrepareAnswer{prepared});
  }

  bool on(const RoundMessage& m) {
    if (racer_ == nullptr || !std::all_of(m.arms.begin(), m.arms.end(), [this](int arm) { return is_known(arm); }))
      return false;
    const int64_t begin = clock_.now_ns();
    RoundAnswer answer{.timings = racer_->round(m.arms)};
    answer.wall_ns = clock_.now_ns() - begin;
    page_.set({});
    return send(answer);
  }

  bool on(const ReleaseMessage& m) {
    if (racer_ == nullptr || !is_known(m.candidate)) return false;
    racer_->release(m.candidate);
    return true;
  }

  bool is_known(int candidate) const {
    return candidate >= 0 && static_cast<size_t>(candidate) < candidates_.size() &&
           !candidates_[static_cast<size_t>(candidate)].codegen.empty();
  }

  SharedPage& page_;
  int cpus_ = 1;
  SteadyClock clock_;
  std::vector<Candidate> candidates_;  // by the tuner's numbers; those that it has not named are empty
  op::Problem problem_;                // of the racer
  std::unique_ptr<KernelRacer> racer_;
};

}  // namespace

int run_worker() {
  if (!is_socket(kSocketDescriptor)) return 2;
  SharedPage* page = map_page();
  if (page == nullptr) return 2;
  int code = 0;
  try {
    code = enter_sandbox(page->tuner) ? Worker(*page).run() : 0;
  } catch (const std::bad_alloc&) {
    _exit(kOutOfMemoryCode);
  } catch (...) {
    code = 1;
  }
  // At once: what a candidate has left behind must not be torn down in an order that crashes or waits.
  std::fflush(nullptr);
  _exit(code);
}

}  // namespace hone::autotune
