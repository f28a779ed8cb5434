// The step of top-k: a kernel of its own in kernels/rows.
#include "engine/executable/step_internal.h"
#include "engine/passes/bufferize.h"
#include "engine/plan_code_internal.h"
#include "jit/launch.h"
#include "kernels/op/region.h"
#include "kernels/rows/topk.h"

namespace hone::executable {
namespace {

class TopKStep final : public Step {
 public:
  Status run(const Call& call) const override {
    const rows::TopKArgs args{.rows = rows.at(call.symbols),
                              .x = call.at<const float>(x),
                              .x_stride = x_stride,
                              .values = call.at<float>(values),
                              .values_stride = problem.k,
                              .indices = call.at<int32_t>(indices),
                              .indices_stride = problem.k};
    if (args.rows == 0) return {};
    if (executable == nullptr) return rows::reference(problem, args);
    rows::TopKArguments bound = rows::bind(args);
    jit::Launch launch(*executable, bound.buffers.data(), bound.params.data(), workspaces);
    // A pass over the row for each of the k, of three operations on each element.
    const double work = 3.0 * static_cast<double>(args.rows) * static_cast<double>(problem.n * problem.k);
    runtime::Schedule* const on = schedule != nullptr && op::region_pays(work, min_work) ? schedule : nullptr;
    run_tasks(on, {.op = kind, .node = name}, launch.tasks(), {jit::Launch::run_range, &launch});
    if (launch.out_of_memory()) return resource_exhausted("no memory for the workspace of " + name);
    return {};
  }

  Result<StepReport> report(std::span<const int64_t>) const override {
    return StepReport{.kernel = kernel,
                      .codegen = codegen,
                      .numerics = "exact",
                      .reason = "default",
                      .threads = schedule == nullptr ? 1 : schedule->parallelism()};
  }

  rows::TopK problem;
  Size rows;
  Place x, values, indices;
  int64_t x_stride = 0;
  plan::KernelCache::Handle executable;  // null: the reference runs
  std::string kernel = "rows_topk", codegen = std::string(plan::kFallbackCodegen);
  jit::WorkspacePool* workspaces = nullptr;
  runtime::Schedule* schedule = nullptr;
  std::optional<int64_t> min_work;
};

Status compile(Preparation& p, TopKStep& step) {
  HONE_ASSIGN_OR_RETURN(HelperCode code,
                        compile_helper(p.state, [&](Isa isa) { return rows::lower(step.problem, isa); }));
  if (!code.kernel.empty()) step.kernel = code.kernel;
  step.codegen = code.codegen;
  step.executable = std::move(code.executable);
  return {};
}

}  // namespace

Status prepare_top_k(Preparation& p, const passes::Dispatch& dispatch, Steps& steps) {
  const graph::Node& n = p.compilation.graph.node(dispatch.nodes[0]);
  const auto x = passes::as_rows(p.type(n.operands[0]), p.placement(n.operands[0]));
  if (!x) return unsupported("top_k " + n.name + ": its last dimension has to be static");
  auto step = std::make_unique<TopKStep>();
  set_names(*step, dispatch);
  step->problem = {.n = x->columns, .k = n.integer("k")};
  if (Status s = rows::validate(step->problem); !s.ok()) return unsupported("top_k " + n.name + ": " + s.message());
  step->x_stride = x->stride;
  HONE_ASSIGN_OR_RETURN(step->rows, p.size(x->rows));
  HONE_ASSIGN_OR_RETURN(step->x, p.place(n.operands[0]));
  HONE_ASSIGN_OR_RETURN(step->values, p.place(n.results[0]));
  HONE_ASSIGN_OR_RETURN(step->indices, p.place(n.results[1]));
  step->workspaces = &p.state.workspaces;
  step->min_work = p.state.target.min_work;
  HONE_ASSIGN_OR_RETURN(step->schedule, p.state.schedules.get(p.state.target.threads));
  HONE_RETURN_IF_ERROR(compile(p, *step));
  steps.push_back(std::move(step));
  return {};
}

}  // namespace hone::executable
