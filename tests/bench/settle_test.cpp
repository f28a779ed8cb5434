#include "bench/peers/settle.h"

#include <gtest/gtest.h>

#include <atomic>

namespace hone::peers {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

TEST(PeersSettle, AQuietProcessIsNotKeptWaiting) {
  // Up to a second: a loaded machine may not run this thread for a while, and that is no fault of settle's.
  const Clock::time_point begin = Clock::now();
  EXPECT_TRUE(settle(milliseconds(1000)));
  EXPECT_LT(Clock::now() - begin, milliseconds(1000));
}

// A machine that is busy with other things may not run the spinner for a while, and it then looks asleep: one attempt
// in five must see it.
TEST(PeersSettle, WaitsForASpinningThread) {
  bool waited = false;
  for (int attempt = 0; attempt < 5 && !waited; ++attempt) {
    std::atomic<bool> begun{false}, done{false};
    std::thread spinner([&] {
      begun = true;
      const Clock::time_point end = Clock::now() + milliseconds(30);
      while (Clock::now() < end) continue;
      done = true;
    });
    while (!begun) std::this_thread::yield();
    EXPECT_TRUE(settle(milliseconds(20000)));
    waited = done;
    spinner.join();
  }
  EXPECT_TRUE(waited);
}

TEST(PeersSettle, GivesUpOnAThreadThatNeverSleeps) {
  std::atomic<bool> stop{false};
  std::thread spinner([&] {
    while (!stop) continue;
  });
  const Clock::time_point begin = Clock::now();
  EXPECT_FALSE(settle(milliseconds(40)));
  EXPECT_GE(Clock::now() - begin, milliseconds(40));
  stop = true;
  spinner.join();
}

}  // namespace
}  // namespace hone::peers
