// A prepared matmul: its plans, and its weights where they are constant.
#pragma once

#include <memory>

#include "engine/matmul_plans_internal.h"
#include "engine/weights_internal.h"

namespace hone {

class Matmul::Impl {
 public:
  // `weights`: null where B comes with each call.
  static Result<Matmul> create(std::shared_ptr<Engine::State> state, const MatmulSpec& spec,
                               const WeightSource* weights);

  Status run(const MatmulCall& call);
  Result<PlanInfo> plan(int64_t m);
  Result<const ReadyPlan*> ready(int64_t m);
  int64_t weight_bytes() const { return std::ssize(weights_.bytes); }

 private:
  explicit Impl(std::shared_ptr<Engine::State> state) : state_(std::move(state)) {}
  Status prepare(matmul::MatmulProblem problem, const MatmulSpec& spec, const WeightSource* weights);

  std::shared_ptr<Engine::State> state_;
  std::shared_ptr<MatmulPlans> plans_;  // of others as well, that differ in their weights only
  PackedWeights weights_;
};

}  // namespace hone
