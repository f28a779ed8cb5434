// See attention_plan_internal.h.
#include "engine/attention_plan_internal.h"

#include <algorithm>
#include <vector>

#include "engine/attention_spec_internal.h"
#include "jit/launch.h"
#include "kernels/attention/bind.h"
#include "kernels/attention/blocking.h"
#include "kernels/op/region.h"

namespace hone {
namespace {

using attention::AttentionProblem;
using attention::Sequence;

// What a call needs per sequence. Kept per thread, so that calls allocate nothing once one of as many sequences has
// run. Tasks that other threads run read it while the call waits for them.
struct Frame {
  std::vector<attention::Arguments> arguments;
  std::vector<jit::LaunchItem> items;
};

int64_t floats_to_bytes(int64_t elements) { return elements * static_cast<int64_t>(sizeof(float)); }

// The precompiled kernel as tasks: the parts of all sequences, one sequence after the other.
struct FallbackCall {
  const AttentionProblem& problem;
  attention::FallbackClass numerics;
  std::span<const Sequence> sequences;

  AttentionProblem problem_of(const Sequence& sequence) const {
    AttentionProblem its = problem;
    its.batch = 1, its.q = sequence.q, its.kv = sequence.kv;
    return its;
  }
  int64_t parts() const {
    int64_t all = 0;
    for (const Sequence& s : sequences) all += attention::fallback_parts(problem_of(s), s);
    return all;
  }
  static void run(void* context, int64_t begin, int64_t end) {
    const auto& call = *static_cast<const FallbackCall*>(context);
    for (const Sequence& s : call.sequences) {
      const AttentionProblem its = call.problem_of(s);
      const int64_t parts = attention::fallback_parts(its, s);
      if (begin < parts && end > 0)
        attention::fallback_attention(its, s, call.numerics, std::max<int64_t>(begin, 0), std::min(parts, end));
      begin -= parts;
      end -= parts;
    }
  }
};

// The precompiled kernel has two classes. Where neither is allowed there is nothing to run.
Status use_fallback(const AttentionProblem& problem, std::string_view wanted, AttentionReady& ready) {
  const std::string numerics = attention::precompiled_class(wanted);
  if (numerics.empty()) return plan::needs_code(problem, wanted, ready.plan.rejected);
  ready.fallback = numerics == "ordered" ? attention::FallbackClass::kOrdered : attention::FallbackClass::kOnline;
  ready.plan.numerics = numerics;
  return {};
}

Status no_memory() { return resource_exhausted("no memory for the workspace of attention"); }

double work_of(AttentionProblem problem, const Sequence& sequence) {
  problem.batch = 1;
  problem.q = sequence.q;
  problem.kv = sequence.kv;
  return attention::region_work(problem);
}

}  // namespace

runtime::Schedule* AttentionReady::schedule_for(std::span<const Sequence> sequences) const {
  if (schedule == nullptr) return nullptr;
  const auto as_planned = [&](const Sequence& s) { return s.q == problem.q && s.kv == problem.kv; };
  if (measured && static_cast<int64_t>(sequences.size()) == problem.batch && std::ranges::all_of(sequences, as_planned))
    return schedule;
  double work = 0;
  for (const Sequence& s : sequences) work += work_of(problem, s);
  return op::region_pays(work, min_work) ? schedule : nullptr;
}

Status AttentionReady::run(std::span<const Sequence> sequences) const {
  runtime::Schedule* const on = schedule_for(sequences);
  if (kernels.empty()) {
    FallbackCall body{problem, fallback, sequences};
    run_tasks(on, {.op = "attention", .node = node}, body.parts(), {FallbackCall::run, &body});
    return {};
  }
  const int64_t elements = partial_elements * static_cast<int64_t>(sequences.size());
  const jit::WorkspaceLease states(partials, floats_to_bytes(elements));
  if (elements > 0 && states.data() == nullptr) return no_memory();
  for (size_t k = 0; k < kernels.size(); ++k)
    HONE_RETURN_IF_ERROR(run_kernel(static_cast<int>(k), sequences, static_cast<float*>(states.data()), on));
  return {};
}

Status AttentionReady::run_kernel(int index, std::span<const Sequence> sequences, float* states,
                                  runtime::Schedule* on) const {
  thread_local Frame frame;
  const jit::Executable& executable = *kernels[static_cast<size_t>(index)];
  frame.arguments.resize(std::max(frame.arguments.size(), sequences.size()));
  frame.items.clear();
  for (size_t i = 0; i < sequences.size(); ++i) {
    float* const its = states == nullptr ? nullptr : states + static_cast<int64_t>(i) * partial_elements;
    attention::Arguments& args = frame.arguments[i];
    args = attention::bind(problem, plan.program, sequences[i], index, its);
    frame.items.emplace_back(executable, args.buffers.data(), args.params.data());
  }
  const bool growing = attention::later_tasks_are_longer(problem, index);
  jit::Launch launch(executable, frame.items, workspaces, growing ? jit::Walk::kLastFirst : jit::Walk::kRange);
  run_tasks(on, {.op = "attention", .node = node}, launch.tasks(), {jit::Launch::run_range, &launch});
  return launch.out_of_memory() ? no_memory() : Status();
}

Result<std::unique_ptr<AttentionReady>> make_ready(Engine::State& state, const AttentionProblem& problem,
                                                   const plan::Constraints& constraints) {
  auto ready = std::make_unique<AttentionReady>();
  ready->problem = problem;
  ready->node = attention::to_string(problem);
  HONE_ASSIGN_OR_RETURN(ready->plan, plan::resolve_for<attention::Op>(problem, state.target, state.decisions,
                                                                      constraints, *state.packages()));
  HONE_ASSIGN_OR_RETURN(ready->kernels, compile_plan<attention::Op>(state, problem, constraints, ready->plan));
  if (ready->kernels.empty()) HONE_RETURN_IF_ERROR(use_fallback(problem, constraints.numerics, *ready));
  ready->workspaces = &state.workspaces;
  if (!ready->kernels.empty()) {
    ready->partials = &state.partials;
    ready->partial_elements = attention::partial_elements(problem, ready->plan.program);
  }
  HONE_ASSIGN_OR_RETURN(ready->schedule, state.schedules.get(ready->plan.threads));
  ready->min_work = state.target.min_work;
  ready->measured = plan::measured_as_it_runs(ready->plan, state.target);
  if (state.on_plan) state.on_plan(problem, ready->plan.program, ready->plan);
  log_plan(describe(*ready));
  return ready;
}

KeyLayout choose_key_layout(const Engine::State& state, const AttentionSpec& spec) {
  if (spec.page % attention::kKeyGroup != 0) return KeyLayout::kRows;
  if (!spec.cache || spec.key_layout != KeyLayout::kChosen || spec.expected.empty()) return KeyLayout::kBlocked;
  const auto plan_on = [&](KeyLayout layout) -> Result<plan::PlanOf<attention::Op::Program>> {
    HONE_ASSIGN_OR_RETURN(const AttentionForm form, form_of(spec, layout));
    AttentionProblem problem = form.problem;
    problem.q = spec.expected.front().q;
    problem.kv = spec.expected.front().kv;
    return plan::resolve_for<attention::Op>(problem, state.target, state.decisions, {.numerics = spec.numerics},
                                            *state.packages());
  };
  const auto rows = plan_on(KeyLayout::kRows), blocked = plan_on(KeyLayout::kBlocked);
  if (!rows.ok() || !blocked.ok()) return KeyLayout::kBlocked;  // prepare() reports what is wrong
  return plan::outranks(*rows, *blocked) ? KeyLayout::kRows : KeyLayout::kBlocked;
}

PlanInfo describe(const AttentionReady& ready) { return describe_plan(ready.node, ready.plan, ready.schedule); }

}  // namespace hone
