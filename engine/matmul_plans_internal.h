// The plans of one matmul, whichever weights it runs on: a slot per bucket of M, filled when the op is prepared (up to
// max_m) or on first use, and then read without a lock.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "engine/plan/buckets.h"
#include "engine/ready_plan_internal.h"
#include "engine/slots_internal.h"

namespace hone {

class MatmulPlans {
 public:
  // `state` outlives this. m of the problem does not count. `numerics`: classes that plans may have, as
  // op::check_numerics takes it (checked).
  MatmulPlans(Engine::State& state, matmul::MatmulProblem problem, std::string numerics = {})
      : state_(state), problem_(std::move(problem)) {
    problem_.m = 0;
    constraints_.numerics = std::move(numerics);
  }

  const matmul::MatmulProblem& problem() const { return problem_; }
  // The problem with the m of a call, valid until the thread's next call of this function, of whichever object. Its
  // memory is kept per thread, so that copying the epilogue reuses it and a call allocates nothing.
  const matmul::MatmulProblem& with_rows(int64_t m) const;

  // How constant weights are to be packed.
  struct Panels {
    matmul::PackedB layout;
    Isa isa{};  // that packs
  };
  // Turns the problem into b=packed. The plan for the first expected m chooses the panels and with them the numerics
  // class: plans for other m are resolved under that constraint, so that the bits of a row never depend on how many
  // others are in its call. Of the classes that are allowed `bf16` comes first where this CPU has it, whatever was
  // found to be fastest for that m: it is the class that gives prompts twice the speed. Before any other call that
  // makes plans. Its code is made here: a class that the precompiled kernel lacks is taken with code in hand only, and
  // from then on a call without code is refused.
  Status pack_b(std::span<const int64_t> expected_m);
  const Panels& panels() const { return panels_; }  // after pack_b
  // Makes the plans of expected_m, and those of all m up to max_m.
  Status warm_up(std::span<const int64_t> expected_m, int64_t max_m);

  Result<const ReadyPlan*> ready_for(int64_t m);

 private:
  using Slot = hone::Slot<ReadyPlan>;
  // An m of its own that the caller expects and that is not the m its bucket is planned for.
  struct Expected {
    int64_t m;
    Slot* slot;
  };

  Slot& slot_of(int64_t m);
  int64_t planned_m(int bucket) const;
  Result<const ReadyPlan*> fill(Slot& slot, int64_t planned_m);

  Engine::State& state_;
  matmul::MatmulProblem problem_;  // m = 0
  plan::Constraints constraints_;
  Panels panels_;
  std::array<Slot, plan::kBuckets> buckets_;
  std::vector<Expected> expected_;  // sorted by m; fixed after warm_up()
  std::vector<std::unique_ptr<Slot>> expected_slots_;
  SlotFiller<ReadyPlan> filler_;
};

}  // namespace hone
