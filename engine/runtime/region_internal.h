// Private to engine/runtime: a region while it runs, and the queue that its chunks are claimed from.
//
// The caller of a region must return as soon as every claimed chunk has finished, and whoever was asked to help may
// come at any time later. So what helpers look at first, the Queue, belongs to the pool and lives as long as it; the
// Region lives on the caller's stack and is touched only by who has claimed one of its chunks, until it reports that
// chunk as finished. Opening a region allocates nothing.
#pragma once

#include <atomic>
#include <cfenv>
#include <cstdint>
#include <exception>

#include "engine/base/env.h"
#include "engine/runtime/schedule.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace hone::runtime {

// True while the calling thread runs a range of any Schedule's region; a region opened then runs inline.
bool in_region();

// What NodeScope says of this thread.
struct CurrentNode {
  std::string_view name;  // "": the tag's
  bool may_split = true;
};
const CurrentNode& current_node();

// Tells a processor that this is a loop that waits.
inline void spin_pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Changes in every child of fork(), so that what threads belong to can be told from a number.
uint32_t process_number();

// The floating-point control of a thread: rounding, flush-to-zero, denormals-are-zero, exception masks. The sticky
// exception flags belong to whoever raised them and are not carried over.
class FloatControl {
 public:
#if defined(__x86_64__)
  static FloatControl current() { return FloatControl(_mm_getcsr()); }
  void apply() const { _mm_setcsr((_mm_getcsr() & kFlags) | (word_ & ~kFlags)); }

 private:
  static constexpr unsigned kFlags = 0x3f;
  explicit FloatControl(unsigned word) : word_(word) {}
  unsigned word_;
#else
  static FloatControl current() {
    FloatControl control;
    std::fegetenv(&control.environment_);
    return control;
  }
  void apply() const { std::fesetenv(&environment_); }

 private:
  FloatControl() = default;
  std::fenv_t environment_;
#endif
};

// Marks this thread as inside a region, under the caller's floating-point control, until the end of the scope.
class RegionScope {
 public:
  explicit RegionScope(const FloatControl& of_caller);
  ~RegionScope();
  RegionScope(const RegionScope&) = delete;
  RegionScope& operator=(const RegionScope&) = delete;

 private:
  FloatControl own_;
  bool outer_;
};

// One call of for_range that was cut into at least two tasks.
class Region {
 public:
  Region(int64_t n, int64_t tasks, RangeBody body) : n_(n), tasks_(tasks), body_(body) {}

  int64_t tasks() const { return tasks_; }
  // Task `task` on this thread, unless another has failed. Keeps what it throws.
  void run(int64_t task) noexcept;

  // Once every task has ended:
  int64_t failures() const { return failures_.load(std::memory_order_relaxed); }
  // Throws the first failure, if there was one.
  void rethrow();

 private:
  const int64_t n_, tasks_;
  const RangeBody body_;
  const FloatControl of_caller_ = FloatControl::current();
  std::atomic<int64_t> failures_{0};
  std::exception_ptr first_;  // written by who counts the first failure
};

// Where tasks of one region at a time are claimed. Belongs to a pool.
class Queue {
 public:
  // The caller's side, in this order. All tasks but the first can be claimed from open() on.
  void open(Region& region);
  void run_and_finish(Region& region);  // the first task, what can still be claimed, and then waits for helpers

  // A helper's side, at any time: runs tasks until none is left. False: there was none.
  bool help();
  bool has_work() const { return (word_.load(std::memory_order_seq_cst) & kLeft) != 0; }

 private:
  // Number of the region, and how many of its tasks nobody has claimed. The number makes sure that a compare-and-swap
  // which succeeds claims from the region that its thread saw.
  static constexpr uint64_t kLeft = 0xffff;
  static_assert(kMaxThreads <= kLeft);
  bool claim_and_run();

  alignas(64) std::atomic<uint64_t> word_{0};
  Region* region_ = nullptr;                     // of the tasks that word_ counts
  alignas(64) std::atomic<int32_t> running_{0};  // tasks but the first that have not ended
};

}  // namespace hone::runtime
