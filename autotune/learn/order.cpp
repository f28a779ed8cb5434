// See order.h.
#include "autotune/learn/order.h"

#include <fmt/format.h>

#include "autotune/learn/evaluate.h"
#include "autotune/learn/features.h"

namespace hone::autotune {
namespace {

// The cost of each candidate by the newest model that was stored for this machine and these features.
Result<std::vector<double>> cost_by_ranker(const op::Problem& problem, std::span<const Candidate> candidates,
                                           const CostMachine& machine, db::Store& store,
                                           const std::string& machine_key) {
  HONE_RETURN_IF_ERROR(ranker_available());
  const auto* known = std::get_if<matmul::MatmulProblem>(&problem);
  if (known == nullptr) return unsupported(fmt::format("the ranker does not know {}", op::name(problem)));
  HONE_ASSIGN_OR_RETURN(const std::optional<db::Ranker> ranker, store.newest_ranker(machine_key, features_version()));
  if (!ranker) return not_found("no ranker is stored for this machine and build: hone db learn makes one");
  Result<std::vector<double>> cost = learned_cost(ranker->model, *known, candidates, machine);
  if (!cost.ok())
    return Status(cost.status().code(), fmt::format("ranker {}: {}", ranker->id, cost.status().message()));
  return cost;
}

}  // namespace

CandidateOrder candidate_order(const op::Problem& problem, std::span<const Candidate> candidates,
                               const CostMachine& machine, db::Store& store, const std::string& machine_key) {
  Result<std::vector<double>> cost = cost_by_ranker(problem, candidates, machine, store, machine_key);
  if (cost.ok()) return {.indices = order_by_cost(candidates, *std::move(cost)), .learned = true, .why_not = ""};
  return {.indices = measuring_order(problem, candidates, machine), .why_not = cost.status().message()};
}

}  // namespace hone::autotune
