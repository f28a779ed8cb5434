// A row program made ready to run: lowered, compiled by the first generator that can, else run by its reference.
#pragma once

#include "engine/plan/kernel_cache.h"
#include "engine/state_internal.h"
#include "kernels/rows/arguments.h"
#include "kernels/rows/program.h"

namespace hone {

class RowKernel {
 public:
  // Error: that of rows::validate(), resource_exhausted.
  static Result<RowKernel> make(Engine::State& state, rows::RowProgram program);

  const rows::RowProgram& program() const { return program_; }
  // Of arguments that rows::check() accepts. `on` may be null: the caller runs all rows. Error: resource_exhausted.
  Status run(const rows::RowArgs& args, runtime::Schedule* on) const;

 private:
  rows::RowProgram program_;
  plan::KernelCache::Handle executable_;  // null: the reference runs
  jit::WorkspacePool* workspaces_ = nullptr;
};

}  // namespace hone
