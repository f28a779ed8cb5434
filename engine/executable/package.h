// Plans in packages (jit/aot): a compilation as what a package has of it, and back.
//
// What is kept is the graph as the passes that rewrite it left it, with the guards; hints, dispatches, places and
// memory are found again when it is loaded, by the same passes over the same text, so that there is nothing in a
// package that could disagree with the code that reads it.
#pragma once

#include <memory>
#include <string>

#include "engine/executable/plan.h"
#include "jit/aot/package.h"
#include "jit/aot/write.h"

namespace hone::executable {

// The last pass whose work a package keeps.
inline constexpr std::string_view kLastKeptPass = "specialize_constants";

// `compilation` is as kLastKeptPass left it; its constants outlive the result.
jit::AotGraph package_graph(const passes::Compilation& compilation, const PlanOptions& options);

struct PackagedGraph {
  passes::Compilation compilation;  // through all passes
  PlanOptions options;
};
// Constants are the package's memory. Errors name the package and what of it: data_loss (the text is no graph, a
// constant has another size, a guard is none), unsupported (a package of ops), what a pass says.
Result<PackagedGraph> unpack_graph(const std::shared_ptr<const jit::Package>& package);
// What a package that is written with this will be read as. Constants are those of `graph`.
Result<PackagedGraph> unpack_graph(const jit::AotGraph& graph);

// The plan of a package, with the package's code. Errors: those of jit::Package::open, Engine::load_package,
// unpack_graph and ExecutablePlan::create.
Result<ExecutablePlan> load_plan(const Engine& engine, const std::string& path);
Result<ExecutablePlan> load_plan(const Engine& engine, const std::shared_ptr<const jit::Package>& package,
                                 PackagedGraph graph);

}  // namespace hone::executable
