// See row_kernel_internal.h.
#include "engine/row_kernel_internal.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/base/log.h"
#include "kernels/rows/lower.h"
#include "kernels/rows/reference.h"

namespace hone {
// ISAs are numbered weakest first.
std::optional<Isa> widest_isa(const plan::Target& target) {
  std::optional<Isa> widest;
  for (const plan::CodegenLabel& label : target.codegens)
    for (const Isa isa : label.isas)
      if (!widest || isa > *widest) widest = isa;
  return widest;
}

Result<RowKernel> RowKernel::make(Engine::State& state, rows::RowProgram program) {
  HONE_RETURN_IF_ERROR(rows::validate(program));
  RowKernel made;
  made.program_ = std::move(program);
  made.name_ = made.program_.name;
  made.codegen_ = plan::kFallbackCodegen;
  made.workspaces_ = &state.workspaces;
  const std::optional<Isa> isa = widest_isa(state.target);
  if (!isa) return made;
  HONE_ASSIGN_OR_RETURN(const ir::Kernel kernel, rows::lower(made.program_, *isa));
  made.name_ = kernel.name;
  plan::Compiled compiled = plan::compile_first(state.kernels, {&kernel, 1}, *isa, state.generators_for(*isa, ""));
  for (const plan::CompileFailure& f : compiled.failures)
    HONE_LOG_EVENT(LogTopic::kJit, "rows_fallback", {{"program", made.program_.name}, {"why", f.why}});
  if (compiled.executables.empty()) return made;
  made.codegen_ = compiled.codegen;
  made.executable_ = std::move(compiled.executables.front());
  HONE_RETURN_IF_ERROR(state.workspaces.reserve(made.executable_->workspace_bytes, state.target.threads));
  return made;
}

Status RowKernel::run(const rows::RowArgs& args, runtime::Schedule* on, runtime::RegionTag tag) const {
  if (executable_ == nullptr) return rows::reference(program_, args);
  rows::Arguments arguments;
  rows::bind(program_, args, &arguments);
  jit::Launch launch(*executable_, arguments.buffers.data(), arguments.params.data(), workspaces_);
  run_tasks(on, tag, launch.tasks(), {jit::Launch::run_range, &launch});
  if (launch.out_of_memory()) return resource_exhausted("no memory for the workspace of " + program_.name);
  return {};
}

}  // namespace hone
