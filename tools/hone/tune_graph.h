// hone tune --graph FILE: which policy makes the fastest plan of a whole graph, for each number of tokens.
#pragma once

#include <string>

#include "tools/hone/cli.h"

namespace hone::cli {

// What --graph adds to the options of a tune.
struct TuneGraphArgs {
  std::string file;    // "": no graph
  std::string tokens;  // "1,128"
  int64_t position = -1;
  std::string policy;  // this one alone against the default

  void add_to(CLI::App& command);
};

// Those that it shares with a tune of kernels.
struct TuneCommonArgs {
  std::string budget, threads, numerics, db, output;
  uint64_t seed = 0;
  bool fresh = false;
};

int run_tune_graph(const TuneGraphArgs& args, const TuneCommonArgs& common);

}  // namespace hone::cli
