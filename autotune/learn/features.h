// What a learned ranker is told of a candidate: the parts of the analytical estimate relative to each other, how tiles
// and blocks fit the problem and the caches, and the program's knobs. Nothing is told of the code generator: on one
// program they agree within a few percent, and a model must not learn the accident of which one was measured more.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autotune/cost/matmul_cost.h"

namespace hone::autotune {

std::span<const std::string_view> feature_names();

// In the order of feature_names(), all finite. `candidate`: of matmul.
std::vector<float> features(const matmul::MatmulProblem& problem, const Candidate& candidate,
                            const CostMachine& machine);

// Name of what features() computes: changes with the names and with what the numbers mean (a change of the analytical
// model shows in fixed probes), so that a stored model is never fed other columns than it was trained on.
const std::string& features_version();

}  // namespace hone::autotune
