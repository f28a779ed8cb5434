// See ready_plan_internal.h.
#include "engine/ready_plan_internal.h"

#include "engine/base/log.h"
#include "jit/launch.h"
#include "kernels/matmul/bind.h"
#include "kernels/matmul/blocking.h"
#include "kernels/matmul/fallback.h"

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

// Compiles plan.program into `ready`; false when no generator can, with the reasons in ready.plan.rejected.
Result<bool> compile_into(Engine::State& state, ReadyPlan& ready) {
  plan::MatmulPlan& plan = ready.plan;
  Result<ir::Kernel> kernel = matmul::lower(ready.problem, plan.program);
  const std::string text = matmul::to_string(plan.program);
  if (!kernel.ok()) {
    plan.rejected.push_back({text, kernel.status().message()});
    return false;
  }
  const std::vector<jit::CodeGenerator*> generators = state.generators_for(plan.program.isa, plan.codegen);
  plan::Compiled compiled = plan::compile_first(state.kernels, *kernel, plan.program.isa, generators);
  for (const plan::CompileFailure& f : compiled.failures) plan.rejected.push_back({text, f.codegen + ": " + f.why});
  if (compiled.executable == nullptr) return false;
  HONE_RETURN_IF_ERROR(state.workspaces.reserve(compiled.executable->workspace_bytes, plan.threads));
  ready.executable = std::move(compiled.executable);
  ready.workspaces = &state.workspaces;
  plan.codegen = compiled.codegen;
  return true;
}

void log_plan(const ReadyPlan& ready) {
  HONE_LOG_EVENT(LogTopic::kDispatch, "plan",
                 {{"problem", matmul::to_string(ready.problem)},
                  {"program", matmul::to_string(ready.plan.program)},
                  {"codegen", ready.plan.codegen},
                  {"threads", ready.plan.threads},
                  {"reason", plan::reason_name(ready.plan.reason)},
                  {"rejected", ready.plan.rejected.size()}});
}

}  // namespace

runtime::Schedule* ReadyPlan::schedule_for(const MatmulProblem& call) const {
  if (schedule == nullptr || (measured && call.m == problem.m)) return schedule;
  return matmul::region_pays(call, min_work) ? schedule : nullptr;
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
  HONE_ASSIGN_OR_RETURN(ready->plan, plan::resolve(problem, state.target, state.decisions, constraints));
  const bool nothing_to_do = problem.n == 0;
  bool compiled = false;
  if (nothing_to_do) {
    ready->plan.codegen = "none";
  } else if (ready->plan.codegen != plan::kFallbackCodegen) {
    HONE_ASSIGN_OR_RETURN(compiled, compile_into(state, *ready));
    if (!compiled && ready->plan.reason != plan::Reason::kDefault) {
      std::vector<plan::Rejection> rejected = std::move(ready->plan.rejected);
      HONE_ASSIGN_OR_RETURN(ready->plan, plan::resolve(problem, state.target, {}, constraints));
      ready->plan.rejected.insert(ready->plan.rejected.begin(), rejected.begin(), rejected.end());
      HONE_ASSIGN_OR_RETURN(compiled, compile_into(state, *ready));
    }
    if (!compiled) {
      ready->plan.codegen = plan::kFallbackCodegen;
      ready->plan.reason = plan::Reason::kDefault;
      ready->plan.from.reset();
    }
  }
  HONE_ASSIGN_OR_RETURN(ready->schedule, state.schedules.get(ready->plan.threads));
  ready->min_work = state.target.min_work;
  ready->measured = plan::measured_as_it_runs(ready->plan, state.target);
  log_plan(*ready);
  return ready;
}

PlanInfo describe(const ReadyPlan& ready) {
  const plan::MatmulPlan& plan = ready.plan;
  PlanInfo info{.problem = matmul::to_string(ready.problem),
                .program = matmul::to_string(plan.program),
                .codegen = plan.codegen,
                .threads = plan.threads,
                .schedule = ready.schedule == nullptr ? "sequential" : ready.schedule->name(),
                .numerics = plan.numerics,
                .reason = std::string(plan::reason_name(plan.reason)),
                .from = {},
                .rejected = {}};
  if (plan.from) {
    info.from = PlanInfo::From{.problem = plan.from->problem,
                               .m = plan.from->m,
                               .machine = plan.from->machine,
                               .engine = plan.from->engine,
                               .codegen = plan.from->codegen,
                               .ns = plan.from->ns,
                               .difference = plan.from->difference};
  }
  for (const plan::Rejection& r : plan.rejected) info.rejected.push_back({r.program, r.why});
  return info;
}

}  // namespace hone
