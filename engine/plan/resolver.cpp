// Ranks the decisions of the problem's family, takes the first that can be used here, and notes why the others before
// it could not.
#include "engine/plan/resolver.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <unordered_map>

#include "engine/base/math.h"
#include "engine/base/version.h"
#include "kernels/matmul/blocking.h"
#include "kernels/op/region.h"

namespace hone::plan {
namespace {

using matmul::MatmulProblem;
using matmul::TransformProgram;

// Three doublings away, blocking and bottleneck are others: a default made for the shape is the better guess.
constexpr double kMaxDistance = 3;
// Up to so many rows the time is that of reading B once.
constexpr int64_t kFewRows = 8;

struct Ranked {
  const db::StoredDecision* stored;
  const MachineKind* kind;
  Reason reason;
  bool other_key;
  bool other_kind;
  double distance;
  bool superseded = false;  // a newer decision says the same thing
  double ns = 0;            // where times are comparable
};

double distance(int64_t m, int64_t other) {
  return std::abs(std::log2(static_cast<double>(std::max<int64_t>(m, 1))) -
                  std::log2(static_cast<double>(std::max<int64_t>(other, 1))));
}

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
  Resolution(const MatmulProblem& problem, const Target& target, const Constraints& constraints)
      : problem_(problem), target_(target), constraints_(constraints), text_(matmul::to_string(problem)) {
    threads_ = std::max(1, target.threads);
    if (constraints.threads > 0) threads_ = std::min(threads_, constraints.threads);
  }

  Result<MatmulPlan> run(const Decisions& decisions) {
    for (const Ranked& candidate : rank(decisions)) {
      if (std::optional<MatmulPlan> plan = try_decision(candidate)) {
        plan->rejected = std::move(rejected_);
        return *std::move(plan);
      }
    }
    return default_plan();
  }

 private:
  // Among decisions about this very problem the newest of each (code generator, thread count) counts, and of those the
  // fastest: a run that was asked for one thread must not hide what another found with two.
  std::vector<Ranked> rank(const Decisions& decisions) const {
    std::vector<Ranked> ranked;
    for (const Decisions::Known& known : decisions.of_family(matmul::family(problem_)))
      ranked.push_back(classify(known.stored, decisions.kind(known)));
    auto age = [](const Ranked& r) { return std::pair(r.stored->decision.decided_at, r.stored->id); };
    std::sort(ranked.begin(), ranked.end(), [&](const Ranked& a, const Ranked& b) { return age(b) < age(a); });
    std::set<std::pair<std::string, int>> seen;
    for (Ranked& r : ranked) {
      if (r.reason != Reason::kExact) continue;
      const db::Candidate& winner = r.stored->decision.winner;
      r.superseded = !seen.insert({winner.codegen, winner.threads}).second;
      r.ns = r.stored->decision.ns;
    }
    auto order = [](const Ranked& r) {
      return std::tuple(r.reason, r.other_key, r.other_kind, r.distance, r.superseded, r.ns);
    };
    std::stable_sort(ranked.begin(), ranked.end(),
                     [&](const Ranked& a, const Ranked& b) { return order(a) < order(b); });
    return ranked;
  }

  Ranked classify(const db::StoredDecision& d, const MachineKind& kind) const {
    Ranked r{.stored = &d,
             .kind = &kind,
             .reason = Reason::kNearMachine,
             .other_key = d.machine.key != target_.key,
             .other_kind = kind != target_.kind,
             .distance = distance(problem_.m, d.decision.problem.m)};
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
    return "";
  }

  bool allowed(const CodegenLabel& codegen) const {
    return constraints_.codegen.empty() || constraints_.codegen == codegen.name;
  }

  std::optional<MatmulPlan> try_decision(const Ranked& candidate) {
    const db::Candidate& winner = candidate.stored->decision.winner;
    auto reject = [&](std::string why) {
      rejected_.push_back({winner.program, std::move(why)});
      return std::nullopt;
    };
    if (candidate.distance > kMaxDistance)
      return reject(fmt::format("tuned for m={}, too far from m={}", candidate.stored->decision.problem.m, problem_.m));
    if (winner.numerics != "ordered")
      return reject(fmt::format("numerics class '{}' was not asked for", winner.numerics));
    const Result<TransformProgram> parsed = matmul::parse_program(winner.program);
    if (!parsed.ok()) return reject("not a program of this build: " + parsed.status().message());
    const CodegenLabel* codegen = choose_codegen(parsed->isa, winner.codegen);
    if (codegen == nullptr) return reject(no_codegen(parsed->isa));
    std::string difference;
    const TransformProgram program = adapt(*parsed, candidate.stored->decision.problem.m, &difference);
    if (const Status s = matmul::legal(problem_, program); !s.ok()) return reject(s.message());
    if (Status s = panel_fits(program); !s.ok()) return reject(s.message());

    MatmulPlan plan;
    plan.program = matmul::canonical(problem_, program);
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

  // Makes a program fit rows and panels that it was not made for, and says what was changed.
  TransformProgram adapt(TransformProgram p, int64_t tuned_m, std::string* difference) const {
    auto note = [&](std::string_view what, int64_t from, int64_t to) {
      *difference += fmt::format("{}{} {} -> {}", difference->empty() ? "" : "; ", what, from, to);
    };
    if (constraints_.panel > 0 && problem_.b == matmul::BLayout::kPacked && p.panel != constraints_.panel) {
      note("panel", p.panel, constraints_.panel);
      p.panel = constraints_.panel;
    }
    // A tile that held all rows of the tuned problem streams B once; it has to hold all of this one's, as far as those
    // are few.
    const int64_t rows = std::min<int64_t>(problem_.m, kFewRows);
    if (p.mr >= tuned_m && p.mr < rows) {
      note("mr", p.mr, rows);
      p.mr = rows;
      p.mc = round_up(p.mc, rows);
      const int64_t step = std::max<int64_t>(p.lanes, problem_.b == matmul::BLayout::kPacked ? p.panel : 0);
      const int64_t nr = p.nr;
      while (p.nr > step && matmul::tile_registers(p) > isa_info(p.isa).vector_registers) p.nr -= step;
      if (p.nr != nr) {
        note("nr", nr, p.nr);
        p.nc = round_up(p.nc, p.nr);
      }
    }
    return p;
  }

  Origin origin(const Ranked& candidate, const std::string& difference) const {
    const db::StoredDecision& d = *candidate.stored;
    Origin from{.decision = d.id,
                .problem = d.decision.problem.text,
                .m = d.decision.problem.m,
                .machine = d.machine.key,
                .engine = d.build.engine,
                .codegen = d.decision.winner.codegen,
                .codegen_version = d.decision.winner.codegen_version,
                .ns = d.decision.ns,
                .difference = {}};
    auto add = [&](const std::string& what) {
      if (!what.empty()) from.difference += (from.difference.empty() ? "" : "; ") + what;
    };
    if (d.decision.problem.m != problem_.m) add(fmt::format("tuned for m={}, asked for m={}", from.m, problem_.m));
    if (candidate.other_key) add("measured on a CPU with other features");
    if (candidate.other_kind) add(kind_difference(*candidate.kind, target_.kind));
    add(foreign(d));
    add(difference);
    return from;
  }

  Status panel_fits(const TransformProgram& p) const {
    if (problem_.b != matmul::BLayout::kPacked || constraints_.panel == 0 || p.panel == constraints_.panel) return {};
    return unsupported(fmt::format("B is packed in panels of {}, this needs {}", constraints_.panel, p.panel));
  }

  Result<MatmulPlan> default_plan() {
    MatmulPlan plan;
    plan.threads = op::default_threads(matmul::region_work(problem_), threads_, target_.min_work);
    plan.rejected = std::move(rejected_);
    Status why_not;
    // Strongest ISA first; a weaker one is the answer when panels do not fit the stronger.
    for (auto isa = all_isas().rbegin(); isa != all_isas().rend(); ++isa) {
      const CodegenLabel* codegen = choose_codegen(*isa, constraints_.codegen);
      if (codegen == nullptr) continue;
      const TransformProgram program = default_for(*isa, plan.threads);
      why_not = matmul::legal(problem_, program);
      if (why_not.ok()) why_not = panel_fits(program);
      if (why_not.ok()) {
        plan.program = program;
        plan.codegen = codegen->name;
        return plan;
      }
      plan.rejected.push_back({matmul::to_string(program), why_not.message()});
    }
    // Nothing emits code here: the program is only what the precompiled kernel's packed panels have to look like.
    plan.codegen = kFallbackCodegen;
    plan.program = default_for(all_isas().front(), plan.threads);
    return plan;
  }

  // Wide panels that are packed already may leave room for fewer rows than the default has.
  TransformProgram default_for(Isa isa, int threads) const {
    TransformProgram p = matmul::default_program(problem_, {.isa = isa, .caches = target_.caches, .threads = threads},
                                                 constraints_.panel);
    if (constraints_.panel == 0 || matmul::legal(problem_, p).ok()) return p;
    while (p.mr > 1 && matmul::tile_registers(p) > isa_info(isa).vector_registers) --p.mr;
    p.mc = round_up(p.mc, p.mr);
    return p;
  }

  const MatmulProblem& problem_;
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
    case Reason::kDefault:
      return "default";
  }
  return "?";
}

Target make_target(const Machine& machine, int threads, std::span<jit::CodeGenerator* const> generators,
                   Purpose purpose) {
  Target target{.key = machine.key(),
                .kind = kind_of(machine),
                .caches = blocking_caches(machine),
                .threads = std::max(1, threads),
                .min_work = {},
                .engine = std::string(engine_label()),
                .codegens = {}};
  for (jit::CodeGenerator* g : generators) {
    CodegenLabel label{.name = std::string(g->name()), .version = g->version(), .isas = {}};
    for (Isa isa : all_isas()) {
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
    families_[d.decision.problem.family].push_back({.stored = std::move(d), .kind = at->second});
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

Result<MatmulPlan> resolve(const MatmulProblem& problem, const Target& target, const Decisions& decisions,
                           const Constraints& constraints) {
  HONE_RETURN_IF_ERROR(matmul::validate(problem));
  if (!constraints.codegen.empty() && find_codegen(target, constraints.codegen) == nullptr) {
    std::vector<std::string> names;
    for (const CodegenLabel& c : target.codegens) names.push_back(c.name);
    return not_found(fmt::format("code generator '{}' cannot be used here; usable: {}", constraints.codegen,
                                 names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
  }
  return Resolution(problem, target, constraints).run(decisions);
}

bool measured_as_it_runs(const MatmulPlan& plan, const Target& target) {
  return plan.reason == Reason::kExact && !target.overruled;
}

}  // namespace hone::plan
