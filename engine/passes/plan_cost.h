// What a plan should cost: launches, bytes and flops of each dispatch, and a roofline over them. A pure function of a
// Compilation; it only says which policies are worth measuring first, never which is best.
//
// A dispatch takes a launch, and the longer of computing its flops and moving its bytes. Constants come from memory:
// since they were last used, those of all other layers were. Intermediates come from the L2 while the arena fits there
// beside what streams through (half of it), else from memory, so that reuse of memory is worth what it is.
#pragma once

#include <vector>

#include "engine/passes/compilation.h"

namespace hone::passes {

struct CostMachine {
  double gflops = 90;  // of one thread, as matmuls of a decoder reach it on a Zen 4; callers that measured say better
  double memory_gbs = 12;  // of one thread
  double l2_gbs = 60;      // of one thread
  double shared_gbs = 30;  // memory, of all threads
  int64_t l2_bytes = 1 << 20;
  double launch_ns = 200;   // call, binding of operands
  double region_ns = 2000;  // opening a region on several threads
  int threads = 1;
};

struct DispatchCost {
  bool launches = false;  // views do not
  double constant_bytes = 0, moved_bytes = 0, flops = 0;
  double ns = 0;
};

struct PlanCost {
  std::vector<DispatchCost> dispatches;  // as in the compilation
  int launches = 0;
  double bytes = 0, flops = 0, ns = 0;
};

// Of a call with `tokens` tokens at `position`. Symbols that are neither have their largest value. Error:
// invalid_argument when a size has no value.
Result<PlanCost> plan_cost(const Compilation& compilation, int64_t tokens, int64_t position,
                           const CostMachine& machine);

}  // namespace hone::passes
