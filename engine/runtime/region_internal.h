// Private to engine/runtime: what a thread is while it runs a part of a region.
#pragma once

#include <cfenv>
#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace hone::runtime {

// True while the calling thread runs a range of any Schedule's region; a region opened then runs inline.
bool in_region();

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

}  // namespace hone::runtime
