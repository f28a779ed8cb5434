// See ready_plan_internal.h.
#include "engine/ready_plan_internal.h"

#include <algorithm>
#include <vector>

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

// What a call of several parts needs for each. Kept per thread, so that calls allocate nothing once one of as many
// parts has run. Tasks that other threads run read it while the call waits for them.
struct Frame {
  std::vector<matmul::Arguments> arguments;
  std::vector<jit::LaunchItem> items;
};

// The precompiled kernel as tasks: one strip of columns of one batch item each, one part after the other.
struct FallbackCall {
  const MatmulProblem& problem;
  std::span<const MatmulPart> parts;
  const matmul::PackedB& packed;
  int64_t strips;  // of one batch item

  static void run(void* context, int64_t begin, int64_t end) {
    const auto& call = *static_cast<const FallbackCall*>(context);
    while (begin < end) {
      const int64_t item = begin / call.strips, first = begin % call.strips;
      const int64_t last = std::min(call.strips, first + (end - begin));
      const MatmulPart& part = call.parts[static_cast<size_t>(item / call.problem.batch)];
      matmul::fallback_matmul(call.problem, part.operands, call.packed,
                              {.item = item % call.problem.batch,
                               .row_begin = 0,
                               .row_end = part.m,
                               .strip_begin = first,
                               .strip_end = last});
      begin += last - first;
    }
  }
};

void run_fallback(const MatmulProblem& problem, std::span<const MatmulPart> parts, const matmul::PackedB& packed,
                  runtime::RegionTag tag, runtime::Schedule* on) {
  FallbackCall body{problem, parts, packed, matmul::fallback_strips(problem)};
  const int64_t tasks = static_cast<int64_t>(parts.size()) * problem.batch * body.strips;
  run_tasks(on, tag, tasks, {FallbackCall::run, &body});
}

Status no_memory(const std::string& problem) { return resource_exhausted("no memory for the workspace of " + problem); }

}  // namespace

runtime::Schedule* ReadyPlan::schedule_for(const MatmulProblem& call) const {
  if (schedule == nullptr || (measured && call.m == problem.m)) return schedule;
  return op::region_pays(matmul::region_work(call), min_work) ? schedule : nullptr;
}

Status ReadyPlan::run(const MatmulProblem& call, const MatmulOperands& operands, const matmul::PackedB& packed) const {
  return run_on(call, operands, packed, schedule_for(call));
}

Status ReadyPlan::run_on(const MatmulProblem& call, const MatmulOperands& operands, const matmul::PackedB& packed,
                         runtime::Schedule* on) const {
  const runtime::RegionTag tag{.op = "matmul", .node = node};
  if (executable == nullptr) {
    const MatmulPart whole{call.m, operands};
    run_fallback(call, {&whole, 1}, packed, tag, on);
    return {};
  }
  matmul::Arguments args = matmul::bind(call, operands, packed);
  jit::Launch launch(*executable, args.buffers.data(), args.params.data(), workspaces);
  run_tasks(on, tag, launch.tasks(), {jit::Launch::run_range, &launch});
  return launch.out_of_memory() ? no_memory(matmul::to_string(call)) : Status();
}

Status ReadyPlan::run_parts(const MatmulProblem& of, std::span<const MatmulPart> parts, const matmul::PackedB& packed,
                            runtime::Schedule* on) const {
  const runtime::RegionTag tag{.op = "matmul", .node = node};
  if (executable == nullptr) {
    run_fallback(of, parts, packed, tag, on);
    return {};
  }
  thread_local Frame frame;
  frame.arguments.resize(std::max(frame.arguments.size(), parts.size()));
  frame.items.clear();
  for (size_t i = 0; i < parts.size(); ++i) {
    matmul::Arguments& args = frame.arguments[i] = matmul::bind(of, parts[i].operands, packed);
    args.params[0] = parts[i].m;
    frame.items.emplace_back(*executable, args.buffers.data(), args.params.data());
  }
  jit::Launch launch(*executable, frame.items, workspaces, jit::Walk::kLastFirst);
  run_tasks(on, tag, launch.tasks(), {jit::Launch::run_range, &launch});
  return launch.out_of_memory() ? no_memory(node) : Status();
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
    if (ready->executable == nullptr) {
      ready->plan.numerics = constraints.precompiled_class(problem);
      if (ready->plan.numerics.empty()) return plan::needs_code(problem, constraints.numerics, ready->plan.rejected);
    }
  }
  ready->workspaces = &state.workspaces;
  HONE_ASSIGN_OR_RETURN(ready->schedule, state.schedules.get(ready->plan.threads));
  ready->min_work = state.target.min_work;
  ready->measured = plan::measured_as_it_runs(ready->plan, state.target);
  if (state.on_plan && problem.n != 0) state.on_plan(problem, ready->plan.program, ready->plan);
  log_plan(describe(*ready));
  return ready;
}

PlanInfo describe(const ReadyPlan& ready) { return describe_plan(ready.node, ready.plan, ready.schedule); }

}  // namespace hone
