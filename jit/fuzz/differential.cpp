// See differential.h.
#include "jit/fuzz/differential.h"

#include <fmt/format.h>

#include "kernels/ir/interpret.h"

namespace hone::jit {

std::string Target::name() const { return fmt::format("{} {}", generator->name(), isa_info(isa).name); }

std::vector<Target> all_targets() {
  std::vector<Target> targets;
  for (CodeGenerator* g : compiling_generators())
    for (const Isa isa : all_isas())
      if (g->emits(isa)) targets.push_back({g, isa});
  return targets;
}

Result<Differential> Differential::create(const ir::Kernel& kernel, std::span<const std::vector<int64_t>> runs,
                                          uint64_t seed, const Progress& progress) {
  Differential made(kernel);
  if (progress) progress("the interpreter runs");
  const ir::Interpreter interpreter(kernel);
  for (const std::vector<int64_t>& params : runs) {
    HONE_ASSIGN_OR_RETURN(Arguments arguments, Arguments::create(kernel, params, seed));
    arguments.run_tasks([&](auto... all) { interpreter.run(all...); });
    Arguments::Contents expected = arguments.contents();
    made.runs_.push_back({params, std::move(arguments), std::move(expected)});
  }
  return made;
}

Status Differential::check(const Target& target, const Progress& progress) {
  if (progress) progress(target.name() + " compiles");
  // What is under test is the compiler, and few of these kernels are ever seen again.
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<CompiledKernel> compiled,
                        target.generator->compile(kernel_, target.isa, {.cached = false}));
  if (progress) progress(target.name() + " runs");
  for (Run& run : runs_) {
    run.arguments.reset();
    run.arguments.run_tasks([&](auto... all) { compiled->run(all...); });
    const std::string difference = run.arguments.difference(run.expected);
    if (!difference.empty())
      return data_loss(fmt::format("{}, parameters {}: {}", target.name(), fmt::join(run.params, " "), difference));
  }
  return {};
}

}  // namespace hone::jit
