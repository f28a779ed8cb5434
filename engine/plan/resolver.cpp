// Ranks the decisions of the problem's family, and what packages have of it, takes the first that can be used here, and
// notes why the others before it could not.
#include "engine/plan/resolver.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>

#include "engine/base/math.h"
#include "engine/base/version.h"
#include "jit/aot/package_generator.h"
#include "kernels/op/region.h"

namespace hone::plan {
namespace {

// Three doublings away, blocking and bottleneck are others: a default made for the shape is the better guess.
constexpr double kMaxDistance = 3;

struct Ranked {
  const db::StoredDecision* stored;
  const op::Problem* problem;  // null: not one of this build
  const MachineKind* kind;
  Reason reason;
  bool other_key;
  bool other_kind;
  double distance;
  const db::Whole* withdrawn = nullptr;  // what was seen since, in a whole
  bool other_panel = false;              // weights lie in other panels than it was measured with
  bool superseded = false;               // a newer decision says the same thing, or answers for it
  double ns = 0;                         // where times are comparable
};

const CodegenLabel* find_codegen(const Target& target, std::string_view name) {
  const auto it = std::find_if(target.codegens.begin(), target.codegens.end(),
                               [&](const CodegenLabel& c) { return c.name == name; });
  return it == target.codegens.end() ? nullptr : &*it;
}

bool emits(const CodegenLabel& codegen, Isa isa) {
  return std::find(codegen.isas.begin(), codegen.isas.end(), isa) != codegen.isas.end();
}

class Resolution {
 public:
  Resolution(const op::Problem& problem, const Target& target, const Constraints& constraints)
      : problem_(problem), target_(target), constraints_(constraints), text_(op::to_string(problem)) {
    threads_ = std::max(1, target.threads);
    if (constraints.threads > 0) threads_ = std::min(threads_, constraints.threads);
  }

  Result<Plan> run(const Decisions& decisions, const Packages& packages) {
    std::optional<Plan> plan = choose(decisions, packages);
    if (!plan) return default_plan();
    plan->rejected = std::move(rejected_);
    return *std::move(plan);
  }

 private:
  std::optional<Plan> choose(const Decisions& decisions, const Packages& packages) {
    const std::vector<Ranked> ranked = rank(decisions);
    const auto near =
        std::find_if(ranked.begin(), ranked.end(), [](const Ranked& r) { return r.reason != Reason::kExact; });
    if (std::optional<Plan> plan = try_packages(packages, /*same_sizes=*/true)) return plan;
    for (auto at = ranked.begin(); at != near; ++at)
      if (std::optional<Plan> plan = try_decision(*at)) return plan;
    if (std::optional<Plan> plan = try_packages(packages, /*same_sizes=*/false)) return plan;
    for (auto at = near; at != ranked.end(); ++at)
      if (std::optional<Plan> plan = try_decision(*at)) return plan;
    return std::nullopt;
  }

  // The nearest first, of equally near ones the newest.
  std::optional<Plan> try_packages(const Packages& packages, bool same_sizes) {
    std::vector<std::pair<double, const PackagedOp*>> ranked;
    for (const PackagedOp& op : packages.of_family(op::family(problem_))) {
      const double distance = op::distance(problem_, op.problem);
      if ((distance == 0) == same_sizes) ranked.emplace_back(distance, &op);
    }
    std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [distance, op] : ranked)
      if (std::optional<Plan> plan = try_package(*op, distance)) return plan;
    return std::nullopt;
  }

  // Its code is for one LoopIR, so nothing is adapted: the program fits as it is, or not at all.
  std::optional<Plan> try_package(const PackagedOp& op, double distance) {
    auto reject = [&](std::string why) {
      rejected_.push_back({op::to_string(op.program), fmt::format("package {}: {}", op.package, std::move(why))});
      return std::nullopt;
    };
    const std::string packaged = op::sizes_text(op.problem), asked = op::sizes_text(problem_);
    if (distance > kMaxDistance && !target_.codegens.empty())
      return reject(fmt::format("made for {}, too far from {}", packaged, asked));
    const std::string numerics = op::numerics(op.program);
    if (!op::numerics_allowed(problem_, constraints_.numerics, numerics))
      return reject(fmt::format("numerics class '{}' was not asked for", numerics));
    if (std::string lacks = op::missing(op.program, target_.features); !lacks.empty()) return reject(std::move(lacks));
    if (const Status s = op::legal(problem_, op.program); !s.ok()) return reject(s.message());
    if (const Status s = op::panel_fits(problem_, op.program, constraints_.panel); !s.ok()) return reject(s.message());
    if (distance > 0 && !is_lowering_of(problem_, op.program, op.loop_ir))
      return reject(fmt::format("made for {}, its code does not fit {}", packaged, asked));
    Plan plan;
    plan.program = op.program;
    plan.codegen = jit::kPackageCodegen;
    plan.threads = op.threads > 0 ? std::min(op.threads, threads_)
                                  : op::default_threads(op::region_work(problem_), threads_, target_.min_work);
    plan.numerics = numerics;
    plan.reason = Reason::kPackage;
    plan.from = Origin{.problem = op::to_string(op.problem),
                       .m = op::rows(op.problem),
                       .machine = {},
                       .engine = op.engine,
                       .codegen = op.codegen,
                       .codegen_version = {},
                       .difference = packaged == asked ? "" : fmt::format("made for {}, asked for {}", packaged, asked),
                       .why = {},
                       .package = op.package};
    return plan;
  }

  // Among decisions about this very problem the newest of each (code generator, thread count, numerics class, panels)
  // counts, and of those that need not be adapted to the panels at hand the fastest: a run that was asked for one
  // thread must not hide what another found with two, nor one across all classes what another found within the one that
  // is allowed here. One that was made in a whole withdraws all of its class that are older: they were measured alone.
  // Those of its class that are newer are not compared with it by time, see weigh_against_newer().
  std::vector<Ranked> rank(const Decisions& decisions) const {
    std::vector<Ranked> ranked;
    for (const Decisions::Known& known : decisions.of_family(op::family(problem_)))
      ranked.push_back(classify(known, decisions.kind(known)));
    auto age = [](const Ranked& r) { return std::pair(r.stored->decision.decided_at, r.stored->id); };
    std::sort(ranked.begin(), ranked.end(), [&](const Ranked& a, const Ranked& b) { return age(b) < age(a); });
    std::set<std::tuple<std::string, int, std::string, bool>> seen;
    std::map<std::string, const db::Whole*> wholes;  // the newest of each class
    for (auto at = ranked.begin(); at != ranked.end(); ++at) {
      Ranked& r = *at;
      if (r.reason != Reason::kExact) continue;
      const db::Candidate& winner = r.stored->decision.winner;
      r.other_panel = needs_other_panel(winner.program);
      r.superseded = !seen.insert({winner.codegen, winner.threads, winner.numerics, r.other_panel}).second;
      r.ns = r.stored->decision.ns;
      const db::Whole*& whole = wholes[winner.numerics];
      r.withdrawn = whole;
      if (whole != nullptr || !r.stored->whole) continue;
      whole = &*r.stored->whole;
      weigh_against_newer(r, std::span(ranked.begin(), at));
    }
    auto order = [](const Ranked& r) {
      return std::tuple(r.reason, r.other_key, r.other_kind, r.distance, r.withdrawn != nullptr, r.other_panel,
                        r.superseded, r.ns);
    };
    std::stable_sort(ranked.begin(), ranked.end(),
                     [&](const Ranked& a, const Ranked& b) { return order(a) < order(b); });
    return ranked;
  }

  // A newer tune decides anew, by whatever code generator, if it could have as many threads as the whole's plan: its
  // default says how many there were. One that had fewer answers another question, and stays behind.
  static void weigh_against_newer(Ranked& whole, std::span<Ranked> newer) {
    const db::Candidate& kept = whole.stored->decision.winner;
    const auto same_question = [&](const Ranked& r) {
      return r.reason == Reason::kExact && r.stored->decision.winner.numerics == kept.numerics &&
             r.other_panel == whole.other_panel;
    };
    const auto had_threads = [&](const Ranked& r) {
      const db::Decision& d = r.stored->decision;
      return std::max(d.winner.threads, d.fallback.threads) >= kept.threads;
    };
    for (Ranked& r : newer) {
      if (!same_question(r)) continue;
      (had_threads(r) ? whole : r).superseded = true;
    }
  }

  bool needs_other_panel(const std::string& program) const {
    if (constraints_.panel == 0) return false;
    const Result<op::Program> parsed = op::parse_program(problem_, program);
    return parsed.ok() && !op::panel_fits(problem_, *parsed, constraints_.panel).ok();
  }

  Ranked classify(const Decisions::Known& known, const MachineKind& kind) const {
    const db::StoredDecision& d = known.stored;
    Ranked r{.stored = &d,
             .problem = known.problem ? &*known.problem : nullptr,
             .kind = &kind,
             .reason = Reason::kNearMachine,
             .other_key = d.machine.key != target_.key,
             .other_kind = kind != target_.kind,
             .distance = known.problem ? op::distance(problem_, *known.problem) : 0};
    if (!r.other_key && !r.other_kind && foreign(d).empty())
      r.reason = d.decision.problem.text == text_ ? Reason::kExact : Reason::kNearShape;
    return r;
  }

  // What of the build or of the threads is not as it was measured.
  std::string foreign(const db::StoredDecision& d) const {
    const db::Candidate& winner = d.decision.winner;
    const CodegenLabel* codegen = find_codegen(target_, winner.codegen);
    if (d.build.engine != target_.engine) return fmt::format("measured by {}", d.build.engine);
    if (codegen == nullptr || !allowed(*codegen)) return fmt::format("measured with {}", winner.codegen);
    if (codegen->version != winner.codegen_version)
      return fmt::format("measured with {} {}, this is {}", winner.codegen, winner.codegen_version, codegen->version);
    if (winner.threads > threads_) return fmt::format("measured with {} threads", winner.threads);
    if (d.whole && d.whole->threads != threads_)
      return fmt::format("measured in a whole of {} threads", d.whole->threads);
    return "";
  }

  bool allowed(const CodegenLabel& codegen) const {
    return constraints_.codegen.empty() || constraints_.codegen == codegen.name;
  }

  std::optional<Plan> try_decision(const Ranked& candidate) {
    const db::Candidate& winner = candidate.stored->decision.winner;
    auto reject = [&](std::string why) {
      rejected_.push_back({winner.program, std::move(why)});
      return std::nullopt;
    };
    if (candidate.problem == nullptr) return reject("its problem is not one of this build");
    if (candidate.withdrawn != nullptr) return reject("taken back: " + candidate.withdrawn->why);
    if (candidate.distance > kMaxDistance)
      return reject(
          fmt::format("tuned for {}, too far from {}", op::sizes_text(*candidate.problem), op::sizes_text(problem_)));
    if (!op::numerics_allowed(problem_, constraints_.numerics, winner.numerics))
      return reject(fmt::format("numerics class '{}' was not asked for", winner.numerics));
    const Result<op::Program> parsed = op::parse_program(problem_, winner.program);
    if (!parsed.ok()) return reject("not a program of this build: " + parsed.status().message());
    if (std::string lacks = op::missing(*parsed, target_.features); !lacks.empty()) return reject(std::move(lacks));
    const CodegenLabel* codegen = choose_codegen(op::isa(*parsed), winner.codegen);
    if (codegen == nullptr) return reject(no_codegen(op::isa(*parsed)));
    const op::Adapted adapted = op::adapt(problem_, *candidate.problem, *parsed, constraints_.panel);
    const std::string& difference = adapted.difference;
    if (const Status s = op::legal(problem_, adapted.program); !s.ok()) return reject(s.message());
    if (Status s = op::panel_fits(problem_, adapted.program, constraints_.panel); !s.ok()) return reject(s.message());
    // The class is the program's: what is stored with it is a label.
    if (op::numerics(adapted.program) != winner.numerics)
      return reject(fmt::format("is of numerics class '{}', not '{}'", op::numerics(adapted.program), winner.numerics));

    Plan plan;
    plan.program = op::canonical(problem_, adapted.program);
    plan.codegen = codegen->name;
    plan.threads = std::clamp(winner.threads, 1, threads_);
    plan.numerics = winner.numerics;
    plan.reason = candidate.reason;
    if (plan.reason == Reason::kExact && !difference.empty()) plan.reason = Reason::kNearShape;
    plan.from = origin(candidate, difference);
    return plan;
  }

  // The generator that measured it if it can be used, else the preferred one that emits the ISA.
  const CodegenLabel* choose_codegen(Isa isa, std::string_view wanted) const {
    const CodegenLabel* measured = find_codegen(target_, wanted);
    if (measured != nullptr && allowed(*measured) && emits(*measured, isa)) return measured;
    for (const CodegenLabel& c : target_.codegens)
      if (allowed(c) && emits(c, isa)) return &c;
    return nullptr;
  }

  std::string no_codegen(Isa isa) const {
    return fmt::format("no code generator here emits {} for this machine{}", isa_info(isa).name,
                       constraints_.codegen.empty() ? "" : " (asked for " + constraints_.codegen + ")");
  }

  Origin origin(const Ranked& candidate, const std::string& difference) const {
    const db::StoredDecision& d = *candidate.stored;
    Origin from{.decision = d.id,
                .decided_at = d.decision.decided_at,
                .problem = d.decision.problem.text,
                .m = d.decision.problem.m,
                .machine = d.machine.key,
                .engine = d.build.engine,
                .codegen = d.decision.winner.codegen,
                .codegen_version = d.decision.winner.codegen_version,
                .ns = d.decision.ns,
                .difference = {},
                .why = d.whole ? d.whole->why : "",
                .package = {}};
    auto add = [&](const std::string& what) {
      if (!what.empty()) from.difference += (from.difference.empty() ? "" : "; ") + what;
    };
    const std::string tuned = op::sizes_text(*candidate.problem), asked = op::sizes_text(problem_);
    if (tuned != asked) add(fmt::format("tuned for {}, asked for {}", tuned, asked));
    if (candidate.other_key) add("measured on a CPU with other features");
    if (candidate.other_kind) add(kind_difference(*candidate.kind, target_.kind));
    add(foreign(d));
    add(difference);
    return from;
  }

  Result<Plan> default_plan() {
    Plan plan;
    plan.threads = op::default_threads(op::region_work(problem_), threads_, target_.min_work);
    plan.rejected = std::move(rejected_);
    const size_t first = plan.rejected.size();
    // Strongest ISA first; a weaker one is the answer when panels do not fit the stronger.
    const std::vector<Isa> isas = isas_of(target_.arch);
    for (auto isa = isas.rbegin(); isa != isas.rend(); ++isa) {
      const CodegenLabel* codegen = choose_codegen(*isa, constraints_.codegen);
      if (codegen == nullptr) continue;
      const op::Program program = default_for(*isa, plan.threads);
      Status why_not = op::legal(problem_, program);
      if (why_not.ok()) why_not = op::panel_fits(problem_, program, constraints_.panel);
      if (const std::string lacks = op::missing(program, target_.features); why_not.ok() && !lacks.empty())
        why_not = unsupported(lacks);
      if (why_not.ok()) {
        plan.program = program;
        plan.numerics = op::numerics(program);
        plan.codegen = codegen->name;
        return plan;
      }
      plan.rejected.push_back({op::to_string(program), why_not.message()});
    }
    plan.numerics = constraints_.precompiled_class(problem_);
    // Of the strongest ISA: weaker ones lack the instructions by nature, which says nothing of this CPU.
    if (plan.numerics.empty())
      return needs_code(problem_, constraints_.numerics,
                        std::span(plan.rejected).first(std::min(first + 1, plan.rejected.size())));
    // Nothing emits code here: the program is only what the precompiled kernel's packed panels have to look like.
    plan.codegen = kFallbackCodegen;
    plan.program = default_for(isas.empty() ? all_isas().front() : isas.front(), plan.threads);
    return plan;
  }

  op::Program default_for(Isa isa, int threads) const {
    return op::default_program(problem_, {.isa = isa,
                                          .caches = target_.caches,
                                          .threads = threads,
                                          .panel = constraints_.panel,
                                          .numerics = constraints_.numerics,
                                          .features = target_.features});
  }

  const op::Problem& problem_;
  const Target& target_;
  const Constraints& constraints_;
  std::string text_;
  int threads_ = 1;
  std::vector<Rejection> rejected_;
};

}  // namespace

std::string_view reason_name(Reason reason) {
  switch (reason) {
    case Reason::kExact:
      return "exact";
    case Reason::kNearShape:
      return "near_shape";
    case Reason::kNearMachine:
      return "near_machine";
    case Reason::kPackage:
      return "package";
    case Reason::kDefault:
      return "default";
  }
  return "?";
}

Target make_target(const Machine& machine, int threads, std::span<jit::CodeGenerator* const> generators,
                   Purpose purpose) {
  Target target{.key = machine.key(),
                .kind = kind_of(machine),
                .arch = machine.arch(),
                .caches = blocking_caches(machine),
                .threads = std::max(1, threads),
                .min_work = {},
                .features = machine.features,
                .engine = std::string(engine_label()),
                .codegens = {}};
  for (jit::CodeGenerator* g : generators) {
    CodegenLabel label{.name = std::string(g->name()), .version = g->version(), .isas = {}};
    for (Isa isa : isas_of(machine.arch())) {
      const bool has = machine.supports(isa) || g->name() == "interp";
      if (has && (purpose == Purpose::kAsk ? g->emits(isa) : g->targets(isa))) label.isas.push_back(isa);
    }
    if (!label.isas.empty()) target.codegens.push_back(std::move(label));
  }
  return target;
}

Decisions::Decisions(std::vector<db::StoredDecision> decisions) : size_(decisions.size()) {
  std::unordered_map<std::string, size_t> kind_of_label;
  for (db::StoredDecision& d : decisions) {
    const auto [at, is_new] = kind_of_label.try_emplace(d.machine.label, kinds_.size());
    if (is_new) kinds_.push_back(kind_of(read_machine_label(d.machine.label)));
    const Result<op::Problem> problem = op::parse_problem(d.decision.problem.text);
    families_[d.decision.problem.family].push_back(
        {.stored = std::move(d), .problem = problem.ok() ? std::optional(*problem) : std::nullopt, .kind = at->second});
  }
}

Result<Decisions> Decisions::load(db::Store& store) {
  HONE_ASSIGN_OR_RETURN(std::vector<db::StoredDecision> all, store.all_decisions());
  return Decisions(std::move(all));
}

std::span<const Decisions::Known> Decisions::of_family(const std::string& family) const {
  const auto it = families_.find(family);
  if (it == families_.end()) return {};
  return it->second;
}

Result<Plan> resolve(const op::Problem& problem, const Target& target, const Decisions& decisions,
                     const Constraints& constraints, const Packages& packages) {
  HONE_RETURN_IF_ERROR(op::validate(problem));
  HONE_RETURN_IF_ERROR(op::check_numerics(problem, constraints.numerics));
  if (!constraints.codegen.empty() && find_codegen(target, constraints.codegen) == nullptr) {
    std::vector<std::string> names;
    for (const CodegenLabel& c : target.codegens) names.push_back(c.name);
    return not_found(fmt::format("code generator '{}' cannot be used here; usable: {}", constraints.codegen,
                                 names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
  }
  Constraints narrowed = constraints;
  narrowed.numerics = op::narrow_numerics(problem, constraints.numerics, target.features, target.arch);
  if (narrowed.numerics != constraints.numerics) {
    Result<Plan> plan = Resolution(problem, target, narrowed).run(decisions, packages);
    if (plan.ok()) return plan;
  }
  return Resolution(problem, target, constraints).run(decisions, packages);
}

Status needs_code(const op::Problem& problem, std::string_view wanted, std::span<const Rejection> rejected) {
  return unsupported(fmt::format("numerics '{}' needs generated code, which the precompiled kernel of {} is not: {}",
                                 wanted, op::name(problem),
                                 rejected.empty() ? "no code generator can be used here" : rejected.back().why));
}

bool measured_as_it_runs(const PlanFacts& plan, const Target& target) {
  return plan.reason == Reason::kExact && !target.overruled;
}

bool outranks(const PlanFacts& a, const PlanFacts& b) {
  enum { kPackaged, kDecided, kGuessed };
  const auto grade = [](const PlanFacts& p) {
    if (p.reason == Reason::kPackage && p.from->difference.empty()) return kPackaged;
    return p.reason == Reason::kExact ? kDecided : kGuessed;
  };
  if (grade(a) != grade(b)) return grade(a) < grade(b);
  if (grade(a) != kDecided) return false;
  const auto age = [](const PlanFacts& p) { return std::pair(p.from->decided_at, p.from->decision); };
  if (!a.from->why.empty() || !b.from->why.empty()) return age(b) < age(a);
  return a.from->ns < b.from->ns;
}

}  // namespace hone::plan
