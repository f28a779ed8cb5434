// Machines of the library as targets, and decisions as the tuner of such a machine would have stored them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/base/cpu_library.h"
#include "engine/plan/resolver.h"
#include "kernels/matmul/blocking.h"

namespace hone::plan {

using MatmulPlan = PlanOf<matmul::TransformProgram>;

inline Machine described(std::string_view name) {
  return parse_machine_description(find_cpu_description(std::string(name)).value()).value();
}

// As make_target would have it on `m`, with code generators of fixed versions.
inline Target target_of(const Machine& m) {
  Target t{.key = m.key(),
           .kind = kind_of(m),
           .arch = m.arch(),
           .caches = blocking_caches(m),
           .threads = m.cpus_usable,
           .engine = "hone test",
           .codegens = {{"asmjit", "1", {}}, {"llvm", "19", {}}}};
  for (CodegenLabel& c : t.codegens)
    for (Isa isa : all_isas())
      if (m.supports(isa)) c.isas.push_back(isa);
  return t;
}

// For the default program of `m`, decided at `at`.
inline db::StoredDecision decided(const matmul::MatmulProblem& p, const Machine& m, int64_t at) {
  const Isa isa = m.best_isa().value();
  db::StoredDecision d;
  d.id = at;
  d.machine = {.key = m.key(), .label = machine_to_json(m)};
  d.build = {.engine = "hone test", .codegens = "asmjit=1;llvm=19"};
  d.decision.problem = {.text = matmul::to_string(p), .family = matmul::family(p), .m = p.m};
  d.decision.winner = {.program = matmul::to_string(matmul::canonical(
                           p, matmul::default_program(p, {.isa = isa, .caches = blocking_caches(m), .threads = 1}))),
                       .codegen = "asmjit",
                       .codegen_version = "1",
                       .threads = 1,
                       .numerics = "ordered"};
  d.decision.ns = 1000;
  d.decision.decided_at = at;
  return d;
}

inline MatmulPlan resolved(const matmul::MatmulProblem& p, const Target& target,
                           std::vector<db::StoredDecision> decisions) {
  Result<MatmulPlan> plan = resolve_for<matmul::Op>(p, target, Decisions(std::move(decisions)));
  EXPECT_TRUE(plan.ok()) << plan.status().to_string();
  return plan.ok() ? *std::move(plan) : MatmulPlan{};
}

}  // namespace hone::plan
