// The analytical model of matmul; see cost.h for what it is for.
#pragma once

#include <string>
#include <vector>

#include "autotune/cost/cost.h"
#include "kernels/matmul/program.h"

namespace hone::autotune {

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

double estimated_ns(const matmul::MatmulProblem& problem, const matmul::TransformProgram& program, int threads,
                    const CostMachine& machine);
// Programs of which equal ones are variants of one kind to order_by_cost.
std::vector<int64_t> variant_of(const matmul::TransformProgram& program);

}  // namespace hone::autotune
