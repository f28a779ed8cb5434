// A Schedule with threads of its own, for regions that are over before a sleeping thread has woken.
//
// The caller opens the queue and goes to work; workers that have had a region lately are still spinning on the queue
// and see it within a cache miss. After kSpin without a region they sleep on `calls_` and burn nothing. To wake them is
// a system call that costs the caller an interrupt to another CPU, so spinning pays for gaps of about that length and
// is bounded by a few times it.
//
// Workers are pinned, each to a CPU of its own: a worker that shares a CPU with its caller or with another worker would
// make every region wait for the kernel's time slice. The caller is nobody's to pin. Where it has wandered to the CPU
// of a worker, that worker moves to a CPU that is free; there is one, as a team has at most as many threads as CPUs.
//
// One caller at a time has the team; a second one runs inline (Schedule::for_range).
#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <stdexcept>
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
  explicit Team(int workers) : seats_(usable_cpu_list(), workers, sched_getcpu()) {
    threads_.reserve(static_cast<size_t>(workers));
    try {
      for (int i = 0; i < workers; ++i) {
        threads_.emplace_back([this] { work(); });
        pin(i);
      }
    } catch (...) {
      leave();
      throw;
    }
  }
  ~Team() { leave(); }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  void run(Region& region) {
    if (const int worker = seats_.make_way(sched_getcpu()); worker >= 0) pin(worker);
    queue_.open(region);
    calls_.fetch_add(1);
    calls_.notify_all();
    queue_.run_and_finish(region);
  }

 private:
  void work() {
    while (!leave_.load()) {
      const uint32_t calls = calls_.load();
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

  void leave() {
    leave_.store(true);
    calls_.fetch_add(1);
    calls_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  Queue queue_;
  alignas(64) std::atomic<uint32_t> calls_{0};
  std::atomic<bool> leave_{false};
  Seats seats_;
  std::vector<std::thread> threads_;
};

class Dedicated final : public Schedule {
 public:
  Dedicated(const ScheduleRequest& requested, const ScheduleRequest& effective)
      : Schedule(to_string(effective), requested, effective), team_(std::make_unique<Team>(effective.threads - 1)) {}
  ~Dedicated() override {
    if (!in_its_process()) (void)team_.release();  // there is nobody to join
  }

 protected:
  bool run(Region& region) override {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    if (team_ == nullptr) throw_closed();
    team_->run(region);
    return true;
  }
  void end_threads() override {
    if (!in_its_process()) return;
    const std::lock_guard lock(mutex_);
    team_.reset();
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<Team> team_;
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
