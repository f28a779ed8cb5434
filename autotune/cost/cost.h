// The analytical cost model: what bounds a program, in nanoseconds, from the problem, the program and five numbers
// about the machine. It never decides anything but who is measured first, so it is judged by its order, not by its
// values; tests plant facts that the order must show.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "autotune/measure/peak.h"
#include "autotune/space/space.h"
#include "engine/base/machine.h"
#include "kernels/matmul/program.h"

namespace hone::autotune {

struct CostMachine {
  double gflops_1t = 100;  // FMA peak of one thread at the widest ISA
  double l2_gbs = 60;      // read rate of one thread from L2
  double dram_gbs_1t = 10;
  double dram_gbs_all = 20;
  int cpus = 1;
  int widest_lanes = 16;  // lanes of the ISA that gflops_1t was measured with
  BlockingCaches caches;
  bool cold = true;  // operands come from memory at the start of each call
};

// What the model may know of `machine`: its caches and CPUs, and the rates of `peak` when they were measured.
CostMachine cost_machine(const Machine& machine, const Peak& peak, bool cold);

// Parts of one call in ns; estimate() says which of them add up and which overlap.
struct Cost {
  double fma = 0;        // multiply-adds through the fma ports
  double load = 0;       // loads and broadcasts through the load ports
  double latency = 0;    // chains of dependent fma
  double loop = 0;       // counters and branches of the innermost loop
  double l2 = 0;         // A and B traffic between L1 and L2
  double far = 0;        // B from beyond L2 again, where rows of nn leave no room for it
  double dram = 0;       // compulsory and repeated traffic from memory
  double pack = 0;       // packing inside the call
  double c = 0;          // partial sums in C
  double region = 0;     // opening a parallel region
  double imbalance = 1;  // time of the busiest thread over the mean
  double total = 0;
  std::string breakdown() const;
};

Cost estimate(const matmul::MatmulProblem& problem, const matmul::TransformProgram& program, int threads,
              const CostMachine& machine);

// Indices of the candidates in the order in which they should be measured: cheapest first, except that each further
// variant of one tile and packing counts kVariantPenalty more. Among variants the model sees hardly any difference, and
// the first few measurements should tell tiles and packings apart, not prefetch distances. `cost`: of each candidate,
// in any unit; the learned ranker's corrected estimates pay the same penalty, as what it has not seen it cannot tell
// apart either.
inline constexpr double kVariantPenalty = 0.02;
std::vector<int> order_by_cost(std::span<const Candidate> candidates, std::vector<double> cost);

// The same by estimate().
std::vector<int> measuring_order(const matmul::MatmulProblem& problem, std::span<const Candidate> candidates,
                                 const CostMachine& machine);

}  // namespace hone::autotune
