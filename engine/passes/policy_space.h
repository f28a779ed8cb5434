// Which policies are worth measuring for a graph: those that make another plan of it.
//
// A choice that leaves the compiled graph as it is (qkv in a graph without attention) is left out; those that act when
// the plan is made (keys, attention, experts, threads) are in where the graph has what they are about. All combinations
// of what is left, in the order of plan_cost, the default policy first.
#pragma once

#include <string>
#include <vector>

#include "engine/passes/compilation.h"
#include "engine/passes/plan_cost.h"

namespace hone::passes {

struct SpaceOptions {
  std::vector<int> threads;            // counts to try besides all of the engine's, CostMachine::threads
  std::vector<std::string> attention;  // numerics classes besides the default's: only what the caller allowed.
                                       // "any": norms may be folded, too
  int64_t tokens = 1, position = 0;
  CostMachine machine;
  size_t most = 64;  // candidates; those that the model takes for the slowest are left out
};

struct PolicyCandidate {
  PlanPolicy policy;
  double ns = 0;  // by the model
};

struct PolicySpace {
  std::vector<PolicyCandidate> candidates;  // the default policy first
  std::vector<std::string> inert;           // "qkv=separate": choices that make no other plan of this graph
  size_t left_out = 0;                      // beyond SpaceOptions::most
};

// The graph with large constants of one value each: passes see the same shapes and copy no weights.
graph::Graph without_weights(const graph::Graph& graph);

// Error: what the passes say of the graph under the default policy.
Result<PolicySpace> policy_space(const graph::Graph& graph, const SpaceOptions& options);

}  // namespace hone::passes
