// One page of memory that tuner and worker share: what the worker is doing, without a message for it. The worker writes
// it before every stage (one store, a nanosecond); the tuner looks when the worker has died or is late.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "autotune/measure/kernel_racer.h"

namespace hone::autotune {

// Descriptors that a worker is born with, behind the three standard ones.
inline constexpr int kSocketDescriptor = 3;
inline constexpr int kPageDescriptor = 4;
inline constexpr int kPageBytes = 4096;

struct Step {
  int candidate = 0;
  Stage stage = Stage::kIdle;
};

class SharedPage {
 public:
  // Two steps in a row are never the same number, even for the same candidate and stage.
  void set(const Step& step) {
    ++count_;
    step_.store(
        uint64_t{count_} << 40 | static_cast<uint64_t>(step.stage) << 32 | static_cast<uint32_t>(step.candidate),
        std::memory_order_relaxed);
  }
  uint64_t number() const { return step_.load(std::memory_order_relaxed); }
  Step step() const {
    const uint64_t n = number();
    const auto stage = static_cast<uint8_t>(n >> 32);
    if (stage > static_cast<uint8_t>(Stage::kTime)) return {};  // a wild store has hit the page
    return {static_cast<int>(static_cast<uint32_t>(n)), static_cast<Stage>(stage)};
  }

  std::atomic<int32_t> tuner{0};  // process id
  // Messages sent so far, counted after sending: who expects one soon watches the number instead of going to sleep.
  std::atomic<uint32_t> questions{0}, answers{0};
  // The tuner is about to ask again. False between two problems, when it may measure something itself.
  std::atomic<bool> more_to_come{true};

 private:
  std::atomic<uint64_t> step_{0};
  uint32_t count_ = 0;  // the worker's
};
// Waits until `count` is no longer `seen`, without giving up the CPU, for at most `longest`, and only while `worth_it`
// (null: always).
inline void watch(const std::atomic<uint32_t>& count, uint32_t seen, std::chrono::nanoseconds longest,
                  const std::atomic<bool>* worth_it = nullptr) {
  const auto end = std::chrono::steady_clock::now() + longest;
  while (count.load(std::memory_order_acquire) == seen && std::chrono::steady_clock::now() < end &&
         (worth_it == nullptr || worth_it->load(std::memory_order_relaxed))) {
    for (int i = 0; i < 16; ++i) __builtin_ia32_pause();
  }
}

static_assert(sizeof(SharedPage) <= kPageBytes);

}  // namespace hone::autotune
