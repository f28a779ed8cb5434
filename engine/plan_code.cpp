// See plan_code_internal.h.
#include "engine/plan_code_internal.h"

#include "engine/base/log.h"

namespace hone {

Result<PlanCode> compile_program(Engine::State& state, const Result<std::vector<ir::Kernel>>& kernels, Isa isa,
                                 const std::string& program, int threads, std::string& codegen,
                                 std::vector<plan::Rejection>& rejected) {
  if (!kernels.ok()) {
    rejected.push_back({program, kernels.status().message()});
    return PlanCode();
  }
  const std::vector<jit::CodeGenerator*> generators = state.generators_for(isa, codegen);
  plan::Compiled compiled = plan::compile_first(state.kernels, *kernels, isa, generators);
  for (const plan::CompileFailure& f : compiled.failures) rejected.push_back({program, f.codegen + ": " + f.why});
  for (const plan::KernelCache::Handle& executable : compiled.executables)
    HONE_RETURN_IF_ERROR(state.workspaces.reserve(executable->workspace_bytes, threads));
  if (!compiled.executables.empty()) codegen = compiled.codegen;
  return std::move(compiled.executables);
}

Result<HelperCode> compile_helper(Engine::State& state, const ir::Kernel& kernel, Isa isa) {
  HelperCode code{.executable = nullptr, .kernel = kernel.name};
  plan::Compiled compiled = plan::compile_first(state.kernels, {&kernel, 1}, isa, state.helper_generators(isa));
  for (const plan::CompileFailure& f : compiled.failures)
    HONE_LOG_EVENT(LogTopic::kJit, "no_code", {{"kernel", kernel.name}, {"codegen", f.codegen}, {"why", f.why}});
  if (compiled.executables.empty()) return code;
  code.executable = std::move(compiled.executables.front());
  code.codegen = compiled.codegen;
  HONE_RETURN_IF_ERROR(state.workspaces.reserve(code.executable->workspace_bytes, state.target.threads));
  return code;
}

void log_plan(const PlanInfo& plan) {
  HONE_LOG_EVENT(LogTopic::kDispatch, "plan",
                 {{"problem", plan.problem},
                  {"program", plan.program},
                  {"codegen", plan.codegen},
                  {"threads", plan.threads},
                  {"reason", plan.reason},
                  {"rejected", plan.rejected.size()}});
}

}  // namespace hone
