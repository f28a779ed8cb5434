// See row_kernel_internal.h.
#include "engine/row_kernel_internal.h"

#include <utility>

#include "engine/plan_code_internal.h"
#include "kernels/rows/lower.h"
#include "kernels/rows/reference.h"

namespace hone {

Result<RowKernel> RowKernel::make(Engine::State& state, rows::RowProgram program) {
  HONE_RETURN_IF_ERROR(rows::validate(program));
  RowKernel made;
  made.program_ = std::move(program);
  made.workspaces_ = &state.workspaces;
  HONE_ASSIGN_OR_RETURN(HelperCode code,
                        compile_helper(state, [&](Isa isa) { return rows::lower(made.program_, isa); }));
  made.name_ = code.kernel.empty() ? made.program_.name : code.kernel;
  made.codegen_ = code.codegen;
  made.executable_ = std::move(code.executable);
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
