// Runs the built `hone` as a user would: a process of its own, with what it printed and how it ended.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace hone::cli_test {

struct Outcome {
  int code = -1;    // exit code; 128 + signal when it was killed
  std::string out;  // stdout
  std::string err;  // stderr
};

struct Setting {
  std::map<std::string, std::string> env = {};  // on top of the scratch folder's own; "" as a value is set and blank
  std::string out_file = "";                    // stdout goes there ("/dev/full"); "-": stdout is closed
  std::string err_file = "";                    // the same for stderr
  std::string in_file = "";                     // stdin comes from there
  int64_t file_limit = 0;                       // > 0: no file may grow beyond, as on a full disk
  bool terminal = false;                        // stderr is a terminal
  int signal = 0;                               // sent when stdout or stderr has shown `signal_at`
  std::string signal_at = "";
  int signal_after_ms = 0;  // and not before so long after that
};

// The environment has PATH and what `setting` says, nothing else of ours (no HOME unless it is given).
Outcome run_hone(const std::vector<std::string>& args, const Setting& setting = {});

// Whether Setting::terminal can be had: a container without /dev/pts has none.
bool has_terminals();

}  // namespace hone::cli_test
