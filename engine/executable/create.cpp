// Making a plan: what does not depend on the call is decided, compiled and packed here.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "engine/base/guarded.h"
#include "engine/executable/plan_internal.h"
#include "engine/passes/plan_memory.h"

namespace hone::executable {
namespace {

using graph::Dim;
using graph::Graph;
using graph::OpKind;
using graph::ValueId;

Status prepare_step(Preparation& p, const passes::Dispatch& d, Steps& steps) {
  switch (d.kind) {
    case passes::DispatchKind::kMatmul:
      return prepare_matmul(p, d, steps);
    case passes::DispatchKind::kAttention:
      return prepare_attention(p, d, steps);
    case passes::DispatchKind::kAppend:
      return prepare_append(p, d, steps);
    case passes::DispatchKind::kRows:
      return prepare_rows(p, d, steps);
    case passes::DispatchKind::kTopK:
      return prepare_top_k(p, d, steps);
    case passes::DispatchKind::kExperts:
      return prepare_experts(p, d, steps);
    case passes::DispatchKind::kView:
      return {};
  }
  return {};
}

// ---- constants ----

// Elements of iota along its axis.
Result<AlignedBuffer> counted(DType dtype, int64_t count) {
  HONE_ASSIGN_OR_RETURN(AlignedBuffer memory, AlignedBuffer::allocate_elements(count, 4));
  for (int64_t i = 0; i < count; ++i) {
    if (dtype == DType::kF32) {
      memory.as<float>()[static_cast<size_t>(i)] = static_cast<float>(i);
    } else {
      memory.as<int32_t>()[static_cast<size_t>(i)] = static_cast<int32_t>(i);
    }
  }
  return memory;
}

// Weights that are packed when their step is prepared: a matmul's B, those of experts.
bool is_packed(const Graph& g, const graph::Node& n, size_t operand) {
  if (n.op == OpKind::matmul) return operand == 1 && g.constant(n.operands[1]) != nullptr;
  return n.op == OpKind::experts && operand >= 3;
}

// Values that steps read where they lie.
std::vector<ValueId> read_in_place(const passes::Compilation& c) {
  std::vector<ValueId> values;
  for (const passes::Dispatch& d : c.dispatches) {
    if (d.kind == passes::DispatchKind::kView) continue;
    for (const graph::NodeId id : d.nodes) {
      const graph::Node& n = c.graph.node(id);
      for (size_t i = 0; i < n.operands.size(); ++i)
        if (!is_packed(c.graph, n, i) && c.placements.contains(n.operands[i])) values.push_back(n.operands[i]);
    }
  }
  return values;
}

Status keep_constants(Preparation& p, ExecutablePlan::Impl& plan) {
  const Graph& g = p.compilation.graph;
  for (const ValueId v : read_in_place(p.compilation)) {
    const size_t index = static_cast<size_t>(p.placement(v).buffer);
    const passes::Buffer& b = p.compilation.buffers[index];
    if (b.kind != passes::Buffer::Kind::kConstant || p.constants[index] != nullptr) continue;
    const graph::Node& owner = *g.definition(b.value);
    if (owner.op == OpKind::iota) {
      HONE_ASSIGN_OR_RETURN(const int64_t count, p.largest(b.elements));
      HONE_ASSIGN_OR_RETURN(AlignedBuffer memory, counted(p.type(b.value).dtype, count));
      p.constant_bytes += memory.size();
      p.owned.push_back(std::make_shared<AlignedBuffer>(std::move(memory)));
      p.constants[index] = p.owned.back()->data();
    } else {
      // Where it lies; joined ones that something reads as they are need a place of their own.
      const graph::Constant kept = owner.constant->contiguous();
      p.constants[index] = kept.data.data();
      p.constant_bytes += kept.stored_bytes();
      plan.owners.push_back(kept.owner);
    }
  }
  return {};
}

// What is packed, or in memory of the plan, need not be here as well.
void drop_constants(Graph& g) {
  for (const graph::NodeId id : g.order()) {
    graph::Node& n = g.node(id);
    if (n.op != OpKind::constant || n.constant->stored_bytes() <= 256) continue;
    n.constant->data = {};
    n.constant->runs.reset();
    n.constant->owner.reset();
  }
}

// ---- inputs, outputs, guards ----

// By the type of some value.
bool is_used(const Graph& g, std::string_view symbol) {
  const auto uses = [&](ValueId v) {
    const graph::Shape& dims = g.value(v).type.dims;
    return std::any_of(dims.begin(), dims.end(), [&](const Dim& d) { return d.uses(symbol); });
  };
  if (std::any_of(g.inputs().begin(), g.inputs().end(), uses)) return true;
  return std::any_of(g.order().begin(), g.order().end(), [&](graph::NodeId id) {
    return std::any_of(g.node(id).results.begin(), g.node(id).results.end(), uses);
  });
}

Status describe_inputs(const Preparation& p, ExecutablePlan::Impl& plan) {
  const Graph& g = p.compilation.graph;
  std::vector<bool> bound(p.symbols.size());
  if (plan.position_symbol >= 0) bound[static_cast<size_t>(plan.position_symbol)] = true;
  for (const ValueId v : g.inputs()) {
    ExecutablePlan::Impl::Input input{.name = g.value(v).name,
                                      .buffer = p.placement(v).buffer,
                                      .truth = p.type(v).dtype == DType::kU8,
                                      .dims = {},
                                      .rules = {}};
    for (const Dim& d : p.type(v).dims) {
      ExecutablePlan::Impl::InputDim dim;
      HONE_ASSIGN_OR_RETURN(dim.size, p.size(d));
      const auto symbol = d.as_symbol();
      const auto at = symbol ? std::find(p.symbols.begin(), p.symbols.end(), *symbol) : p.symbols.end();
      if (at != p.symbols.end() && *symbol != g.position) {
        dim.binds = static_cast<int>(at - p.symbols.begin());
        bound[static_cast<size_t>(dim.binds)] = true;
      }
      input.dims.push_back(dim);
      input.rules.push_back(to_string(d));
    }
    plan.inputs.push_back(std::move(input));
  }
  for (size_t i = 0; i < bound.size(); ++i) {
    plan.least.push_back(g.symbols[i].min);
    if (!bound[i] && is_used(g, p.symbols[i]))
      return unsupported(fmt::format("symbol {} is the dimension of no input: nothing gives it a value", p.symbols[i]));
  }
  return {};
}

Status describe_outputs(const Preparation& p, ExecutablePlan::Impl& plan) {
  const Graph& g = p.compilation.graph;
  for (const ValueId v : g.outputs()) {
    ExecutablePlan::Impl::Output output{.name = g.value(v).name, .buffer = p.placement(v).buffer, .dims = {}};
    output.element_bytes = dtype_bytes(p.type(v).dtype);
    HONE_ASSIGN_OR_RETURN(output.dims, sizes_of(p.type(v).dims, p.symbols));
    plan.outputs.push_back(std::move(output));
  }
  return {};
}

Status describe_guards(const Preparation& p, ExecutablePlan::Impl& plan) {
  for (const passes::Guard& guard : p.compilation.guards) {
    ExecutablePlan::Impl::Check check{
        .kind = guard.kind, .left = {}, .right = {}, .what = guard.what, .rule = guard.rule};
    HONE_ASSIGN_OR_RETURN(check.left, p.size(guard.left));
    HONE_ASSIGN_OR_RETURN(check.right, p.size(guard.right));
    plan.checks.push_back(std::move(check));
  }
  return {};
}

Result<std::shared_ptr<ExecutablePlan::Impl>> make(const Engine& engine, passes::Compilation compilation,
                                                   const PlanOptions& options) {
  if (compilation.stand_ins) return invalid_argument("the graph was compiled without its weights");
  HONE_RETURN_IF_ERROR(passes::check_memory(compilation));
  auto plan = std::make_shared<ExecutablePlan::Impl>(engine);
  Preparation p(engine, compilation, options);
  const auto position = std::find(p.symbols.begin(), p.symbols.end(), compilation.graph.position);
  if (position != p.symbols.end()) plan->position_symbol = static_cast<int>(position - p.symbols.begin());
  HONE_ASSIGN_OR_RETURN(plan->tokens, p.size(compilation.graph.tokens));
  HONE_RETURN_IF_ERROR(describe_inputs(p, *plan));
  HONE_RETURN_IF_ERROR(describe_outputs(p, *plan));
  HONE_RETURN_IF_ERROR(describe_guards(p, *plan));
  for (const passes::Dispatch& d : compilation.dispatches) {
    const size_t before = plan->steps.size();
    HONE_RETURN_IF_ERROR(prepare_step(p, d, plan->steps));
    for (size_t i = before; i < plan->steps.size(); ++i) plan->steps[i]->split = allowed_split(compilation.graph, d);
  }
  HONE_RETURN_IF_ERROR(keep_constants(p, *plan));
  for (const passes::Buffer& b : compilation.buffers)
    plan->arena_offsets.push_back(b.kind == passes::Buffer::Kind::kIntermediate ? b.offset : -1);
  plan->arena_offsets.resize(p.constants.size(), -1);
  plan->memory = {.arena_bytes = compilation.memory.arena_bytes,
                  .without_reuse = compilation.memory.without_reuse,
                  .packed_bytes = p.packed_bytes,
                  .constant_bytes = p.constant_bytes};
  for (const auto& owned : p.owned) plan->owners.push_back(owned);
  plan->constants = std::move(p.constants);
  plan->caches = std::move(p.caches);
  plan->symbols = std::move(p.symbols);
  drop_constants(compilation.graph);
  plan->compilation = std::move(compilation);
  return plan;
}

}  // namespace

Result<ExecutablePlan> ExecutablePlan::create(const Engine& engine, passes::Compilation compilation,
                                              const PlanOptions& options) {
  return guarded([&]() -> Result<ExecutablePlan> {
    HONE_ASSIGN_OR_RETURN(const Engine limited, EngineAccess::with_threads(engine, compilation.policy.threads));
    HONE_ASSIGN_OR_RETURN(std::shared_ptr<Impl> impl, make(limited, std::move(compilation), options));
    return ExecutablePlan(std::move(impl));
  });
}

const passes::Compilation& ExecutablePlan::compilation() const { return impl_->compilation; }

PlanMemory ExecutablePlan::memory() const { return impl_->memory; }

std::vector<int64_t> ExecutablePlan::Impl::values_of(int64_t count, int64_t position) const {
  std::vector<int64_t> values;
  const graph::Graph& g = compilation.graph;
  for (const std::string& s : symbols)
    values.push_back(s == g.position                                    ? position
                     : g.tokens.as_symbol() == s || symbols.size() == 1 ? count
                                                                        : g.find_symbol(s)->max);
  return values;
}

Result<std::vector<const plan::PlanFacts*>> ExecutablePlan::resolved(int64_t tokens, int64_t position) const {
  return guarded([&]() -> Result<std::vector<const plan::PlanFacts*>> {
    const std::vector<int64_t> values = impl_->values_of(tokens, position);
    std::vector<const plan::PlanFacts*> plans;
    for (const auto& step : impl_->steps) {
      HONE_ASSIGN_OR_RETURN(const plan::PlanFacts* const facts, step->facts(values));
      if (facts != nullptr && std::ranges::find(plans, facts) == plans.end()) plans.push_back(facts);
    }
    return plans;
  });
}

Result<std::vector<StepReport>> ExecutablePlan::report(int64_t tokens, int64_t position) const {
  return guarded([&]() -> Result<std::vector<StepReport>> {
    const std::vector<int64_t> values = impl_->values_of(tokens, position);
    std::vector<StepReport> reports;
    for (const auto& step : impl_->steps) {
      HONE_ASSIGN_OR_RETURN(StepReport report, step->report(values));
      report.name = step->name;
      report.kind = step->kind;
      report.why = step->why;
      if (step->split == runtime::NodeScope::Split::kForbidden) report.threads = 1;
      reports.push_back(std::move(report));
    }
    return reports;
  });
}

}  // namespace hone::executable
