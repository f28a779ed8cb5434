// A Schedule with threads of its own, for regions that are over before a sleeping thread has woken.
//
// The caller opens the queue and goes to work; workers that have had a region lately are still spinning on the queue
// and see it within a cache miss. After kSpin without a region they sleep on `calls_` and burn nothing. To wake them is
// a system call that costs the caller an interrupt to another CPU, so spinning pays for gaps of about that length and
// is bounded by a few times it.
//
// Workers are pinned, each to a CPU of its own: a worker that shares a CPU with its caller or with another worker would
// make every region wait for the kernel's time slice. So there is one team a process, as large as the largest schedule
// of this kind that lives, and a region with fewer tasks leaves workers spinning in vain. The caller is nobody's to
// pin. Where it has wandered to the CPU of a worker, that worker moves to a CPU that is free; there is one, as a team
// has at most as many threads as CPUs.
//
// One caller at a time has the team; a second one runs inline (Schedule::for_range).
#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "engine/runtime/cpu_list_internal.h"
#include "engine/runtime/pools_internal.h"
#include "engine/runtime/region_internal.h"

namespace hone::runtime {
namespace {

using Clock = std::chrono::steady_clock;

// Waking costs a caller 10-20 us on a Granite Rapids guest; ops of a model follow one another within tens of us.
// OpenMP's 4 ms and OpenBLAS's 104 ms are what peers burn.
constexpr std::chrono::microseconds kSpin(200);
// Pauses between two looks at the clock, which costs about as much as one of them.
constexpr int kPauses = 32;

class Team {
 public:
  Team() : seats_(usable_cpu_list()) {}
  ~Team() {
    leave_.store(true);
    calls_.fetch_add(1);
    calls_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // Has at least so many workers from now on. Throws std::system_error when one cannot be started.
  void grow(int workers) {
    if (size_.load() >= workers) return;
    const std::lock_guard lock(mutex_);
    while (static_cast<int>(threads_.size()) < workers) {
      threads_.reserve(threads_.size() + 1);
      threads_.emplace_back([this] { work(); });
      seats_.add(sched_getcpu());
      pin(static_cast<int>(threads_.size()) - 1);
      size_.store(static_cast<int>(threads_.size()));
    }
  }

  // False: the team works for another caller, and nothing was run.
  bool run(Region& region) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    if (const int worker = seats_.make_way(sched_getcpu()); worker >= 0) pin(worker);
    queue_.open(region);
    calls_.fetch_add(1);
    calls_.notify_all();
    queue_.run_and_finish(region);
    return true;
  }

 private:
  void work() {
    while (true) {
      // Before leave_ is looked at: who leaves raises it first, so a wait for this value cannot miss that.
      const uint32_t calls = calls_.load();
      if (leave_.load()) return;
      spin();
      if (!queue_.help()) calls_.wait(calls);
    }
  }

  void spin() const {
    const Clock::time_point until = Clock::now() + kSpin;
    do {
      for (int i = 0; i < kPauses; ++i) {
        if (queue_.has_work()) return;
        spin_pause();
      }
    } while (Clock::now() < until);
  }

  // Where the kernel refuses, as the CPU has been taken from this process since, the worker stays where it is.
  void pin(int worker) { (void)pin_thread(threads_[static_cast<size_t>(worker)].native_handle(), seats_.cpu(worker)); }

  Queue queue_;
  alignas(64) std::atomic<uint32_t> calls_{0};
  std::atomic<bool> leave_{false};
  std::mutex mutex_;  // of who has the team, or makes it grow
  std::atomic<int> size_{0};
  Seats seats_;
  std::vector<std::thread> threads_;
};

// The team of this process, with at least `workers`: schedules for 2, 4 and 8 threads share it, as teams of their own
// would spin on each other's CPUs. A child of fork() has none of its parent's threads, and starts anew.
std::shared_ptr<Team> team_of_process(int workers) {
  struct Known {
    std::mutex mutex;
    std::weak_ptr<Team> team;
    uint32_t process = 0;
  };
  static Known* known = new Known;  // a schedule may be made while the process exits
  // A region may be the team's own, which cannot grow until that is over.
  if (in_region()) {
    auto separate = std::make_shared<Team>();
    separate->grow(workers);
    return separate;
  }
  const std::lock_guard lock(known->mutex);
  std::shared_ptr<Team> team = known->process == process_number() ? known->team.lock() : nullptr;
  if (team == nullptr) {
    team = std::make_shared<Team>();
    known->team = team;
    known->process = process_number();
  }
  team->grow(workers);
  return team;
}

class Dedicated final : public Schedule {
 public:
  Dedicated(const ScheduleRequest& requested, const ScheduleRequest& effective)
      : Schedule(to_string(effective), requested, effective), team_(team_of_process(effective.threads - 1)) {}
  ~Dedicated() override {
    if (!in_its_process()) new std::shared_ptr<Team>(std::move(team_));  // never ended: there is nobody to join
  }

 protected:
  bool run(Region& region) override {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    if (team_ == nullptr) throw_closed();
    return team_->run(region);
  }
  void end_threads() override {
    if (!in_its_process()) return;
    const std::lock_guard lock(mutex_);
    team_.reset();
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<Team> team_;
};

}  // namespace

Result<std::unique_ptr<Schedule>> make_dedicated(const ScheduleRequest& requested, const ScheduleRequest& effective) {
  try {
    return std::unique_ptr<Schedule>(std::make_unique<Dedicated>(requested, effective));
  } catch (const std::system_error& e) {
    return resource_exhausted(fmt::format("cannot start the threads of {}: {}", to_string(effective), e.what()));
  }
}

}  // namespace hone::runtime
