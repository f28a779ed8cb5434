// What the prepared ops of one engine share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/guarded.h"
#include "engine/plan/kernel_cache.h"
#include "engine/plan/resolver.h"
#include "engine/schedules_internal.h"
#include "hone/engine.hpp"
#include "jit/launch.h"

namespace hone {

class Engine::State {
 public:
  EngineInfo info;
  plan::Target target;
  plan::Decisions decisions;
  std::vector<jit::CodeGenerator*> generators;  // that may be used, preferred first
  plan::KernelCache kernels;
  jit::WorkspacePool workspaces;  // of all kernels
  jit::WorkspacePool partials;    // what kernels of one program hand on to the next, for each call
  Schedules schedules;

  // The generators that emit `isa` here, `first` before the others.
  std::vector<jit::CodeGenerator*> generators_for(Isa isa, std::string_view first) const;
};

}  // namespace hone
