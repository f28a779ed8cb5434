// The step of routed experts (engine/experts.h).
#include <fmt/format.h>

#include <algorithm>

#include "engine/executable/step_internal.h"
#include "engine/experts.h"

namespace hone::executable {
namespace {

class ExpertsStep final : public Step {
 public:
  Status run(const Call& call) const override {
    const ExpertsCall c{.tokens = tokens.at(call.symbols),
                        .x = call.at<const float>(x),
                        .indices = call.at<const int32_t>(indices),
                        .weights = call.at<const float>(weights),
                        .out = call.at<float>(out)};
    if (Status s = experts->run(c); !s.ok()) return {s.code(), name + ": " + s.message()};
    return {};
  }

  Result<StepReport> report(std::span<const int64_t> symbols) const override {
    const int64_t rows = std::max<int64_t>(1, tokens.at(symbols));
    HONE_ASSIGN_OR_RETURN(const std::vector<PlanInfo> plans, experts->plans(rows));
    StepReport report{.kernel = "experts", .numerics = "ordered", .reason = "default"};
    for (const PlanInfo& p : plans) {
      report.plan += (report.plan.empty() ? "" : "; ") + p.problem + " " + p.program;
      report.codegen = p.codegen;
      report.reason = p.reason;
      report.threads = std::max(report.threads, p.threads);
    }
    return report;
  }

  std::optional<Experts> experts;
  Size tokens;
  Place x, indices, weights, out;
};

std::optional<ExpertsStrategy> strategy(passes::ExpertsPolicy policy) {
  switch (policy) {
    case passes::ExpertsPolicy::kPerExpert:
      return ExpertsStrategy::kPerExpert;
    case passes::ExpertsPolicy::kGrouped:
      return ExpertsStrategy::kGrouped;
    case passes::ExpertsPolicy::kDense:
      return ExpertsStrategy::kDense;
    case passes::ExpertsPolicy::kChosen:
      break;
  }
  return std::nullopt;
}

}  // namespace

Status prepare_experts(Preparation& p, const passes::Dispatch& dispatch, Steps& steps) {
  const graph::Graph& g = p.compilation.graph;
  const graph::Node& n = g.node(dispatch.nodes[0]);
  AlignedBuffer written_out[3];
  const float* constants[3] = {};
  for (size_t i = 0; i < 3; ++i) {
    const graph::Constant* c = g.constant(n.operands[3 + i]);
    if (c == nullptr)
      return unsupported(
          fmt::format("experts {}: weights have to be constants, {} is none", n.name, g.value(n.operands[3 + i]).name));
    HONE_ASSIGN_OR_RETURN(const std::byte* elements, elements_of(*c, written_out[i]));
    constants[i] = reinterpret_cast<const float*>(elements);
  }
  const graph::Shape& gate = p.type(n.operands[3]).dims;
  ExpertsSpec spec{.experts = gate[0].value(),
                   .top_k = p.type(n.operands[1]).dims[1].value(),
                   .d = gate[2].value(),
                   .ff = gate[1].value()};
  const graph::Dim& tokens = p.type(n.operands[0]).dims[0];
  HONE_ASSIGN_OR_RETURN(spec.max_tokens, p.largest(tokens));
  spec.expected_tokens = p.expected(tokens);
  if (spec.expected_tokens.empty()) spec.expected_tokens = {spec.max_tokens};
  spec.strategy = strategy(p.compilation.policy.experts);
  auto step = std::make_unique<ExpertsStep>();
  set_names(*step, dispatch);
  HONE_ASSIGN_OR_RETURN(step->experts, Experts::prepare(p.engine, spec, {constants[0], constants[1], constants[2]}));
  p.packed_bytes += step->experts->weight_bytes();
  for (const size_t i : {3, 4, 5}) p.done_with(*g.constant(n.operands[i]));
  HONE_ASSIGN_OR_RETURN(step->tokens, p.size(tokens));
  HONE_ASSIGN_OR_RETURN(step->x, p.place(n.operands[0]));
  HONE_ASSIGN_OR_RETURN(step->indices, p.place(n.operands[1]));
  HONE_ASSIGN_OR_RETURN(step->weights, p.place(n.operands[2]));
  HONE_ASSIGN_OR_RETURN(step->out, p.place(n.results[0]));
  steps.push_back(std::move(step));
  return {};
}

}  // namespace hone::executable
