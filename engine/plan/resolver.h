// The Resolver: a problem, this machine and what was measured before -> the plan to run, and the reason for it.
//
//   exact         this problem was tuned on this kind of machine (engine/base/machine_kind.h), with this compatibility
//                 key, by this build
//   near_shape    so was a problem of the same family (all but its op::sizes equal), at the nearest sizes
//   near_machine  a problem of the family was tuned under another key, on another kind of machine, by another build or
//                 code generator, or with more threads than there are here
//   package       a package has it (packages.h). One of these very sizes comes before everything: who deploys a package
//                 means it. One of other sizes comes behind `exact` and before what is near, or, where there is no code
//                 generator, however far away it is
//   default       nothing usable was measured: op::default_program
//
// A plan that comes out is legal here, whatever the database says: every decision is parsed, adapted and checked again,
// and those that were passed over are listed with the reason. Only plans of a numerics class that the caller allows
// come out, so what a tune across classes has found never changes what anybody else computes. "any" is one class where
// the sizes of a problem must share one (op::narrow_numerics), unless nothing here has code of it. Pure functions of
// their arguments, so that "what would you run on that machine with that database" is a test.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "db/store.h"
#include "engine/base/machine_kind.h"
#include "engine/plan/packages.h"
#include "jit/codegen.h"
#include "kernels/op/op.h"

namespace hone::plan {

struct CodegenLabel {
  std::string name, version;
  std::vector<Isa> isas;  // that it can emit and this machine can run
};

// What plans are made for.
struct Target {
  std::string key;  // compatibility key of the machine
  MachineKind kind;
  Arch arch = host_arch();
  BlockingCaches caches;
  int threads = 1;                     // at most
  std::optional<int64_t> min_work;     // from which these pay (RegionPolicy); nullopt: not known
  FeatureSet features;                 // of the CPU: some programs need more than their ISA has
  bool overruled = false;              // regions run on another kind of Schedule than was tuned on (RegionPolicy)
  std::string engine;                  // "hone 0.1.0", as in db::BuildLabel
  std::vector<CodegenLabel> codegens;  // preferred first
};

// What becomes of the plans: they run here, or they answer a question about a machine that may be another.
enum class Purpose : uint8_t { kExecute, kAsk };

// `generators` are those that may be chosen; a generator that has nothing for this machine is left out. `machine` is
// detect_machine() where plans are executed, described_machine() where not.
Target make_target(const Machine& machine, int threads, std::span<jit::CodeGenerator* const> generators,
                   Purpose purpose = Purpose::kExecute);

// Name that a plan has as code generator when no generator can be used: the precompiled kernel of the op.
inline constexpr std::string_view kFallbackCodegen = "precompiled";

// Every decision of a database, by family. Loading all at once makes resolving a matter of a map lookup.
class Decisions {
 public:
  Decisions() = default;
  explicit Decisions(std::vector<db::StoredDecision> decisions);
  static Result<Decisions> load(db::Store& store);

  struct Known {
    db::StoredDecision stored;
    std::optional<op::Problem> problem;  // absent: not one of this build
    size_t kind = 0;
  };
  std::span<const Known> of_family(const std::string& family) const;
  const MachineKind& kind(const Known& known) const { return kinds_[known.kind]; }  // where it was measured
  size_t size() const { return size_; }

 private:
  std::map<std::string, std::vector<Known>> families_;
  std::vector<MachineKind> kinds_;  // one per distinct label: parsing it takes longer than a lookup
  size_t size_ = 0;
};

struct Constraints {
  int64_t panel = 0;     // width of the panels that B is packed in already; 0: free
  std::string codegen;   // "": free
  int threads = 0;       // at most, on top of Target::threads; 0: no further limit
  std::string numerics;  // classes that may be chosen, see op::check_numerics; "": the op's default

  // Of the precompiled kernel, which runs where no code can be had; "": none that is allowed.
  std::string precompiled_class(const op::Problem& problem) const { return op::precompiled_class(problem, numerics); }
};

enum class Reason { kExact, kNearShape, kNearMachine, kPackage, kDefault };
std::string_view reason_name(Reason reason);  // "exact", "near_shape", "near_machine", "package", "default"

// The decision, or the op of a package, that a plan comes from.
struct Origin {
  int64_t decision = 0;
  int64_t decided_at = 0;  // unix seconds
  std::string problem;
  int64_t m = 0;        // its rows
  std::string machine;  // compatibility key
  std::string engine, codegen, codegen_version;
  double ns = 0;           // as measured there
  std::string difference;  // what is not as it was measured ("" when exact): "m=128, asked for m=100; panel 32 -> 16"
  std::string why;         // of a decision that was made in a whole (db::Whole)
  std::string package;     // its path; then there is no decision, machine or time
};

struct Rejection {
  std::string program;
  std::string why;
};

// All of a plan but its program.
struct PlanFacts {
  std::string codegen;
  int threads = 1;
  std::string numerics = "ordered";  // the class of the program
  Reason reason = Reason::kDefault;
  std::optional<Origin> from;  // absent for kDefault
  std::vector<Rejection> rejected;
};

template <typename Program>
struct PlanOf : PlanFacts {
  Program program;
};
using Plan = PlanOf<op::Program>;

// Where not even a default program fits (no code generator here, or panels that no ISA can read) the plan is the
// precompiled kernel, kFallbackCodegen. Error: what validate(problem) and check_numerics say; not_found for a code
// generator in `constraints` that the target lacks; needs_code() where that kernel has no class that is allowed.
Result<Plan> resolve(const op::Problem& problem, const Target& target, const Decisions& decisions,
                     const Constraints& constraints = {}, const Packages& packages = {});

// unsupported: no code can be had, for the last reason of `rejected`, and the op's precompiled kernel (see
// op::precompiled_class) has no class that `wanted` allows.
Status needs_code(const op::Problem& problem, std::string_view wanted, std::span<const Rejection> rejected);

// The same for who has an op's own problem in hand.
template <typename Op>
Result<PlanOf<typename Op::Program>> resolve_for(const typename Op::Problem& problem, const Target& target,
                                                 const Decisions& decisions, const Constraints& constraints = {},
                                                 const Packages& packages = {}) {
  HONE_ASSIGN_OR_RETURN(Plan plan, resolve(op::Problem(problem), target, decisions, constraints, packages));
  return PlanOf<typename Op::Program>{static_cast<PlanFacts&&>(plan), std::get<typename Op::Program>(plan.program)};
}

// Whether this very problem was found to be fastest as it will run here: with the plan's threads, on this kind of
// Schedule. Only then does it need no other reason to open a region.
bool measured_as_it_runs(const PlanFacts& plan, const Target& target);

// Of plans for the same work on operands that lie in two ways, whether `a` is surely the better: a package of the very
// problem comes before what was measured, that before the rest. Of two that were measured the faster; where one was
// found in a whole, the newer, as their times are no match.
bool outranks(const PlanFacts& a, const PlanFacts& b);

}  // namespace hone::plan
