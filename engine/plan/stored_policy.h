// Which policy the plan of a graph gets: what whole plans were measured to be fastest with, here and for these tokens.
//
//   exact    this graph with this many tokens was tuned on this kind of machine, with this key, by this build
//   near     so was this graph with other numbers of tokens, or it was tuned on another machine or by another build
//   default  nothing usable was measured: the default policy
//
// In the database a graph is a problem like any other, and a policy is its program: one store of samples, decisions,
// exports and merges for kernels and plans alike. Policies are texts here; what they mean is engine/passes' business.
// A policy changes what runs and never what is computed, unless it names a numerics class, which is then its own.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/plan/resolver.h"

namespace hone::plan {

// One call of a graph, as databases know it: "graph:layer/3f9a12cd34ef5678:tokens=128,position=512".
struct GraphCall {
  std::string graph;  // graph_key()
  int64_t tokens = 1;
  int64_t position = 0;  // tokens before these
};
// A name to read and the hash of its text to be sure: two graphs of one text are one graph, whatever their weights.
std::string graph_key(std::string_view name, std::string_view text);
db::ProblemKey graph_problem(const GraphCall& call);
// Error: invalid_argument when it is none.
Result<GraphCall> parse_graph_call(std::string_view problem);

// What a policy has in the place of a code generator, and its version: of what the words of policies mean.
inline constexpr std::string_view kPlanCodegen = "plan";
inline constexpr std::string_view kPlanVersion = "1";
// Numerics of plans whose policy names no class.
inline constexpr std::string_view kPlanNumerics = "default";

enum class PolicyReason : uint8_t { kExact, kNear, kDefault };
std::string_view policy_reason_name(PolicyReason reason);  // "exact", "near", "default"

struct StoredPolicy {
  std::string policy = "default";
  PolicyReason reason = PolicyReason::kDefault;
  std::string problem;     // that it was measured for; "" when kDefault
  std::string difference;  // what is not as it was measured
  int64_t decision = 0;
  double ns = 0, speedup = 1;       // of that call, over the default plan
  std::vector<Rejection> rejected;  // better ranked ones that could not be used, and why
};

// `usable` says whether this build can run a policy (its text) that was stored with these numerics. A decision about
// calls more than 8 times larger or smaller counts as no neighbour.
StoredPolicy stored_policy(const GraphCall& call, const Target& target, const Decisions& decisions,
                           const std::function<Status(const db::Candidate& winner)>& usable);

}  // namespace hone::plan
