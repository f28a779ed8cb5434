// What a plan needs compiled, found without compiling: a plan is prepared for a machine that need not be this one, with
// code generators that note what they are asked for and emit nothing. So the list is what preparing really asks for,
// whatever its steps are, and no second description of it can be wrong.
#pragma once

#include <string>
#include <vector>

#include "engine/base/machine.h"
#include "engine/executable/plan.h"
#include "engine/plan/resolver.h"
#include "kernels/ir/ir.h"

namespace hone::executable {

struct RecordTarget {
  Machine machine;
  Isa isa = Isa::kAvx2;  // the strongest of its code; one that `machine` has
  int threads = 1;       // at most, on that machine
};

// An op with the plan that it gets there.
struct RecordedOp {
  op::Problem problem;
  op::Program program;
  plan::PlanFacts facts;
  std::vector<ir::Kernel> kernels;
};

struct RecordedKernel {
  Isa isa;
  ir::Kernel kernel;
};

struct Record {
  std::vector<RecordedOp> ops;          // in the order in which they were asked for, each problem once
  std::vector<RecordedKernel> kernels;  // of no op: row programs, packing
  std::vector<StepReport> steps;        // for the first expected number of tokens at position 0
  PlanMemory memory;
};

// Errors: those of ExecutablePlan::create; unsupported naming an op that would have no code there.
Result<Record> record_plan(const RecordTarget& target, const plan::Decisions& decisions,
                           passes::Compilation compilation, const PlanOptions& options);

}  // namespace hone::executable
