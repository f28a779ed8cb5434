// From a plan of any op to its code. When code cannot be generated the next code generator is tried, then the default
// program, then there is none and the precompiled kernel runs; `plan.rejected` says what did not work.
#pragma once

#include <iterator>
#include <utility>
#include <vector>

#include "engine/plan/kernel_cache.h"
#include "engine/plan/resolver.h"
#include "engine/state_internal.h"

namespace hone {

using PlanCode = std::vector<plan::KernelCache::Handle>;  // one for each kernel of a program, run one after the other

// Empty when no generator can, with the reasons in `rejected`. `codegen`: tried first; then the one that did it.
Result<PlanCode> compile_program(Engine::State& state, const Result<std::vector<ir::Kernel>>& kernels, Isa isa,
                                 const std::string& program, int threads, std::string& codegen,
                                 std::vector<plan::Rejection>& rejected);

template <typename Op>
Result<PlanCode> compile_plan(Engine::State& state, const typename Op::Problem& problem,
                              const plan::Constraints& constraints, plan::PlanOf<typename Op::Program>& plan) {
  if (plan.codegen == plan::kFallbackCodegen) return PlanCode();
  const auto compile = [&] {
    return compile_program(state, Op::lower(problem, plan.program), plan.program.isa, to_string(plan.program),
                           plan.threads, plan.codegen, plan.rejected);
  };
  HONE_ASSIGN_OR_RETURN(PlanCode code, compile());
  if (code.empty() && plan.reason != plan::Reason::kDefault) {
    std::vector<plan::Rejection> rejected = std::move(plan.rejected);
    HONE_ASSIGN_OR_RETURN(plan, plan::resolve_for<Op>(problem, state.target, {}, constraints));
    plan.rejected.insert(plan.rejected.begin(), std::make_move_iterator(rejected.begin()),
                         std::make_move_iterator(rejected.end()));
    HONE_ASSIGN_OR_RETURN(code, compile());
  }
  if (code.empty()) {
    plan.codegen = plan::kFallbackCodegen;
    plan.reason = plan::Reason::kDefault;
    plan.from.reset();
  }
  return code;
}

// Code of no op (a row program, packing): of a package, else of the first code generator that can.
struct HelperCode {
  plan::KernelCache::Handle executable;  // null: nobody can
  std::string kernel;                    // its name, where something was lowered
  std::string codegen = std::string(plan::kFallbackCodegen);
};
// Error: resource_exhausted.
Result<HelperCode> compile_helper(Engine::State& state, const ir::Kernel& kernel, Isa isa);
// `lower`: the kernel for an instruction set. Errors: that of `lower`, resource_exhausted.
template <typename Lower>
Result<HelperCode> compile_helper(Engine::State& state, const Lower& lower) {
  HelperCode code;
  for (const Isa isa : state.helper_isas()) {
    HONE_ASSIGN_OR_RETURN(const ir::Kernel kernel, lower(isa));
    HONE_ASSIGN_OR_RETURN(code, compile_helper(state, kernel, isa));
    if (code.executable != nullptr) break;
  }
  return code;
}

// What the caller gets to see of a plan, and what the log does.
template <typename Plan>
PlanInfo describe_plan(std::string problem, const Plan& plan, const runtime::Schedule* schedule) {
  PlanInfo info{.problem = std::move(problem),
                .program = to_string(plan.program),
                .codegen = plan.codegen,
                .threads = plan.threads,
                .schedule = schedule == nullptr ? "sequential" : schedule->name(),
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
                               .difference = plan.from->difference,
                               .package = plan.from->package};
  }
  for (const plan::Rejection& r : plan.rejected) info.rejected.push_back({r.program, r.why});
  return info;
}
void log_plan(const PlanInfo& plan);

}  // namespace hone
