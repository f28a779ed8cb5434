// See region_internal.h.
#include <fmt/format.h>
#include <pthread.h>

#include <stdexcept>

#include "engine/runtime/region_internal.h"

namespace hone::runtime {
namespace {

thread_local bool t_in_region = false;
thread_local CurrentNode t_node;

// How long a caller spins for the last helper before it sleeps. Ranges of one op take about equally long, so most waits
// are short; a helper that lost its CPU is away for milliseconds.
constexpr int kSpins = 1000;

// `e.what()` with the number of later failures; the object, and so its type, stays. Assigning to the part of an
// exception that holds the message is what std::runtime_error and std::logic_error allow.
template <typename Error>
void add_count(Error& e, int64_t later) {
  e = Error(fmt::format("{} (and {} more of its ranges failed)", e.what(), later));
}

}  // namespace

bool in_region() { return t_in_region; }

const CurrentNode& current_node() { return t_node; }

NodeScope::NodeScope(std::string_view node, Split split)
    : outer_node_(t_node.name), outer_forbidden_(!t_node.may_split) {
  t_node.name = node;
  t_node.may_split = split == Split::kAllowed && !outer_forbidden_;
}

NodeScope::~NodeScope() { t_node = {outer_node_, !outer_forbidden_}; }

uint32_t process_number() {
  static std::atomic<uint32_t> number{0};
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { number.fetch_add(1, std::memory_order_relaxed); });
  return number.load(std::memory_order_relaxed);
}

RegionScope::RegionScope(const FloatControl& of_caller) : own_(FloatControl::current()), outer_(t_in_region) {
  of_caller.apply();
  t_in_region = true;
}

RegionScope::~RegionScope() {
  t_in_region = outer_;
  own_.apply();
}

void Region::run(int64_t task) noexcept {
  if (failures() > 0) return;
  const RegionScope scope(of_caller_);
  const TaskRange range = task_range(n_, tasks_, task);
  try {
    body_.fn(body_.context, range.begin, range.end);
  } catch (...) {
    if (failures_.fetch_add(1, std::memory_order_relaxed) == 0) first_ = std::current_exception();
  }
}

void Region::rethrow() {
  if (first_ == nullptr) return;
  const int64_t later = failures() - 1;
  if (later == 0) std::rethrow_exception(first_);
  try {
    std::rethrow_exception(first_);
  } catch (std::runtime_error& e) {
    add_count(e, later);
    throw;
  } catch (std::logic_error& e) {
    add_count(e, later);
    throw;
  }
}

void Queue::open(Region& region) {
  const auto helped = static_cast<int32_t>(region.tasks() - 1);
  region_ = &region;
  running_.store(helped, std::memory_order_relaxed);
  const uint64_t number = (word_.load(std::memory_order_relaxed) | kLeft) + 1;
  // Sequentially consistent, as has_work(): a pool that publishes and then looks for sleepers, and a helper that says
  // that it sleeps and then looks for work, must not both miss the other.
  word_.store(number | static_cast<uint64_t>(helped), std::memory_order_seq_cst);
}

bool Queue::claim_and_run() {
  uint64_t word = word_.load(std::memory_order_acquire);
  do {
    if ((word & kLeft) == 0) return false;
  } while (!word_.compare_exchange_weak(word, word - 1, std::memory_order_acquire));
  region_->run(region_->tasks() - static_cast<int64_t>(word & kLeft));
  // The last that this thread does for the region; its caller may now be gone. running_ is the queue's.
  if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
  return true;
}

bool Queue::help() {
  if (!claim_and_run()) return false;
  while (claim_and_run()) {
  }
  return true;
}

void Queue::run_and_finish(Region& region) {
  region.run(0);
  help();
  for (int spins = 0; running_.load(std::memory_order_acquire) > 0; ++spins) {
    if (spins < kSpins) {
      spin_pause();
    } else if (const int32_t running = running_.load(std::memory_order_acquire); running > 0) {
      running_.wait(running, std::memory_order_acquire);
    }
  }
}

}  // namespace hone::runtime
