// What this build thinks of a stored decision: whether the resolver could use it for its own problem, and whether a
// later build ever could. Asks what the resolver asks, but keeps the reasons apart from the choice.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "engine/base/env.h"
#include "engine/base/version.h"
#include "engine/passes/policy.h"
#include "engine/plan/resolver.h"
#include "engine/plan/stored_policy.h"
#include "jit/codegen.h"
#include "kernels/op/op.h"
#include "tools/hone/db.h"

namespace hone::cli {
namespace {

// The numbers in "19.1.7+2", in order: enough to tell older from newer.
std::vector<int64_t> numbers(const std::string& text) {
  std::vector<int64_t> found;
  bool inside = false;
  for (const char c : text) {
    const bool digit = c >= '0' && c <= '9';
    if (digit && !inside) found.push_back(0);
    if (digit && found.back() < 1'000'000'000) found.back() = found.back() * 10 + (c - '0');
    inside = digit;
  }
  return found;
}

// "hone 0.1.0" against this build.
db::Age age_of_engine(const std::string& engine) {
  const std::string here(engine_label());
  if (engine == here) return db::Age::kThisBuild;
  const std::string name = here.substr(0, here.find(' ') + 1);
  const bool comparable = engine.starts_with(name) && !numbers(engine).empty();
  return comparable && numbers(engine) < numbers(here) ? db::Age::kOlder : db::Age::kOther;
}

db::Age age_of(const db::StoredDecision& d) {
  const db::Age engine = age_of_engine(d.build.engine);
  if (engine != db::Age::kThisBuild) return engine;
  const db::Candidate& winner = d.decision.winner;
  std::string here(plan::kPlanVersion);
  if (winner.codegen != plan::kPlanCodegen) {
    const Result<jit::CodeGenerator*> generator = jit::find_code_generator(winner.codegen);
    if (!generator.ok()) return db::Age::kOther;
    here = (*generator)->version();
  }
  if (winner.codegen_version == here) return db::Age::kThisBuild;
  return numbers(winner.codegen_version) < numbers(here) ? db::Age::kOlder : db::Age::kOther;
}

// "" (the default), "any" and each class that a decision about the problem has.
std::set<std::string> classes_of(const std::vector<db::StoredDecision>& decisions, const std::string& problem) {
  std::set<std::string> classes = {"", "any"};
  for (const db::StoredDecision& d : decisions)
    if (d.decision.problem.text == problem) classes.insert(d.decision.winner.numerics);
  return classes;
}

bool emitted_here(const plan::Target& target, Isa isa) {
  return std::any_of(target.codegens.begin(), target.codegens.end(), [&](const plan::CodegenLabel& c) {
    return std::find(c.isas.begin(), c.isas.end(), isa) != c.isas.end();
  });
}

// A policy is legal on every machine; what may be is that this build has no such word.
Status usable(const db::Candidate& winner) {
  if (winner.codegen_version == plan::kPlanVersion) return passes::parse_policy(winner.program).status();
  return unsupported(
      fmt::format("policies of version {}, this build has {}", winner.codegen_version, plan::kPlanVersion));
}

}  // namespace

struct Judge::State {
  std::vector<plan::Target> targets;  // of this machine, and of the one that $HONE_CPU describes
  std::set<int64_t> in_use;
};

Result<Judge> Judge::make(const std::vector<db::StoredDecision>& decisions) {
  // Asking about another machine must not cost this one its plans.
  HONE_ASSIGN_OR_RETURN(const Machine described, described_machine());
  HONE_ASSIGN_OR_RETURN(const Machine here, detect_machine());
  auto state = std::make_shared<State>();
  const plan::Decisions known(decisions);
  for (const Machine* machine : {&described, &here})
    for (const int threads : {1, threads_in_force(*machine).threads})
      state->targets.push_back(plan::make_target(*machine, threads, jit::compiling_generators(), plan::Purpose::kAsk));
  for (const plan::Target& target : state->targets) {
    std::set<std::string> seen;
    for (const db::StoredDecision& d : decisions) {
      if (!seen.insert(d.decision.problem.text).second) continue;
      const Result<op::Problem> problem = op::parse_problem(d.decision.problem.text);
      if (const Result<plan::GraphCall> call = plan::parse_graph_call(d.decision.problem.text); call.ok()) {
        const plan::StoredPolicy policy = plan::stored_policy(*call, target, known, usable);
        if (policy.decision != 0) state->in_use.insert(policy.decision);
      }
      if (!problem.ok()) continue;
      // Whoever allows more classes, or one of them, uses others.
      for (const std::string& numerics : classes_of(decisions, d.decision.problem.text)) {
        const Result<plan::Plan> plan = plan::resolve(*problem, target, known, {.codegen = "", .numerics = numerics});
        if (plan.ok() && plan->from) state->in_use.insert(plan->from->decision);
      }
    }
  }
  Judge judge;
  judge.state_ = std::move(state);
  return judge;
}

db::Worth Judge::worth(const db::StoredDecision& d) const {
  db::Worth worth{.age = age_of(d), .in_use = state_->in_use.contains(d.id)};
  if (plan::parse_graph_call(d.decision.problem.text).ok()) {
    worth.why_not = usable(d.decision.winner).message();
    return worth;
  }
  // A newer version may read what this one cannot.
  const bool final = age_of_engine(d.build.engine) != db::Age::kOther;
  const Result<op::Problem> problem = op::parse_problem(d.decision.problem.text);
  const Result<op::Program> program =
      problem.ok() ? op::parse_program(*problem, d.decision.winner.program) : Result<op::Program>(problem.status());
  if (!problem.ok() || !program.ok()) {
    worth.why_not = problem.ok() ? "not a program of this build: " + program.status().message()
                                 : "not a problem of this build: " + problem.status().message();
    worth.hopeless = final;
  } else if (const Status legal = op::legal(*problem, *program); !legal.ok()) {
    worth.why_not = "not legal for its problem: " + legal.message();
  } else if (d.decision.winner.numerics != op::numerics(*program)) {
    worth.why_not = fmt::format("another numerics class: {}", d.decision.winner.numerics);
  } else if (std::any_of(state_->targets.begin(), state_->targets.end(), [&](const plan::Target& target) {
               return d.machine.key == target.key && !emitted_here(target, op::isa(*program));
             })) {
    worth.why_not = fmt::format("no code generator here: for {}", isa_info(op::isa(*program)).name);
  }
  return worth;
}

}  // namespace hone::cli
