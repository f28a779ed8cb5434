// hone bench --model FILE: tokens per second of a whole model, in the columns of llama-bench.
#pragma once

#include <string>

#include "tools/hone/cli.h"

namespace hone::cli {

// What --model adds to the options of a bench.
struct BenchModelArgs {
  std::string file;  // "": no model
  std::string prompts = "512", generates = "128", depths = "0";
  int64_t max_batch = 512;

  void add_to(CLI::App& command);
};

// Those that it shares with a bench of kernels.
struct BenchCommonArgs {
  std::string plan, threads, db, output;
  std::string numerics;  // classes to compare, with commas; "": the default
  int repetitions = 0;   // 0: 5, as llama-bench
  uint64_t seed = 1;
};

int run_bench_model(const BenchModelArgs& args, const BenchCommonArgs& common);

}  // namespace hone::cli
