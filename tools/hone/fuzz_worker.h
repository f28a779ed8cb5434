// A child process that answers texts with texts, and may crash or hang over one: what random programs run in.
//
// Forked, not started as a program of its own like the tuner's worker (autotune/isolate): `hone fuzz` has no threads
// and compiles nothing itself, so a fork is safe, and a new worker is there in a millisecond.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "jit/fuzz/differential.h"

namespace hone::cli {

inline constexpr const char* kHangs = "does not come back";

class FuzzWorker {
 public:
  // Runs in the child. What it last told `progress` is known when it does not come back.
  using Work = std::function<std::string(const std::string& request, const jit::Progress& progress)>;
  // Error: unavailable, naming what could not be had.
  static Result<std::unique_ptr<FuzzWorker>> start(const Work& work);
  // Ends the child at once.
  ~FuzzWorker();
  FuzzWorker(const FuzzWorker&) = delete;
  FuzzWorker& operator=(const FuzzWorker&) = delete;

  // False: it is dead.
  bool send(std::string_view request);
  int descriptor() const { return socket_; }  // readable when there is an answer

  struct Answer {
    enum class Kind { kText, kDied, kHung };
    Kind kind = Kind::kText;
    std::string text;   // the answer; or how it ended
    std::string stage;  // what it last said that it was doing; "" for an answer
  };
  // The answer to the last request, if it is there. kHung: the child has computed for `limit` seconds, or slept for
  // eight times as long; it has been ended. After kDied and kHung there is no further use for this worker.
  std::optional<Answer> poll(double limit);
  // The same, and waits for it. nullopt: `stop` was set.
  std::optional<Answer> wait(double limit, const std::atomic<bool>& stop);

 private:
  FuzzWorker() = default;
  [[noreturn]] static void serve(const Work& work, int socket, char* stage, pid_t parent);
  double cpu_seconds() const;
  Answer ended(Answer::Kind kind);

  pid_t pid_ = -1;
  int socket_ = -1;
  char* stage_ = nullptr;  // shared
  double sent_ = 0, cpu_when_sent_ = 0;
};

}  // namespace hone::cli
