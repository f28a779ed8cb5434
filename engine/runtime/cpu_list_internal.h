// Private to engine/runtime: which CPU each worker of a dedicated team sits on.
#pragma once

#include <pthread.h>

#include <string>
#include <vector>

namespace hone::runtime {

// CPUs that the calling thread may run on, in the order in which a team should take them: one of each core before the
// second of any. `root` is "" for the running system's /sys. Empty when the kernel does not say.
std::vector<int> usable_cpu_list(const std::string& root = "");

// `cpus` so that all first siblings come first, then all second ones. core_of[i]: any number that is the same for CPUs
// of one core.
std::vector<int> one_of_each_core_first(const std::vector<int>& cpus, const std::vector<int>& core_of);

bool pin_thread(pthread_t thread, int cpu);

// Worker i sits on cpu(i), no two on the same, none on the caller's. Deciding only: whoever asks does the pinning.
class Seats {
 public:
  explicit Seats(std::vector<int> cpus);
  // One more worker. The caller is on `caller_cpu` now. Without a CPU that is free the worker has no seat: cpu() is -1.
  void add(int caller_cpu);
  int cpu(int worker) const { return cpu_[static_cast<size_t>(worker)]; }

  // The caller is on `caller_cpu`: the worker that had to give up its seat and has another one now; -1: none.
  int make_way(int caller_cpu) {
    const auto at = static_cast<size_t>(caller_cpu);
    if (at >= worker_on_.size() || worker_on_[at] < 0) return -1;
    return move(worker_on_[at]);
  }

 private:
  int move(int worker);
  void sit(int worker, int cpu);

  std::vector<int> cpus_;
  std::vector<int> cpu_;        // by worker
  std::vector<int> worker_on_;  // by CPU; -1: nobody
};

}  // namespace hone::runtime
