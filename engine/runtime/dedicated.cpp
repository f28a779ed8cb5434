// A Schedule with threads of its own, for regions that are over before TBB has woken a worker.
//
// One caller at a time has the team; a second one runs inline. Workers are asked by opening the queue and raising
// `calls_`; they spin on the queue for a while after each region and then sleep on calls_, burning nothing.
#include <fmt/format.h>

#include <mutex>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include "engine/runtime/pools_internal.h"
#include "engine/runtime/region_internal.h"

namespace hone::runtime {
namespace {

constexpr int kSpins = 4000;

class Team {
 public:
  explicit Team(int workers) {
    for (int i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Team() {
    leave_.store(true);
    calls_.fetch_add(1);
    calls_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void run(Region& region) {
    queue_.open(region);
    calls_.fetch_add(1);
    calls_.notify_all();
    queue_.run_and_finish(region);
  }

 private:
  void work() {
    while (true) {
      const uint32_t calls = calls_.load();
      if (leave_.load()) return;
      for (int spins = 0; spins < kSpins && !queue_.has_work() && calls_.load() == calls; ++spins) spin_pause();
      if (!queue_.help()) calls_.wait(calls);
    }
  }

  Queue queue_;
  alignas(64) std::atomic<uint32_t> calls_{0};
  std::atomic<bool> leave_{false};
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
    if (team_ == nullptr) throw std::logic_error(name() + " is closed; make a new schedule");
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
    return resource_exhausted(
        fmt::format("{} needs threads that cannot be started: {}", to_string(effective), e.what()));
  }
}

}  // namespace hone::runtime
