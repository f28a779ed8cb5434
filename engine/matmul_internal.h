// A prepared matmul: a slot per bucket of M, filled when it is prepared (up to max_m) or on first use, and then read
// without a lock.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "engine/plan/buckets.h"
#include "engine/ready_plan_internal.h"
#include "engine/slots_internal.h"
#include "engine/weights_internal.h"

namespace hone {

class Matmul::Impl {
 public:
  static Result<Matmul> create(std::shared_ptr<Engine::State> state, const MatmulSpec& spec, const float* weights,
                               bool constant);

  Status run(const MatmulCall& call);
  Result<PlanInfo> plan(int64_t m);
  int64_t weight_bytes() const { return weights_.memory.size(); }

 private:
  using Slot = hone::Slot<ReadyPlan>;
  // An m of its own that the caller expects and that is not the m its bucket is planned for.
  struct Expected {
    int64_t m;
    Slot* slot;
  };

  Impl(std::shared_ptr<Engine::State> state, matmul::MatmulProblem problem)
      : state_(std::move(state)), problem_(std::move(problem)) {}
  Status pack(const MatmulSpec& spec, const float* weights);
  Status warm_up(const MatmulSpec& spec);
  Slot& slot_of(int64_t m);
  int64_t planned_m(int bucket) const;
  Result<const ReadyPlan*> ready_for(int64_t m);
  Result<const ReadyPlan*> fill(Slot& slot, int64_t planned_m);

  std::shared_ptr<Engine::State> state_;
  matmul::MatmulProblem problem_;  // m = 0
  PackedWeights weights_;
  plan::Constraints constraints_;
  std::array<Slot, plan::kBuckets> buckets_;
  std::vector<Expected> expected_;  // sorted by m; fixed after create()
  std::vector<std::unique_ptr<Slot>> expected_slots_;
  SlotFiller<ReadyPlan> filler_;
};

}  // namespace hone
