// Who is measured first: by the learned ranker where there is one for this op, machine and features, else by the
// analytical model. It decides nothing else: the candidates, what is legal and who wins are the same with either.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "autotune/cost/cost.h"
#include "db/store.h"

namespace hone::autotune {

struct CandidateOrder {
  std::vector<int> indices;
  bool learned = false;
  std::string why_not;  // why it is the analytical one, when it is
  std::string_view name() const { return learned ? "learned" : "analytical"; }
};

CandidateOrder candidate_order(const op::Problem& problem, std::span<const Candidate> candidates,
                               const CostMachine& machine, db::Store& store, const std::string& machine_key);

}  // namespace hone::autotune
