// The policy for a graph's plan, from what an Engine has read of its database.
//
//   const StoredPolicy stored = stored_policy(engine, graph, {.tokens = 128});
//   compilation.policy = stored.policy;                  stored.from says why: exact, near or default
#pragma once

#include "engine/graph/graph.h"
#include "engine/passes/policy.h"
#include "engine/plan/stored_policy.h"
#include "hone/engine.hpp"

namespace hone::executable {

// How databases name a call of this graph, as it was before any pass.
plan::GraphCall graph_call(const graph::Graph& graph, int64_t tokens, int64_t position);

struct PolicyRequest {
  int64_t tokens = 1;
  int64_t position = 0;
  // Numerics of attention that the caller allows, as PlanPolicy::attention: a policy of another class is passed over.
  std::string attention;
};

struct StoredPolicy {
  passes::PlanPolicy policy;
  plan::StoredPolicy from;
};
StoredPolicy stored_policy(const Engine& engine, const graph::Graph& graph, const PolicyRequest& request);

// Whether `policy`, a text, is one of this build and of numerics that `attention` allows.
Result<passes::PlanPolicy> usable_policy(const std::string& policy, const std::string& attention);

}  // namespace hone::executable
