// Programs 0, 1, 2, .. of a seed through workers, as many at a time as there are jobs, and what came of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/hone/fuzz_check.h"
#include "tools/hone/fuzz_worker.h"

namespace hone::cli {

struct FuzzPlan {
  uint64_t seed = 1;
  uint64_t first = 0, end = 0;  // programs
  double seconds = 0;           // 0: all of them, however long it takes
  std::vector<std::string> kinds;
  std::vector<jit::CodeGenerator*> generators;
  int jobs = 1;
  double limit = 10;           // seconds of CPU time for one program
  uint64_t max_failures = 10;  // then it ends
};

struct FuzzFailure {
  std::optional<uint64_t> index;  // of the program; none: from a file
  std::string fault, details;
  std::optional<FuzzCase> program;  // none: making it already crashed
};

struct FuzzCounts {
  int64_t programs = 0, compiled = 0, refused = 0, invalid = 0, failed = 0;
};

struct FuzzOutcome {
  std::map<std::string, FuzzCounts> kinds;
  std::vector<FuzzFailure> failures;  // by index
  double seconds = 0;
  bool stopped = false;  // by the user

  FuzzCounts total() const;
};

// `report` is told now and then. Error: unavailable when no worker can be had.
Result<FuzzOutcome> run_campaign(const FuzzPlan& plan, const std::atomic<bool>& stop,
                                 const std::function<void(const FuzzOutcome&)>& report);

// One program in a worker of its own, which is replaced when it dies.
class FuzzJudge {
 public:
  FuzzJudge(const FuzzPlan& plan, const std::atomic<bool>& stop) : plan_(plan), stop_(stop) {}
  // nullopt: stopped, or no worker can be had.
  std::optional<Verdict> judge(const FuzzCase& c, double limit);

 private:
  const FuzzPlan& plan_;
  const std::atomic<bool>& stop_;
  std::unique_ptr<FuzzWorker> worker_;
};

// Smaller programs that fail like this one, for at most `seconds`; one of LoopIR where a code generator is at fault.
// `from`: what the LoopIR was lowered from, "" otherwise.
FuzzCase shrink_failure(const FuzzFailure& failure, const FuzzPlan& plan, double seconds, const std::atomic<bool>& stop,
                        std::string* from);

}  // namespace hone::cli
