// Waits until the worker threads of the library that ran last have gone to sleep. After a parallel call they spin for a
// while in case there is another: OpenBLAS's for 0.1 s, OpenMP's for some milliseconds (Xeon with AMX, 2 CPUs). Whoever
// is measured next would share its CPUs with them, and interleaved rounds would measure the neighbour.
#pragma once

#include <time.h>

#include <chrono>
#include <thread>

namespace hone::peers {

// True when the other threads of this process used less than a twentieth of a CPU in two windows of a millisecond in a
// row; false when that did not happen within `most`.
inline bool settle(std::chrono::milliseconds most = std::chrono::milliseconds(300)) {
  using Clock = std::chrono::steady_clock;
  auto seconds = [](clockid_t clock) {
    timespec t{};
    clock_gettime(clock, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  auto used_by_others = [&] { return seconds(CLOCK_PROCESS_CPUTIME_ID) - seconds(CLOCK_THREAD_CPUTIME_ID); };
  const Clock::time_point give_up = Clock::now() + most;
  for (int quiet = 0; quiet < 2;) {
    const Clock::time_point begin = Clock::now();
    if (begin >= give_up) return false;
    const double before = used_by_others();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const std::chrono::duration<double> window = Clock::now() - begin;
    quiet = used_by_others() - before < 0.05 * window.count() ? quiet + 1 : 0;
  }
  return true;
}

}  // namespace hone::peers
