// How a tune shows on stderr what it is doing.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "autotune/tune.h"
#include "tools/hone/status_line.h"

namespace hone::cli {

class ProgressLine {
 public:
  explicit ProgressLine(size_t problems) : problems_(problems) {}

  void begin(size_t index, double seconds_after) {
    index_ = index;
    seconds_after_ = seconds_after;
    last_phase_.clear();
  }

  void show(const autotune::Progress& p) {
    const bool phase_changed = last_phase_ != p.phase;
    last_phase_ = p.phase;
    line_.show(
        [&] {
          return fmt::format("[{}/{}] {}: {}, {} left, best {:+.1f}% against the incumbent, ETA {:.0f} s", index_ + 1,
                             problems_, p.problem, p.phase, p.candidates_left, (1 / p.best_ratio - 1) * 100,
                             std::max(p.seconds_left + seconds_after_, 0.0));
        },
        phase_changed);
  }

  void clear() { line_.clear(); }

 private:
  StatusLine line_;
  size_t problems_, index_ = 0;
  double seconds_after_ = 0;
  std::string last_phase_;
};

}  // namespace hone::cli
