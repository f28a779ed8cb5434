// The analytical cost model: what bounds a program, in nanoseconds, from the problem, the program and five numbers
// about the machine. It never decides anything but who is measured first, so it is judged by its order, not by its
// values; tests plant facts that the order must show.
#pragma once

#include <span>
#include <vector>

#include "autotune/measure/peak.h"
#include "autotune/space/space.h"
#include "engine/base/machine.h"

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

// One call of a candidate, in ns.
double estimated_ns(const op::Problem& problem, const Candidate& candidate, const CostMachine& machine);

// Indices of the candidates in the order in which they should be measured: cheapest first, except that each further
// variant of one kind (of matmul: tile and packing) counts kVariantPenalty more. Among variants the model sees hardly
// any difference, and the first few measurements should tell tiles and packings apart, not prefetch distances. `cost`:
// of each candidate, in any unit; the learned ranker's corrected estimates pay the same penalty, as what it has not
// seen it cannot tell apart either.
inline constexpr double kVariantPenalty = 0.02;
std::vector<int> order_by_cost(std::span<const Candidate> candidates, std::vector<double> cost);

// The same by estimated_ns().
std::vector<int> measuring_order(const op::Problem& problem, std::span<const Candidate> candidates,
                                 const CostMachine& machine);

}  // namespace hone::autotune
