// The hot path reads from top to bottom in Impl::run.
#include "engine/experts.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/guarded.h"
#include "engine/experts_internal.h"
#include "kernels/matmul/blocking.h"
#include "kernels/op/region.h"

namespace hone {

struct Experts::Impl::Work {
  const ExpertsCall& call;
  ExpertsStrategy strategy;
  ExpertsRoute route;
  int64_t rows;  // of all experts
  float *gathered, *gate, *hidden, *results;
};

Status Experts::Impl::run(const ExpertsCall& call, ExpertsChoice* chosen) {
  HONE_RETURN_IF_ERROR(check_call(call));
  if (call.tokens == 0) return {};
  const jit::WorkspaceLease lease(&scratch_, layout_.bytes);
  if (lease.data() == nullptr)
    return resource_exhausted(fmt::format("no memory for the {} bytes that a call works in", layout_.bytes));
  auto* const base = static_cast<std::byte*>(lease.data());
  const auto floats = [&](int64_t at) { return reinterpret_cast<float*>(base + at); };
  const auto experts = static_cast<size_t>(spec_.experts);
  const auto routed = static_cast<size_t>(call.tokens * spec_.top_k);
  Work work{.call = call,
            .strategy = ExpertsStrategy::kPerExpert,
            .route = {.rows = {reinterpret_cast<int64_t*>(base + layout_.counts), experts},
                      .first = {reinterpret_cast<int64_t*>(base + layout_.first), experts},
                      .token = {reinterpret_cast<int32_t*>(base + layout_.token), routed},
                      .position = {reinterpret_cast<int32_t*>(base + layout_.position), routed}},
            .rows = call.tokens * spec_.top_k,
            .gathered = floats(layout_.gathered),
            .gate = floats(layout_.gate),
            .hidden = floats(layout_.hidden),
            .results = floats(layout_.results)};
  route(call.indices, call.tokens, spec_.top_k, work.route);
  const ExpertsChoice choice = choose(call, work);
  if (chosen != nullptr) *chosen = choice;
  work.strategy = choice.strategy;
  if (work.strategy == ExpertsStrategy::kDense) {
    route_dense(call.indices, call.tokens, spec_.top_k, work.route);
    work.rows = call.tokens * spec_.experts;
  } else {
    HONE_RETURN_IF_ERROR(gather(work));
  }
  HONE_RETURN_IF_ERROR(multiply(work));
  return combine(work);
}

// Everything that can be wrong is found before anything is written.
Status Experts::Impl::check_call(const ExpertsCall& call) const {
  if (call.tokens < 0) return invalid_argument(fmt::format("tokens={} is negative", call.tokens));
  if (call.tokens > spec_.max_tokens)
    return invalid_argument(fmt::format("tokens={} is more than max_tokens={}, which these experts were prepared for",
                                        call.tokens, spec_.max_tokens));
  if (call.tokens == 0) return {};
  const int64_t values = call.tokens * spec_.d, routed = call.tokens * spec_.top_k;
  const struct {
    const char* name;
    const void* data;
    int64_t elements;
  } reads[] = {{"x", call.x, values}, {"indices", call.indices, routed}, {"weights", call.weights, routed}};
  if (call.out == nullptr) return invalid_argument("out is null");
  const auto out = reinterpret_cast<uintptr_t>(call.out), out_end = reinterpret_cast<uintptr_t>(call.out + values);
  for (const auto& r : reads) {
    if (r.data == nullptr) return invalid_argument(fmt::format("{} is null", r.name));
    const auto begin = reinterpret_cast<uintptr_t>(r.data);
    if (begin < out_end && out < begin + static_cast<uintptr_t>(r.elements) * 4)  // s32 is as wide as f32
      return invalid_argument(fmt::format("out overlaps {}; give out memory of its own", r.name));
  }
  if (call.strategy.value_or(ExpertsStrategy::kGrouped) == ExpertsStrategy::kDense &&
      call.tokens * spec_.experts > layout_.rows)
    return unsupported(
        fmt::format("dense on {} tokens needs {} rows, there is memory for {}: prepare with "
                    "ExpertsSpec::strategy = kDense",
                    call.tokens, call.tokens * spec_.experts, layout_.rows));
  return check_indices(call.indices, call.tokens, spec_.top_k, spec_.experts);
}

ExpertsChoice Experts::Impl::choose(const ExpertsCall& call, const Work& work) const {
  if (call.strategy) return {*call.strategy, "asked for by the call"};
  if (spec_.strategy) return {*spec_.strategy, "asked for when prepared"};
  return plan::choose_experts(
      {.tokens = call.tokens,
       .rows = work.route.rows,
       .dense_fits = call.tokens * spec_.experts <= layout_.rows,
       .threads = call.schedule == nullptr ? state_->target.threads : call.schedule->parallelism()});
}

runtime::Schedule* Experts::Impl::schedule_for(const Work& work, double multiply_adds) const {
  if (work.call.schedule != nullptr) return work.call.schedule;
  return op::region_pays(multiply_adds, state_->target.min_work) ? all_threads_ : nullptr;
}

Status Experts::Impl::gather(const Work& work) const {
  rows::RowArgs args;
  args.extents[0] = work.rows;
  args.operands[0] = {.data = const_cast<float*>(work.call.x),
                      .strides = {spec_.d},
                      .table = work.route.token.data(),
                      .rows = work.call.tokens};
  args.operands[1] = {.data = work.gathered, .strides = {spec_.d}};
  return gather_->run(args, schedule_for(work, op::kWorkPerElement * static_cast<double>(work.rows * spec_.d)));
}

Status Experts::Impl::multiply(const Work& work) {
  const bool dense = work.strategy == ExpertsStrategy::kDense;
  const float* const x = dense ? work.call.x : work.gathered;
  if (gate_up_) {
    HONE_RETURN_IF_ERROR(run_stage(work, {.bank = *gate_up_, .a = x, .shared = dense, .c = work.hidden}));
  } else {
    HONE_RETURN_IF_ERROR(run_stage(work, {.bank = *gate_, .a = x, .shared = dense, .c = work.gate}));
    HONE_RETURN_IF_ERROR(run_stage(work, {.bank = *up_, .a = x, .shared = dense, .c = work.hidden, .gate = work.gate}));
  }
  return run_stage(work, {.bank = *down_, .a = work.hidden, .shared = false, .c = work.results});
}

// Parts in ascending order of rows: a region of several begins with the last, so that the longest start first.
Status Experts::Impl::run_stage(const Work& work, const Stage& stage) {
  thread_local std::vector<MatmulPart> parts;
  parts.clear();
  MatmulPlans& plans = stage.bank.plans;
  const matmul::MatmulProblem& problem = plans.problem();
  double total = 0;
  for (int64_t e = 0; e < spec_.experts; ++e) {
    const int64_t m = work.route.rows[static_cast<size_t>(e)], first = work.route.first[static_cast<size_t>(e)];
    if (m == 0) continue;
    const int64_t at_c = first * problem.columns();
    parts.push_back({.m = m,
                     .operands = {.a = stage.a + (stage.shared ? 0 : first * problem.k),
                                  .b = stage.bank.of(e),
                                  .c = stage.c + at_c,
                                  .gate = stage.gate == nullptr ? nullptr : stage.gate + at_c}});
    total += matmul::region_work(plans.with_rows(m));
  }
  const matmul::PackedB packed{.width = stage.bank.weights.layout.width, .batch_stride = 0};
  if (work.strategy == ExpertsStrategy::kPerExpert) {
    for (const MatmulPart& part : parts) {
      HONE_ASSIGN_OR_RETURN(const ReadyPlan* const ready, plans.ready_for(part.m));
      const matmul::MatmulProblem& its = plans.with_rows(part.m);
      runtime::Schedule* const on = work.call.schedule != nullptr ? work.call.schedule : ready->schedule_for(its);
      HONE_RETURN_IF_ERROR(ready->run_on(its, part.operands, packed, on));
    }
    return {};
  }
  std::ranges::sort(parts, {}, &MatmulPart::m);
  HONE_ASSIGN_OR_RETURN(const ReadyPlan* const ready, plans.ready_for(parts.back().m));
  return ready->run_parts(problem, parts, packed, schedule_for(work, total));
}

Status Experts::Impl::combine(const Work& work) const {
  const int64_t tokens = work.call.tokens, d = spec_.d;
  const double moved = static_cast<double>((spec_.top_k + 1) * tokens * d);
  runtime::Schedule* const on = schedule_for(work, op::kWorkPerElement * moved);
  rows::RowArgs args;
  args.extents[0] = tokens;
  const rows::Tensor out{.data = work.call.out, .strides = {d}};
  int64_t j = 0;
  for (size_t c = 0; c < combine_.size(); ++c) {
    size_t next = 0;
    if (c > 0) args.operands[next++] = out;
    for (const int64_t end = j + combined_[c]; j < end; ++j) {
      args.operands[next++] = {.data = const_cast<float*>(work.call.weights + j), .strides = {spec_.top_k}};
      args.operands[next++] = {
          .data = work.results, .strides = {d}, .table = work.route.position.data() + j * tokens, .rows = work.rows};
    }
    args.operands[next] = out;
    HONE_RETURN_IF_ERROR(combine_[c].run(args, on));
  }
  return {};
}

int64_t Experts::Impl::weight_bytes() const {
  int64_t bytes = 0;
  for (const std::optional<ExpertBank>* bank : {&gate_up_, &gate_, &up_, &down_})
    if (*bank) bytes += std::ssize((*bank)->weights.bytes);
  return bytes;
}

Result<std::vector<PlanInfo>> Experts::Impl::plans(int64_t rows) {
  if (rows < 1) return invalid_argument(fmt::format("rows={}: a plan needs at least one row", rows));
  std::vector<PlanInfo> all;
  for (std::optional<ExpertBank>* bank : {&gate_up_, &gate_, &up_, &down_}) {
    if (!*bank) continue;
    HONE_RETURN_IF_ERROR(matmul::validate((*bank)->plans.with_rows(rows)));
    HONE_ASSIGN_OR_RETURN(const ReadyPlan* const ready, (*bank)->plans.ready_for(rows));
    all.push_back(describe(*ready));
  }
  return all;
}

// ---- the face ----

Result<Experts> Experts::prepare(const Engine& engine, const ExpertsSpec& spec, const ExpertsWeights& weights) {
  return guarded([&] { return Impl::create(engine, spec, weights); });
}

Status Experts::run(const ExpertsCall& call, ExpertsChoice* chosen) const {
  return guarded([&] { return impl_->run(call, chosen); });
}

int64_t Experts::weight_bytes() const { return impl_->weight_bytes(); }
int64_t Experts::scratch_bytes() const { return impl_->scratch_bytes(); }

Result<std::vector<PlanInfo>> Experts::plans(int64_t rows) const {
  return guarded([&] { return impl_->plans(rows); });
}

}  // namespace hone
