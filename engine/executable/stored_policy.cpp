#include "engine/executable/stored_policy.h"

#include <fmt/format.h>

#include "engine/graph/text.h"
#include "engine/state_internal.h"

namespace hone::executable {

plan::GraphCall graph_call(const graph::Graph& graph, int64_t tokens, int64_t position) {
  return {.graph = plan::graph_key(graph.name, graph::print(graph)), .tokens = tokens, .position = position};
}

Result<passes::PlanPolicy> usable_policy(const std::string& text, const std::string& attention) {
  HONE_ASSIGN_OR_RETURN(passes::PlanPolicy policy, passes::parse_policy(text));
  if (policy.attention != attention && attention != "any")
    return unsupported(fmt::format("its numerics are '{}', which was not asked for",
                                   policy.attention.empty() ? plan::kPlanNumerics : policy.attention));
  if (policy.norm == passes::NormPolicy::kFolded && attention != "any")
    return unsupported("it folds norms into weights, numerics that were not asked for");
  return policy;
}

StoredPolicy stored_policy(const Engine& engine, const graph::Graph& graph, const PolicyRequest& request) {
  const Engine::State& state = *EngineAccess::state(engine);
  StoredPolicy chosen;
  chosen.policy.attention = request.attention;
  chosen.from = plan::stored_policy(
      graph_call(graph, request.tokens, request.position), state.target, state.decisions,
      [&](const db::Candidate& winner) { return usable_policy(winner.program, request.attention).status(); });
  if (chosen.from.reason == plan::PolicyReason::kDefault) return chosen;
  if (Result<passes::PlanPolicy> policy = usable_policy(chosen.from.policy, request.attention); policy.ok())
    chosen.policy = *std::move(policy);
  return chosen;
}

}  // namespace hone::executable
