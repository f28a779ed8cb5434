// See ready_plan_internal.h.
#include "engine/ready_plan_internal.h"

#include "engine/plan_code_internal.h"
#include "jit/launch.h"
#include "kernels/matmul/bind.h"
#include "kernels/matmul/blocking.h"
#include "kernels/matmul/fallback.h"
#include "kernels/op/region.h"

namespace hone {
namespace {

using matmul::MatmulOperands;
using matmul::MatmulProblem;

// The precompiled kernel as tasks: one strip of columns of one batch item each.
struct FallbackCall {
  const MatmulProblem& problem;
  const MatmulOperands& operands;
  const matmul::PackedB& packed;
  int64_t strips;

  static void run(void* context, int64_t begin, int64_t end) {
    const auto& call = *static_cast<const FallbackCall*>(context);
    while (begin < end) {
      const int64_t item = begin / call.strips, first = begin % call.strips;
      const int64_t last = std::min(call.strips, first + (end - begin));
      matmul::fallback_matmul(
          call.problem, call.operands, call.packed,
          {.item = item, .row_begin = 0, .row_end = call.problem.m, .strip_begin = first, .strip_end = last});
      begin += last - first;
    }
  }
};

}  // namespace

runtime::Schedule* ReadyPlan::schedule_for(const MatmulProblem& call) const {
  if (schedule == nullptr || (measured && call.m == problem.m)) return schedule;
  return op::region_pays(matmul::region_work(call), min_work) ? schedule : nullptr;
}

Status ReadyPlan::run(const MatmulProblem& call, const MatmulOperands& operands, const matmul::PackedB& packed) const {
  if (executable == nullptr) {
    FallbackCall body{call, operands, packed, matmul::fallback_strips(call)};
    run_tasks(schedule_for(call), {.op = "matmul", .node = node}, call.batch * body.strips, {FallbackCall::run, &body});
    return {};
  }
  matmul::Arguments args = matmul::bind(call, operands, packed.batch_stride);
  jit::Launch launch(*executable, args.buffers.data(), args.params.data(), workspaces);
  run_tasks(schedule_for(call), {.op = "matmul", .node = node}, launch.tasks(), {jit::Launch::run_range, &launch});
  if (launch.out_of_memory()) return resource_exhausted("no memory for the workspace of " + matmul::to_string(call));
  return {};
}

Result<std::unique_ptr<ReadyPlan>> make_ready(Engine::State& state, const MatmulProblem& problem,
                                              const plan::Constraints& constraints) {
  auto ready = std::make_unique<ReadyPlan>();
  ready->problem = problem;
  ready->node = matmul::to_string(problem);
  HONE_ASSIGN_OR_RETURN(ready->plan, plan::resolve_for<matmul::Op>(problem, state.target, state.decisions, constraints,
                                                                   *state.packages()));
  if (problem.n == 0) {
    ready->plan.codegen = "none";
  } else {
    HONE_ASSIGN_OR_RETURN(PlanCode code, compile_plan<matmul::Op>(state, problem, constraints, ready->plan));
    if (!code.empty()) ready->executable = std::move(code.front());
  }
  ready->workspaces = &state.workspaces;
  HONE_ASSIGN_OR_RETURN(ready->schedule, state.schedules.get(ready->plan.threads));
  ready->min_work = state.target.min_work;
  ready->measured = plan::measured_as_it_runs(ready->plan, state.target);
  log_plan(describe(*ready));
  return ready;
}

PlanInfo describe(const ReadyPlan& ready) { return describe_plan(ready.node, ready.plan, ready.schedule); }

}  // namespace hone
