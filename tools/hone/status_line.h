// What a long command is doing, on stderr: one line that rewrites itself on a terminal, and a line now and then
// elsewhere.
#pragma once

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "tools/hone/cli.h"

namespace hone::cli {

class StatusLine {
 public:
  StatusLine() : terminal_(isatty(STDERR_FILENO) != 0) {}
  ~StatusLine() { clear(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  // text() is asked for only when it is time for another line. `news`: away from a terminal it is time at once.
  template <typename Text>
  void show(const Text& text, bool news = false) {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> pause(terminal_ ? 0.1 : 5.0);
    if (shown_ && now - last_ < pause && !(news && !terminal_)) return;
    last_ = now;
    shown_ = true;
    const std::string line = text();
    write_message(terminal_ ? fmt::format("\r\x1b[2K{:.{}}", line, columns()) : line + "\n");
    on_screen_ = terminal_;
  }

  void clear() {
    if (on_screen_) write_message("\r\x1b[2K");
    on_screen_ = false;
  }

 private:
  // A line that wraps cannot be rewritten.
  static int columns() {
    winsize size{};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1 : 79;
  }

  const bool terminal_;
  bool shown_ = false, on_screen_ = false;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace hone::cli
