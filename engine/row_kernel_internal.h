// A row program made ready to run: lowered, with code of a package or of the first generator that can, else run by its
// reference.
#pragma once

#include <string>

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
  const std::string& name() const { return name_; }        // of the kernel
  const std::string& codegen() const { return codegen_; }  // "precompiled": the reference runs
  // Of arguments that rows::check() accepts. `on` may be null: the caller runs all rows. `tag`: what a trace calls it.
  // Error: resource_exhausted.
  Status run(const rows::RowArgs& args, runtime::Schedule* on, runtime::RegionTag tag) const;
  Status run(const rows::RowArgs& args, runtime::Schedule* on) const { return run(args, on, {"rows", program_.name}); }

 private:
  rows::RowProgram program_;
  std::string name_, codegen_;
  plan::KernelCache::Handle executable_;  // null: the reference runs
  jit::WorkspacePool* workspaces_ = nullptr;
};

}  // namespace hone
