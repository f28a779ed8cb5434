// From a plan of attention to something that runs on the sequences of a call.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "engine/plan_code_internal.h"
#include "hone/attention.hpp"
#include "kernels/attention/fallback.h"
#include "kernels/attention/op.h"
#include "kernels/attention/operands.h"
#include "kernels/attention/problem.h"

namespace hone {

// Immutable once made; any number of calls run it at once, on sequences of up to problem.kv keys.
struct AttentionReady {
  attention::AttentionProblem problem;  // q and kv: of the bucket
  std::string node;                     // the problem as text: what a trace calls it
  plan::PlanOf<attention::AttentionProgram> plan;
  PlanCode kernels;  // empty: the precompiled kernel runs
  attention::FallbackClass fallback = attention::FallbackClass::kOnline;
  jit::WorkspacePool* workspaces = nullptr;
  jit::WorkspacePool* partials = nullptr;  // states that a program's kernels hand on, one lease for each call
  int64_t partial_elements = 0;            // of them, for each sequence
  runtime::Schedule* schedule = nullptr;   // null: inline on the caller
  std::optional<int64_t> min_work;         // see op::region_pays
  bool measured = false;                   // plan::measured_as_it_runs: whatever min_work says

  // O and lse of sequences that have been checked. Error: resource_exhausted.
  Status run(std::span<const attention::Sequence> sequences) const;

 private:
  runtime::Schedule* schedule_for(std::span<const attention::Sequence> sequences) const;
  Status run_kernel(int index, std::span<const attention::Sequence> sequences, float* states,
                    runtime::Schedule* on) const;
};

Result<std::unique_ptr<AttentionReady>> make_ready(Engine::State& state, const attention::AttentionProblem& problem,
                                                   const plan::Constraints& constraints);

PlanInfo describe(const AttentionReady& ready);

// What KeyLayout::kChosen is for a spec: blocked, unless keys in rows were measured to be faster for the first of
// `expected`, or blocks do not fill a page.
KeyLayout choose_key_layout(const Engine::State& state, const AttentionSpec& spec);

}  // namespace hone
