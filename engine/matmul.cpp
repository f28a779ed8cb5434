// The hot path reads from top to bottom in Impl::run: find the slot, check the operands, launch.
#include <fmt/format.h>

#include "engine/base/guarded.h"
#include "engine/matmul_internal.h"
#include "engine/spec_internal.h"

namespace hone {

Status Matmul::Impl::run(const MatmulCall& call) {
  if (call.m < 0) return invalid_argument(fmt::format("m={} is negative", call.m));
  if (call.m == 0 || plans_->problem().n == 0) return {};
  const matmul::MatmulProblem& problem = plans_->with_rows(call.m);
  HONE_RETURN_IF_ERROR(matmul::validate(problem));
  matmul::MatmulOperands operands{.a = call.a,
                                  .b = call.b,
                                  .c = call.c,
                                  .bias = call.bias,
                                  .gate = call.gate,
                                  .residual = call.residual,
                                  .row_scale = call.row_scale};
  if (problem.b == matmul::BLayout::kPacked) operands.b = weights_.bytes.data();
  HONE_RETURN_IF_ERROR(matmul::check_overlap(problem, operands, weights_.layout));
  HONE_ASSIGN_OR_RETURN(const ReadyPlan* const ready, plans_->ready_for(call.m));
  return ready->run(problem, operands, weights_.layout);
}

Result<const ReadyPlan*> Matmul::Impl::ready(int64_t m) {
  if (m < 1) return invalid_argument(fmt::format("m={}: a plan needs at least one row", m));
  HONE_RETURN_IF_ERROR(matmul::validate(plans_->with_rows(m)));
  return plans_->ready_for(m);
}

Result<PlanInfo> Matmul::Impl::plan(int64_t m) {
  HONE_ASSIGN_OR_RETURN(const ReadyPlan* const found, ready(m));
  return describe(*found);
}

// ---- preparing ----

Result<Matmul> Matmul::Impl::create(std::shared_ptr<Engine::State> state, const MatmulSpec& spec,
                                    const WeightSource* weights) {
  for (int64_t m : spec.expected_m)
    if (m < 0) return invalid_argument(fmt::format("expected_m has {}; rows cannot be negative", m));
  if (spec.max_m < 0) return invalid_argument(fmt::format("max_m={} is negative", spec.max_m));
  HONE_ASSIGN_OR_RETURN(matmul::MatmulProblem problem, problem_of(spec));
  if (weights == nullptr && problem.dtype != DType::kF32)
    return invalid_argument(
        fmt::format("weight_type is {}, but B comes with each call, which is for f32: give prepare() "
                    "the weights",
                    dtype_name(problem.dtype)));
  HONE_RETURN_IF_ERROR(matmul::Op::check_numerics(problem, spec.numerics));
  std::shared_ptr<Impl> impl(new Impl(std::move(state)));
  HONE_RETURN_IF_ERROR(impl->prepare(std::move(problem), spec, weights));
  return Matmul(std::move(impl));
}

// With constant weights the problem of the plans becomes that of packed ones. Who wants to hear of every plan has them
// made.
Status Matmul::Impl::prepare(matmul::MatmulProblem problem, const MatmulSpec& spec, const WeightSource* weights) {
  problem.m = 0;
  SharedPlans::Key key{.problem = problem,
                       .constant = weights != nullptr,
                       .numerics = spec.numerics,
                       .expected_m = spec.expected_m,
                       .max_m = spec.max_m,
                       .packages = state_->packages()};
  if (!state_->on_plan) plans_ = state_->matmul_plans.find(key);
  const bool fresh = plans_ == nullptr;
  if (fresh) {
    plans_ = std::make_shared<MatmulPlans>(*state_, problem, spec.numerics);
    if (weights != nullptr) HONE_RETURN_IF_ERROR(plans_->pack_b(spec.expected_m));
  }
  if (weights != nullptr) {
    HONE_ASSIGN_OR_RETURN(weights_,
                          pack_weights(*state_, problem, *weights, plans_->panels().layout, plans_->panels().isa));
  }
  if (!fresh) return {};
  HONE_RETURN_IF_ERROR(plans_->warm_up(spec.expected_m, spec.max_m));
  if (!state_->on_plan) state_->matmul_plans.add(std::move(key), plans_);
  return {};
}

// ---- the public face ----

Status Matmul::run(const MatmulCall& call) const {
  return guarded([&] { return impl_->run(call); });
}

Result<PlanInfo> Matmul::plan(int64_t m) const {
  return guarded([&] { return impl_->plan(m); });
}

Result<const plan::PlanFacts*> EngineAccess::facts(const Matmul& matmul, int64_t m) {
  HONE_ASSIGN_OR_RETURN(const ReadyPlan* const ready, matmul.impl_->ready(m));
  return &ready->plan;
}

int64_t Matmul::weight_bytes() const { return impl_->weight_bytes(); }

}  // namespace hone
