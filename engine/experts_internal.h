// What a call of routed experts works with; see experts.h for what it computes.
//
//   check -> route (experts_route.cpp) -> choose_experts (plan/experts_policy.cpp) -> gather -> gate and up -> down ->
//   combine
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/experts.h"
#include "engine/experts_route_internal.h"
#include "engine/matmul_plans_internal.h"
#include "engine/row_kernel_internal.h"
#include "engine/weights_internal.h"

namespace hone {

// One matmul of every expert: they share plans and have weights of their own.
struct ExpertBank {
  ExpertBank(Engine::State& state, matmul::MatmulProblem problem) : plans(state, std::move(problem)) {}

  MatmulPlans plans;
  PackedWeights weights;

  const float* of(int64_t expert) const {
    return reinterpret_cast<const float*>(weights.bytes.data()) + expert * weights.layout.batch_stride;
  }
};

class Experts::Impl {
 public:
  static Result<Experts> create(const Engine& engine, const ExpertsSpec& spec, const ExpertsWeights& weights);

  Status run(const ExpertsCall& call, ExpertsChoice* chosen);
  Result<std::vector<PlanInfo>> plans(int64_t rows);
  int64_t weight_bytes() const;
  int64_t scratch_bytes() const { return layout_.bytes; }

 private:
  // Where in the memory of a call everything lies, in bytes; `rows` of all experts together at most.
  struct Layout {
    int64_t rows = 0, counts = 0, first = 0, token = 0, position = 0, gathered = 0, gate = 0, hidden = 0, results = 0;
    int64_t bytes = 0;
  };
  // One call under way.
  struct Work;
  // One matmul of each expert that has rows. `shared`: every expert reads the same rows of `a`.
  struct Stage {
    ExpertBank& bank;
    const float* a;
    bool shared;
    float* c;
    const float* gate = nullptr;  // operand of the epilogue, laid out like c
  };

  Impl(std::shared_ptr<Engine::State> state, const ExpertsSpec& spec);
  // ---- experts_prepare.cpp
  static Status check(const ExpertsSpec& spec, const ExpertsWeights& weights);
  Status lay_out();
  Status pack(const ExpertsWeights& weights);
  Status pack_bank(ExpertBank& bank, const WeightItem& item_of);
  Status pack_pairs(const ExpertsWeights& weights);
  Status make_rows();
  // ---- experts.cpp
  Status check_call(const ExpertsCall& call) const;
  ExpertsChoice choose(const ExpertsCall& call, const Work& work) const;
  Status gather(const Work& work) const;
  Status multiply(const Work& work);
  Status run_stage(const Work& work, const Stage& stage);
  Status combine(const Work& work) const;
  runtime::Schedule* schedule_for(const Work& work, double multiply_adds) const;

  std::shared_ptr<Engine::State> state_;
  ExpertsSpec spec_;
  Layout layout_;
  // gate_up_ alone where the columns pair up (swiglu), else gate_ (silu) and up_ (times what gate_ gave).
  std::optional<ExpertBank> gate_up_, gate_, up_, down_;
  std::optional<RowKernel> gather_;
  std::vector<RowKernel> combine_;  // one after the other, each going on from what the one before has stored
  std::vector<int64_t> combined_;   // how many of top_k each takes
  runtime::Schedule* all_threads_ = nullptr;
  jit::WorkspacePool scratch_;
};

}  // namespace hone
