// What the two kinds of hone compile share: problems (compile.cpp) and graphs (compile_graph.cpp).
#pragma once

#include <string>
#include <vector>

#include "jit/aot/write.h"
#include "tools/hone/cli.h"

namespace hone::cli {

struct CompileArgs {
  ProblemArgs problems;
  std::string output, mcpu = "native", isa, program, numerics, db;
  int threads = 0;
  bool force = false, json = false;
  // Of graphs.
  std::string policy, print_after, dump_graph, function;
  std::vector<std::string> dimensions;
  std::vector<int64_t> tokens;

  bool asks_for_graph() const {
    return !policy.empty() || !print_after.empty() || !dump_graph.empty() || !function.empty() || !dimensions.empty() ||
           !tokens.empty();
  }
};

// The machine that a target is resolved for: the described CPU, else the one at hand (HONE_CPU), with the features of
// the target's instruction set where those are others.
Result<Machine> machine_of(const jit::AotTarget& target, const Machine& here);

// Each CPU with its strongest instruction set, or with each that was asked for.
Result<std::vector<jit::AotTarget>> targets_of(const CompileArgs& args, const FeatureSet& host);

// hone compile with a graph: what it takes, and its exit code.
void add_graph_options(CLI::App& command, CompileArgs& args);
int run_compile_graph(const CompileArgs& args);

}  // namespace hone::cli
