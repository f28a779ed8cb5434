// The hot path reads from top to bottom in Impl::run: find the slot, check the operands, launch.
#include <fmt/format.h>

#include <algorithm>

#include "engine/base/guarded.h"
#include "engine/base/log.h"
#include "engine/matmul_internal.h"
#include "engine/spec_internal.h"

namespace hone {
namespace {

// The problem with the m of this call, valid until the thread's next call of this function. Kept per thread, so that
// copying the epilogue reuses its memory and a call allocates nothing.
const matmul::MatmulProblem& with_rows(const matmul::MatmulProblem& problem, int64_t m) {
  thread_local matmul::MatmulProblem call;
  call = problem;
  call.m = m;
  return call;
}

}  // namespace

Status Matmul::Impl::run(const MatmulCall& call) {
  if (call.m < 0) return invalid_argument(fmt::format("m={} is negative", call.m));
  if (call.m == 0 || problem_.n == 0) return {};
  const matmul::MatmulProblem& problem = with_rows(problem_, call.m);
  HONE_RETURN_IF_ERROR(matmul::validate(problem));
  matmul::MatmulOperands operands{
      .a = call.a, .b = call.b, .c = call.c, .bias = call.bias, .gate = call.gate, .residual = call.residual};
  if (problem.b == matmul::BLayout::kPacked) operands.b = weights_.memory.as<float>().data();
  HONE_RETURN_IF_ERROR(matmul::check_overlap(problem, operands, weights_.layout));
  HONE_ASSIGN_OR_RETURN(const ReadyPlan* const ready, ready_for(call.m));
  return ready->run(problem, operands, weights_.layout);
}

Result<PlanInfo> Matmul::Impl::plan(int64_t m) {
  if (m < 1) return invalid_argument(fmt::format("m={}: a plan needs at least one row", m));
  HONE_RETURN_IF_ERROR(matmul::validate(with_rows(problem_, m)));
  HONE_ASSIGN_OR_RETURN(const ReadyPlan* const ready, ready_for(m));
  return describe(*ready);
}

// ---- slots ----

Matmul::Impl::Slot& Matmul::Impl::slot_of(int64_t m) {
  for (const Expected& e : expected_)
    if (e.m == m) return *e.slot;
  return buckets_[static_cast<size_t>(plan::bucket_of(m))];
}

// The m that the plan of a bucket is made for. The largest of the bucket, unless that alone is too large or makes batch
// items overlap; then the smallest, which no call of the bucket is below.
int64_t Matmul::Impl::planned_m(int bucket) const {
  matmul::MatmulProblem largest = problem_;  // not with_rows(): run() is holding its result
  largest.m = plan::bucket_m(bucket);
  return matmul::validate(largest).ok() ? largest.m : plan::bucket_first_m(bucket);
}

Result<const ReadyPlan*> Matmul::Impl::ready_for(int64_t m) {
  // n = 0 lets any m be valid; beyond the last bucket there is nothing to compute anyway.
  m = std::min(m, plan::kMaxM);
  Slot& slot = slot_of(m);
  if (const ReadyPlan* ready = slot.ready.load(std::memory_order_acquire)) return ready;
  const int bucket = plan::bucket_of(m);
  return fill(slot, &slot == &buckets_[static_cast<size_t>(bucket)] ? planned_m(bucket) : m);
}

Result<const ReadyPlan*> Matmul::Impl::fill(Slot& slot, int64_t planned_m) {
  return filler_.fill(slot, [&] {
    matmul::MatmulProblem planned = problem_;
    planned.m = planned_m;
    return make_ready(*state_, planned, constraints_);
  });
}

// ---- preparing ----

Result<Matmul> Matmul::Impl::create(std::shared_ptr<Engine::State> state, const MatmulSpec& spec, const float* weights,
                                    bool constant) {
  for (int64_t m : spec.expected_m)
    if (m < 0) return invalid_argument(fmt::format("expected_m has {}; rows cannot be negative", m));
  if (spec.max_m < 0) return invalid_argument(fmt::format("max_m={} is negative", spec.max_m));
  HONE_ASSIGN_OR_RETURN(matmul::MatmulProblem problem, problem_of(spec));
  std::shared_ptr<Impl> impl(new Impl(std::move(state), std::move(problem)));
  if (constant) HONE_RETURN_IF_ERROR(impl->pack(spec, weights));
  HONE_RETURN_IF_ERROR(impl->warm_up(spec));
  return Matmul(std::move(impl));
}

// Turns the problem into b=packed. The plan for the first expected m chooses the width of the panels; plans for other m
// are resolved under that constraint.
Status Matmul::Impl::pack(const MatmulSpec& spec, const float* weights) {
  const matmul::MatmulProblem source = problem_;
  problem_.b = matmul::BLayout::kPacked;
  problem_.ldb = 0;
  problem_.sb = source.sb == 0 ? 0 : -1;
  matmul::MatmulProblem first = problem_;
  first.m = std::max<int64_t>(1, spec.expected_m.empty() ? 1 : spec.expected_m.front());
  HONE_ASSIGN_OR_RETURN(
      const plan::PlanOf<matmul::TransformProgram> plan,
      plan::resolve_for<matmul::Op>(first, state_->target, state_->decisions, {}, *state_->packages()));
  constraints_.panel = plan.program.panel;
  HONE_ASSIGN_OR_RETURN(weights_, pack_weights(*state_, source, weights, constraints_.panel, plan.program.isa));
  return {};
}

// Every slot that calls with up to max_m rows use, and those of the expected m, which have a plan of their own where
// the bucket's is made for another m. Only the expected m are what the caller said it needs; a bucket that cannot be
// had now (memory, threads) stays empty, as do those above, which would fail as well, and a call that comes to it
// reports.
Status Matmul::Impl::warm_up(const MatmulSpec& spec) {
  std::vector<int64_t> own = spec.expected_m;
  std::erase_if(own, [](int64_t m) {
    return m < 1 || m >= plan::kMaxM || plan::bucket_m(plan::bucket_of(m)) == m;  // planned for as it is
  });
  std::sort(own.begin(), own.end());
  own.erase(std::unique(own.begin(), own.end()), own.end());
  for (int64_t m : own) {
    expected_slots_.push_back(std::make_unique<Slot>());
    expected_.push_back({m, expected_slots_.back().get()});
  }
  for (int64_t m : spec.expected_m) {
    if (m == 0) continue;
    HONE_RETURN_IF_ERROR(matmul::validate(with_rows(problem_, m)));
    HONE_RETURN_IF_ERROR(ready_for(m).status());
  }
  const int buckets = spec.max_m == 0 ? 0 : plan::bucket_of(std::min(spec.max_m, plan::kMaxM)) + 1;
  for (int bucket = 0; bucket < buckets; ++bucket) {
    // From here on calls are refused: no plan is needed.
    if (!matmul::validate(with_rows(problem_, plan::bucket_first_m(bucket))).ok()) break;
    Slot& slot = buckets_[static_cast<size_t>(bucket)];
    if (slot.ready.load(std::memory_order_relaxed) != nullptr) continue;
    const Result<const ReadyPlan*> made = guarded([&] { return fill(slot, planned_m(bucket)); });
    if (made.ok()) continue;
    HONE_LOG_EVENT(
        LogTopic::kDispatch, "not_prepared",
        {{"problem", matmul::to_string(with_rows(problem_, planned_m(bucket)))}, {"why", made.status().message()}});
    break;
  }
  return {};
}

// ---- the public face ----

Status Matmul::run(const MatmulCall& call) const {
  return guarded([&] { return impl_->run(call); });
}

Result<PlanInfo> Matmul::plan(int64_t m) const {
  return guarded([&] { return impl_->plan(m); });
}

int64_t Matmul::weight_bytes() const { return impl_->weight_bytes(); }

}  // namespace hone
