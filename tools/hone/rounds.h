// How many rounds a contest gets: until its seconds are over and there are enough for an interval.
#pragma once

namespace hone::cli {

struct RoundBudget {
  int repetitions = 25;  // at most
  double seconds = 5;

  bool over(int rounds, double elapsed_seconds) const {
    if (rounds >= repetitions) return true;
    return (rounds >= kFewest && elapsed_seconds > seconds) ||
           (rounds >= kFewestLong && elapsed_seconds > kPatience * seconds);
  }

 private:
  static constexpr int kFewest = 5;
  // Of problems whose five rounds would take kPatience times as long as they may.
  static constexpr int kFewestLong = 3;
  static constexpr double kPatience = 5;
};

// A call that takes longer needs no warming up: its check was that.
inline constexpr double kLongCallNs = 50e6;

}  // namespace hone::cli
