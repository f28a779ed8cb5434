// hone tune --replay: what other searches would have chosen from the samples of a stored run.
#pragma once

#include <string>

namespace hone::cli {

struct ReplayArgs {
  std::string run;       // number or uid
  std::string strategy;  // with commas; "": all
  std::string budget;    // with commas; "": 1s,3s,10s
  std::string db, output = "md";
  int seeds = 100;
};

// The exit code.
int run_replay(const ReplayArgs& args);

}  // namespace hone::cli
