// Time as an argument: searches run on a fake clock in tests, with drift and outliers of our choosing.
#pragma once

#include <chrono>
#include <cstdint>

namespace hone::autotune {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t now_ns() = 0;  // monotonic
};

class SteadyClock final : public Clock {
 public:
  int64_t now_ns() override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace hone::autotune
