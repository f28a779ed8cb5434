// What the prepared ops of one engine share.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/base/guarded.h"
#include "engine/plan/kernel_cache.h"
#include "engine/plan/resolver.h"
#include "engine/schedules_internal.h"
#include "hone/engine.hpp"
#include "jit/aot/package_generator.h"
#include "jit/launch.h"

namespace hone {

class Engine::State {
 public:
  EngineInfo info;  // but for its packages
  jit::PackageHost host;
  plan::Target target;
  plan::Decisions decisions;
  std::vector<jit::CodeGenerator*> generators;  // that may be used, preferred first
  plan::KernelCache kernels;
  jit::WorkspacePool workspaces;  // of all kernels
  jit::WorkspacePool partials;    // what kernels of one program hand on to the next, for each call
  Schedules schedules;

  // The generators that emit `isa` here, `first` before the others; that of packages only when it is `first`.
  std::vector<jit::CodeGenerator*> generators_for(Isa isa, std::string_view first);

  // Packages come while others prepare: who resolves gets what there is now, which then does not change.
  Status load_package(const std::string& path);
  std::shared_ptr<const plan::Packages> packages() const;
  EngineInfo current_info() const;

  // An engine like this one, packages included, that plans for at most `threads` threads. It compiles for itself.
  Result<std::shared_ptr<State>> with_threads(int threads) const;

 private:
  mutable std::mutex loading_;  // of the two below
  std::shared_ptr<const plan::Packages> packages_ = std::make_shared<plan::Packages>();
  std::vector<std::string> package_paths_;
  jit::PackageGenerator package_generator_;
};

// For code of the engine that prepares an op of its own.
struct EngineAccess {
  // `engine` itself where it has no more threads than that, or `threads` is 0.
  static Result<Engine> with_threads(const Engine& engine, int threads);
  static const std::shared_ptr<Engine::State>& state(const Engine& engine) { return engine.state_; }
};

}  // namespace hone
