// See policy_space.h. Two policies are told apart by what the passes make of the graph, as text: whatever a pass learns
// to read of a policy is found here without a list of who reads what.
#include "engine/passes/policy_space.h"

#include <algorithm>

#include "engine/passes/pass.h"

namespace hone::passes {
namespace {

constexpr int64_t kSmallConstant = 1024;  // masks, scales and tables of angles are read by passes: they stay

// One alternative of one choice.
using Set = std::function<void(PlanPolicy&)>;
using Choice = std::vector<Set>;

template <auto Member, typename... Values>
Choice choice(Values... values) {
  return {[values](PlanPolicy& p) { p.*Member = values; }...};
}

Choice threads_choice(const SpaceOptions& options) {
  Choice all;
  for (const int threads : options.threads)
    if (threads > 0 && threads < options.machine.threads)
      all.push_back([threads](PlanPolicy& p) { p.threads = threads; });
  return all;
}

Choice attention_choice(const SpaceOptions& options) {
  Choice all;
  for (const std::string& numerics : options.attention)
    all.push_back([numerics](PlanPolicy& p) { p.attention = numerics; });
  return all;
}

bool has(const Compilation& c, DispatchKind kind) {
  return std::any_of(c.dispatches.begin(), c.dispatches.end(), [&](const Dispatch& d) { return d.kind == kind; });
}

class Space {
 public:
  Space(const graph::Graph& graph, const SpaceOptions& options) : graph_(without_weights(graph)), options_(options) {}

  Result<PolicySpace> run() {
    HONE_ASSIGN_OR_RETURN(const Compilation base, compiled({}));
    text_ = text_of(base);
    std::vector<Choice> choices = when_made(base);
    for (Choice& c : in_passes())
      if (Choice active = telling(c); !active.empty()) choices.push_back(std::move(active));
    add_all(choices, 0, {});
    order();
    return std::move(space_);
  }

 private:
  Result<Compilation> compiled(const PlanPolicy& policy) const {
    Compilation c;
    c.graph = graph_;
    c.policy = policy;
    c.stand_ins = true;
    HONE_RETURN_IF_ERROR(run_passes(c).status());
    return c;
  }

  // All that a plan is made from; who decided what and why is not part of it.
  static std::string text_of(Compilation c) {
    c.policy = {};
    c.notes.clear();
    for (Dispatch& d : c.dispatches) d.why.clear();
    return print(c);
  }

  // What acts when the plan is made: no pass shows it.
  std::vector<Choice> when_made(const Compilation& base) {
    std::vector<Choice> choices;
    const auto add = [&](Choice c, bool there) {
      if (!c.empty() && there)
        choices.push_back(std::move(c));
      else
        for (const Set& set : c) space_.inert.push_back(name(set));
    };
    add(threads_choice(options_), true);
    add(attention_choice(options_), has(base, DispatchKind::kAttention));
    add(choice<&PlanPolicy::keys>(KeyPolicy::kRows, KeyPolicy::kBlocked), has(base, DispatchKind::kAppend));
    add(choice<&PlanPolicy::experts>(ExpertsPolicy::kPerExpert, ExpertsPolicy::kGrouped, ExpertsPolicy::kDense),
        has(base, DispatchKind::kExperts));
    return choices;
  }

  std::vector<Choice> in_passes() const {
    std::vector<Choice> all = {
        choice<&PlanPolicy::qkv>(BoundaryPolicy::kSeparate), choice<&PlanPolicy::gate_up>(BoundaryPolicy::kSeparate),
        choice<&PlanPolicy::residual>(BoundaryPolicy::kSeparate), choice<&PlanPolicy::layout>(LayoutPolicy::kPadded),
        choice<&PlanPolicy::reuse>(ReusePolicy::kApart)};
    // Another numerics class, which nobody names: only where any is allowed.
    if (std::find(options_.attention.begin(), options_.attention.end(), "any") != options_.attention.end())
      all.push_back(choice<&PlanPolicy::norm>(NormPolicy::kFolded));
    return all;
  }

  // The alternatives that make another plan.
  Choice telling(const Choice& all) {
    Choice active;
    for (const Set& set : all) {
      PlanPolicy policy;
      set(policy);
      const Result<Compilation> c = compiled(policy);
      if (c.ok() && text_of(*c) != text_) {
        active.push_back(set);
      } else {
        space_.inert.push_back(to_string(policy));
      }
    }
    return active;
  }

  static std::string name(const Set& set) {
    PlanPolicy policy;
    set(policy);
    return to_string(policy);
  }

  void add_all(const std::vector<Choice>& choices, size_t at, const PlanPolicy& policy) {
    if (at == choices.size()) return add(policy);
    add_all(choices, at + 1, policy);
    for (const Set& set : choices[at]) {
      PlanPolicy with = policy;
      set(with);
      add_all(choices, at + 1, with);
    }
  }

  // A policy that the passes refuse is none for this graph.
  void add(const PlanPolicy& policy) {
    CostMachine machine = options_.machine;
    if (policy.threads > 0) machine.threads = std::min(machine.threads, policy.threads);
    // What no pass reads costs the same: one run of the passes for all of them.
    PlanPolicy seen = policy;
    seen.threads = 0, seen.keys = {}, seen.experts = {}, seen.attention.clear();
    const std::string key = to_string(seen);
    auto found = std::find_if(costed_.begin(), costed_.end(), [&](const auto& c) { return c.first == key; });
    if (found == costed_.end()) {
      costed_.emplace_back(key, compiled(seen));
      found = costed_.end() - 1;
    }
    if (!found->second.ok()) return;
    const Result<PlanCost> cost = plan_cost(*found->second, options_.tokens, options_.position, machine);
    if (cost.ok()) space_.candidates.push_back({policy, cost->ns});
  }

  void order() {
    auto& all = space_.candidates;
    // Equal costs keep the order in which they came: fewer choices that differ from the default first.
    const auto changes = [](const PolicyCandidate& c) {
      const std::string text = to_string(c.policy);
      return std::count(text.begin(), text.end(), '=');
    };
    std::stable_sort(all.begin() + 1, all.end(), [&](const PolicyCandidate& a, const PolicyCandidate& b) {
      return std::pair(a.ns, changes(a)) < std::pair(b.ns, changes(b));
    });
    if (all.size() <= options_.most) return;
    space_.left_out = all.size() - options_.most;
    all.resize(options_.most);
  }

  graph::Graph graph_;
  const SpaceOptions& options_;
  std::string text_;
  std::vector<std::pair<std::string, Result<Compilation>>> costed_;
  PolicySpace space_;
};

}  // namespace

// Of different values, or two would count as one.
graph::Graph without_weights(const graph::Graph& graph) {
  graph::Graph light = graph;
  float value = 0.5F;
  uint16_t bits = 1;
  for (const graph::NodeId id : light.order()) {
    graph::Node& n = light.node(id);
    if (n.op != graph::OpKind::constant || n.constant->splat) continue;
    const graph::TensorType type = n.constant->type;
    if (type.elements() <= kSmallConstant) continue;
    if (is_16bit_float(type.dtype)) {
      n.constant = graph::Constant::copy_of(type, std::as_bytes(std::span(&bits, 1)));
      n.constant->splat = true;
      ++bits;
    } else if (type.dtype == DType::kF32) {
      n.constant = graph::Constant::splat_f32(type, value);
      value += 0x1p-16F;
    }
  }
  return light;
}

Result<PolicySpace> policy_space(const graph::Graph& graph, const SpaceOptions& options) {
  return Space(graph, options).run();
}

}  // namespace hone::passes
