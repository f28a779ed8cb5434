// What the prepared ops of one engine share.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "engine/base/guarded.h"
#include "engine/plan/kernel_cache.h"
#include "engine/plan/resolver.h"
#include "engine/schedules_internal.h"
#include "engine/shared_plans_internal.h"
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
  SharedPlans matmul_plans;
  // Called with the plan of each op that is made; for who wants to know what a plan needs.
  std::function<void(const op::Problem&, const op::Program&, const plan::PlanFacts&)> on_plan;

  // The generators that emit `isa` here, `first` before the others; that of packages only when it is `first`.
  std::vector<jit::CodeGenerator*> generators_for(Isa isa, std::string_view first);

  // Packages come while others prepare: who resolves gets what there is now, which then does not change.
  Status load_package(const std::string& path);
  // `package`: one that is open.
  Status load_package(const jit::Package& package);
  // For code of no op (row programs, packing): the instruction sets to try, that of packages with such code first, then
  // the strongest that a code generator emits here; and who may have it for one of them, packages first.
  std::vector<Isa> helper_isas() const;
  std::vector<jit::CodeGenerator*> helper_generators(Isa isa);

  std::shared_ptr<const plan::Packages> packages() const;
  EngineInfo current_info() const;

  // An engine like this one, packages included, that plans for at most `threads` threads. It compiles for itself.
  Result<std::shared_ptr<State>> with_threads(int threads) const;

 private:
  mutable std::mutex loading_;  // of the three below
  std::shared_ptr<const plan::Packages> packages_ = std::make_shared<plan::Packages>();
  std::vector<std::string> package_paths_;
  std::set<Isa> helper_isas_;  // that packages have code of no op for
  jit::PackageGenerator package_generator_;
};

struct WeightSource;
class Attention;

// For code of the engine that prepares an op of its own.
struct EngineAccess {
  // `engine` itself where it has no more threads than that, or `threads` is 0.
  static Result<Engine> with_threads(const Engine& engine, int threads);
  // As Engine::prepare(spec, weights), of weights that may lie packed in a store already.
  static Result<Matmul> prepare(const Engine& engine, const MatmulSpec& spec, const WeightSource& weights);
  // What a call with so many rows (and keys) runs on, compiled if it was not yet; shared by all ops that differ in
  // their weights only. It lives as long as they do.
  static Result<const plan::PlanFacts*> facts(const Matmul& matmul, int64_t m);
  static Result<const plan::PlanFacts*> facts(const Attention& attention, int64_t q, int64_t kv);
  static const std::shared_ptr<Engine::State>& state(const Engine& engine) { return engine.state_; }
  static Engine make(std::shared_ptr<Engine::State> state) { return Engine(std::move(state)); }
};

}  // namespace hone
