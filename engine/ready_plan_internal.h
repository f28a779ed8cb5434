// From a plan to something that runs: lowered, compiled, with its threads. When code cannot be generated the next code
// generator is tried, then the default program, then the precompiled kernel, if the caller allows its numerics class;
// `plan.rejected` says what did not work.
#pragma once

#include <memory>
#include <span>

#include "engine/plan/kernel_cache.h"
#include "engine/plan/resolver.h"
#include "engine/state_internal.h"
#include "kernels/matmul/operands.h"
#include "kernels/matmul/problem.h"

namespace hone {

// A call among several on one problem, each with rows and operands of its own.
struct MatmulPart {
  int64_t m = 0;
  matmul::MatmulOperands operands;
};

// Immutable once made; any number of calls run it at once.
struct ReadyPlan {
  matmul::MatmulProblem problem;  // m: of the bucket
  std::string node;               // the problem as text: what a trace calls it
  plan::PlanOf<matmul::TransformProgram> plan;
  plan::KernelCache::Handle executable;  // null: the precompiled kernel runs
  jit::WorkspacePool* workspaces = nullptr;
  runtime::Schedule* schedule = nullptr;  // null: inline on the caller
  std::optional<int64_t> min_work;        // see op::region_pays
  bool measured = false;                  // plan::measured_as_it_runs: whatever min_work says

  // Computes C for the problem with the m of this call, whose operands have been checked. Error: resource_exhausted.
  Status run(const matmul::MatmulProblem& call, const matmul::MatmulOperands& operands,
             const matmul::PackedB& packed) const;
  // The same on another Schedule than schedule_for() says; null: inline.
  Status run_on(const matmul::MatmulProblem& call, const matmul::MatmulOperands& operands,
                const matmul::PackedB& packed, runtime::Schedule* on) const;
  // Several calls in one region, over the tasks of all: whoever is free takes the next, those of the last part first.
  // `problem` (m does not count) has no batch; the operands have been checked and no C overlaps what another part
  // reads. `on` may be null: the caller runs them.
  Status run_parts(const matmul::MatmulProblem& problem, std::span<const MatmulPart> parts,
                   const matmul::PackedB& packed, runtime::Schedule* on) const;
  // Where a call runs.
  runtime::Schedule* schedule_for(const matmul::MatmulProblem& call) const;
};

Result<std::unique_ptr<ReadyPlan>> make_ready(Engine::State& state, const matmul::MatmulProblem& problem,
                                              const plan::Constraints& constraints);

PlanInfo describe(const ReadyPlan& ready);

}  // namespace hone
