// What came of a bench: a row for each implementation of each problem, and in the end who wins over all of them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "autotune/measure/peak.h"
#include "autotune/search/race.h"
#include "engine/base/machine.h"
#include "engine/base/perf_counters.h"
#include "kernels/op/op.h"
#include "tools/hone/table.h"

namespace hone::cli {

// One line of the result, before it is measured.
struct Implementation {
  std::string name;  // "hone tuned", "openblas"
  std::string plan;  // how it came about
  // Its ceiling is that of dot products of bf16: hone's plans of class `bf16`.
  bool dots = false;
};

// Where operands come from when they are warm: the innermost cache that holds them all, or memory. `memory` also when
// they are cold.
enum class Level : uint8_t { kL2, kL3, kMemory };
Level level_of(const op::Problem& problem, const BlockingCaches& caches, int threads);

// What one thread count could do at most, round by round.
struct Ceilings {
  Level level = Level::kMemory;  // that gbs is of
  std::vector<double> gflops, gbs, call_ns;
  std::vector<double> dot_gflops;  // of dot products of bf16, where a plan makes them

  const std::vector<double>& flops_of(const Implementation& impl) const { return impl.dots ? dot_gflops : gflops; }
};

// Which ceiling is the lowest for the problem, computed by `impl`: "fma" (or "dot", of dot products of bf16), "l2",
// "l3", "memory", or "call" where the price of opening a parallel region exceeds the others. "" without ceilings.
std::string limit_of(const op::Problem& problem, const Implementation& impl, const Ceilings& ceilings);

Table bench_table();
std::vector<Cell> measured_row(const op::Problem& problem, const Implementation& impl, int index, int threads,
                               const autotune::Race& race, const Ceilings& ceilings, const CounterReading& counted);
std::vector<Cell> failed_row(const op::Problem& problem, const Implementation& impl, int threads,
                             const std::string& why);

// Ratios (time of another over that of hone's first plan) over all problems, per thread count and opponent. The best
// peer is the fastest of each problem, so it is harder to beat than any one of them.
class Summary {
 public:
  void add(const std::string& problem, int threads, const std::string& opponent, bool is_peer, double ratio);
  Table table() const;

 private:
  struct Scores {
    std::vector<std::pair<std::string, double>> ratios;  // problem, ratio
  };
  struct Of {
    std::vector<std::string> opponents;  // in the order in which they came
    std::map<std::string, Scores> scores;
    std::map<std::string, double> best_peer;  // by problem
    std::vector<std::string> problems;        // of best_peer, in order
  };
  std::map<int, Of> by_threads_;
};

}  // namespace hone::cli
