// Slots by bucket and by expected m, and what fills them.
#include "engine/matmul_plans_internal.h"

#include <algorithm>

#include "engine/base/guarded.h"
#include "engine/base/log.h"
#include "engine/plan_code_internal.h"

namespace hone {

const matmul::MatmulProblem& MatmulPlans::with_rows(int64_t m) const {
  thread_local matmul::MatmulProblem call;
  call = problem_;
  call.m = m;
  return call;
}

MatmulPlans::Slot& MatmulPlans::slot_of(int64_t m) {
  for (const Expected& e : expected_)
    if (e.m == m) return *e.slot;
  return buckets_[static_cast<size_t>(plan::bucket_of(m))];
}

// The m that the plan of a bucket is made for. The largest of the bucket, unless that alone is too large or makes batch
// items overlap; then the smallest, which no call of the bucket is below.
int64_t MatmulPlans::planned_m(int bucket) const {
  matmul::MatmulProblem largest = problem_;  // not with_rows(): a call may be holding its result
  largest.m = plan::bucket_m(bucket);
  return matmul::validate(largest).ok() ? largest.m : plan::bucket_first_m(bucket);
}

Result<const ReadyPlan*> MatmulPlans::ready_for(int64_t m) {
  // n = 0 lets any m be valid; beyond the last bucket there is nothing to compute anyway.
  m = std::min(m, plan::kMaxM);
  Slot& slot = slot_of(m);
  if (const ReadyPlan* ready = slot.ready.load(std::memory_order_acquire)) return ready;
  const int bucket = plan::bucket_of(m);
  return fill(slot, &slot == &buckets_[static_cast<size_t>(bucket)] ? planned_m(bucket) : m);
}

Result<const ReadyPlan*> MatmulPlans::fill(Slot& slot, int64_t planned_m) {
  return filler_.fill(slot, [&] {
    matmul::MatmulProblem planned = problem_;
    planned.m = planned_m;
    return make_ready(state_, planned, constraints_);
  });
}

// ---- preparing ----

Status MatmulPlans::pack_b(std::span<const int64_t> expected_m) {
  const bool shared = problem_.sb == 0;
  problem_.b = matmul::BLayout::kPacked;
  problem_.ldb = 0;
  problem_.sb = shared ? 0 : -1;
  matmul::MatmulProblem first = problem_;
  first.m = std::max<int64_t>(1, expected_m.empty() ? 1 : expected_m.front());
  const auto resolve = [&] {
    return plan::resolve_for<matmul::Op>(first, state_.target, state_.decisions, constraints_, *state_.packages());
  };
  Result<plan::PlanOf<matmul::TransformProgram>> plan = resolve();
  if (!plan.ok()) return plan.status();
  // A class that the precompiled kernel lacks binds all calls to code of it: not before there is some.
  const std::string precompiled = constraints_.precompiled_class(problem_);
  if (problem_.n > 0 && !precompiled.empty() && plan->numerics != precompiled) {
    HONE_ASSIGN_OR_RETURN(const PlanCode code, compile_plan<matmul::Op>(state_, first, constraints_, *plan));
    if (code.empty()) {
      constraints_.numerics = precompiled;
      plan = resolve();
      if (!plan.ok()) return plan.status();
    }
  }
  constraints_.numerics = plan->numerics;
  constraints_.panel = plan->program.panel;
  panels_ = {matmul::layout_of(plan->program), plan->program.isa};
  return {};
}

// Every slot that calls with up to max_m rows use, and those of the expected m, which have a plan of their own where
// the bucket's is made for another m. Only the expected m are what the caller said it needs; a bucket that cannot be
// had now (memory, threads) stays empty, as do those above, which would fail as well, and a call that comes to it
// reports.
Status MatmulPlans::warm_up(std::span<const int64_t> expected_m, int64_t max_m) {
  std::vector<int64_t> own(expected_m.begin(), expected_m.end());
  std::erase_if(own, [](int64_t m) {
    return m < 1 || m >= plan::kMaxM || plan::bucket_m(plan::bucket_of(m)) == m;  // planned for as it is
  });
  std::sort(own.begin(), own.end());
  own.erase(std::unique(own.begin(), own.end()), own.end());
  for (int64_t m : own) {
    expected_slots_.push_back(std::make_unique<Slot>());
    expected_.push_back({m, expected_slots_.back().get()});
  }
  for (int64_t m : expected_m) {
    if (m == 0) continue;
    HONE_RETURN_IF_ERROR(matmul::validate(with_rows(m)));
    HONE_RETURN_IF_ERROR(ready_for(m).status());
  }
  const int buckets = max_m == 0 ? 0 : plan::bucket_of(std::min(max_m, plan::kMaxM)) + 1;
  for (int bucket = 0; bucket < buckets; ++bucket) {
    // From here on calls are refused: no plan is needed.
    if (!matmul::validate(with_rows(plan::bucket_first_m(bucket))).ok()) break;
    Slot& slot = buckets_[static_cast<size_t>(bucket)];
    if (slot.ready.load(std::memory_order_relaxed) != nullptr) continue;
    const Result<const ReadyPlan*> made = guarded([&] { return fill(slot, planned_m(bucket)); });
    if (made.ok()) continue;
    HONE_LOG_EVENT(LogTopic::kDispatch, "not_prepared",
                   {{"problem", matmul::to_string(with_rows(planned_m(bucket)))}, {"why", made.status().message()}});
    break;
  }
  return {};
}

}  // namespace hone
