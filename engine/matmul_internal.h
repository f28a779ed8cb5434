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
  int64_t weight_bytes() const { return std::ssize(weights_.bytes); }

 private:
  Impl(std::shared_ptr<Engine::State> state, matmul::MatmulProblem problem)
      : state_(std::move(state)), plans_(*state_, std::move(problem)) {}
  Status pack(const MatmulSpec& spec, const WeightSource& weights);

  std::shared_ptr<Engine::State> state_;
  MatmulPlans plans_;
  PackedWeights weights_;
};

}  // namespace hone
