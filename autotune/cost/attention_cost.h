// The analytical model of attention; see cost.h for what it is for.
#pragma once

#include <string>
#include <vector>

#include "autotune/cost/cost.h"
#include "kernels/attention/program.h"

namespace hone::autotune {

// Parts of one call in ns, of all tasks together.
struct AttentionCost {
  double scores = 0;   // multiply-adds of Q K^T, with what their tiles wait for
  double values = 0;   // of the weights and V
  double softmax = 0;  // exp and maxima
  double pack = 0;     // transposing K, copying V
  double l2 = 0;       // K and V between L2 and L1
  double dram = 0;     // K and V from memory, as often as they come
  double longest = 0;  // the longest task
  double region = 0;   // opening parallel regions
  double total = 0;
  std::string breakdown() const;
};

AttentionCost estimate(const attention::AttentionProblem& problem, const attention::AttentionProgram& program,
                       int threads, const CostMachine& machine);

double estimated_ns(const attention::AttentionProblem& problem, const attention::AttentionProgram& program, int threads,
                    const CostMachine& machine);
// Programs of which equal ones are variants of one kind to order_by_cost.
std::vector<int64_t> variant_of(const attention::AttentionProgram& program);

}  // namespace hone::autotune
