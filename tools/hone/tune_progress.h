// How a tune shows on stderr what it is doing.
#pragma once

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "autotune/tune.h"
#include "tools/hone/cli.h"

namespace hone::cli {

// One line that rewrites itself on a terminal, and a line now and then elsewhere.
class ProgressLine {
 public:
  explicit ProgressLine(size_t problems) : problems_(problems), terminal_(isatty(STDERR_FILENO) != 0) {}
  ~ProgressLine() { clear(); }

  void begin(size_t index, double seconds_after) {
    index_ = index;
    seconds_after_ = seconds_after;
    last_phase_.clear();
  }

  void show(const autotune::Progress& p) {
    const double now = static_cast<double>(clock_.now_ns()) * 1e-9;
    const bool phase_changed = last_phase_ != p.phase;
    if (now - last_ < (terminal_ ? 0.1 : 5.0) && !(phase_changed && !terminal_)) return;
    last_ = now;
    last_phase_ = p.phase;
    const std::string line = fmt::format("[{}/{}] {}: {}, {} left, best {:+.1f}% against the incumbent, ETA {:.0f} s",
                                         index_ + 1, problems_, p.problem, p.phase, p.candidates_left,
                                         (1 / p.best_ratio - 1) * 100, std::max(p.seconds_left + seconds_after_, 0.0));
    if (terminal_) {
      write_message(fmt::format("\r\x1b[2K{:.{}}", line, columns()));
      shown_ = true;
    } else {
      write_message(line + "\n");
    }
  }

  void clear() {
    if (shown_) write_message("\r\x1b[2K");
    shown_ = false;
  }

 private:
  // A line that wraps cannot be rewritten.
  static int columns() {
    winsize size{};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1 : 79;
  }

  autotune::SteadyClock clock_;
  size_t problems_, index_ = 0;
  bool terminal_, shown_ = false;
  double last_ = 0, seconds_after_ = 0;
  std::string last_phase_;
};

}  // namespace hone::cli
