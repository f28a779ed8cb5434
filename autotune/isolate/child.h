// A worker as the tuner sees it: a process with a socket and a shared page, that may die or fall silent at any moment.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "autotune/isolate/message.h"
#include "autotune/isolate/page.h"

namespace hone::autotune {

struct WorkerCommand {
  std::string executable;  // a path; it ends up in run_worker() (worker.h)
  std::vector<std::string> arguments;

  // The executable for people: what "/proc/self/exe" stands for.
  std::string name() const;
};

class Child {
 public:
  // Starts the process; it says Hello when it is up. Error: unavailable, naming what could not be had.
  static Result<std::unique_ptr<Child>> start(const WorkerCommand& command);
  // Ends it at once.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // False: it does not listen any more.
  bool send(const Message& message);
  // No question will follow for a while: the worker gives up its CPU at once.
  void rest() { page_->more_to_come.store(false, std::memory_order_relaxed); }

  enum class Got { kMessage, kNonsense, kDeath, kSilence, kStopped };
  // Waits for the next message. kSilence: it has spent `limit` seconds on one and the same step. A process that got
  // less than half of the CPU time of those seconds is given twice as long, since on a busy machine it may simply
  // not have run; and seconds in which this process did not run either (stopped, machine asleep) do not count.
  //
  // `watching` is for answers that are a matter of microseconds: being woken up costs a virtual machine 25 to 100 of
  // them. Meanwhile this thread keeps a CPU busy, so only where the worker can do without that one.
  //
  // kStopped: `stop` was set, and a quarter of a second was not enough for the answer.
  Got receive(double limit, Message* message, bool watching = false, const std::atomic<bool>* stop = nullptr);

  // Ends it at once if it lives, and says how it ended: "SIGSEGV (invalid memory access)", "exited with code 3".
  const std::string& end();
  Step step() const { return page_->step(); }
  pid_t pid() const { return pid_; }

 private:
  Child() = default;
  Got read(Message* message);
  double cpu_seconds() const;

  pid_t pid_ = -1;
  int socket_ = -1;
  SharedPage* page_ = nullptr;
  uint32_t answers_ = 0;  // received
  bool closed_ = false;   // it has closed its end
  std::string how_;       // it ended; "" while it lives
  std::string buffer_;
};

}  // namespace hone::autotune
