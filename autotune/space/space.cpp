// See space.h. What is common to all ops; their programs come from generate().
#include "autotune/space/space.h"

#include <fmt/format.h>

#include <algorithm>

#include "autotune/space/generate_internal.h"
#include "kernels/op/region.h"

namespace hone::autotune {

void Programs::add(const op::Program& program) {
  const op::Program t = op::canonical(problem_, program);
  if (!seen_.insert(t).second) {
    ++space_.duplicates;
    return;
  }
  if (const Status legal = op::legal(problem_, t); !legal.ok()) {
    space_.rejected.push_back({t, legal.message()});
    return;
  }
  if (const std::string numerics = op::numerics(t); !op::numerics_allowed(problem_, target_.numerics, numerics)) {
    space_.rejected.push_back({t, fmt::format("numerics class '{}' was not asked for", numerics)});
    return;
  }
  if (std::string lacks = op::missing(t, target_.features); !lacks.empty()) {
    space_.rejected.push_back({t, std::move(lacks)});
    return;
  }
  if (!identities_.insert(op::lowering_identity(problem_, t)).second) {
    ++space_.duplicates;
    return;
  }
  kept_.push_back(t);
}

namespace {

op::Program default_for(const op::Problem& problem, const Target& target, Isa isa, int threads) {
  return op::default_program(problem, {.isa = isa,
                                       .caches = target.caches,
                                       .threads = threads,
                                       .panel = target.panel,
                                       .numerics = target.numerics,
                                       .features = target.features});
}

}  // namespace

Space enumerate(const op::Problem& problem, const Target& target) {
  Space space;
  Programs programs(problem, target, space);
  const Candidate first = default_candidate(problem, target);
  programs.add(first.program);
  std::visit([&](const auto& p) { generate(p, target, programs); }, problem);
  for (Isa isa : isas_of(isa_info(op::isa(first.program)).arch)) {
    if (std::find(target.isas.begin(), target.isas.end(), isa) != target.isas.end()) continue;
    const op::Program t = default_for(problem, target, isa, 1);
    if (op::isa(t) == isa)
      space.rejected.push_back({t, fmt::format("{}: not usable on this machine", isa_info(isa).name)});
  }
  for (const op::Program& t : programs.kept())
    for (int threads : target.threads)
      for (const std::string& codegen : target.codegens) space.candidates.push_back({t, codegen, threads});
  // Whatever the order of enumeration, the default plan leads.
  auto at = std::find(space.candidates.begin(), space.candidates.end(), first);
  if (at != space.candidates.end()) std::rotate(space.candidates.begin(), at, at + 1);
  return space;
}

Candidate default_candidate(const op::Problem& problem, const Target& target) {
  const Isa isa = target.isas.empty() ? Isa::kAvx2 : target.isas.back();
  // The runtime's rule, within what may be tried: the largest count that is not more than it would wake.
  const int limit = target.threads.empty() ? 1 : target.threads.back();
  const int wanted = op::default_threads(op::region_work(problem), limit, target.min_work);
  int threads = target.threads.empty() ? 1 : target.threads.front();
  for (int t : target.threads)
    if (t <= wanted) threads = t;
  return {default_for(problem, target, isa, threads), target.codegens.empty() ? std::string() : target.codegens.front(),
          threads};
}

}  // namespace hone::autotune
