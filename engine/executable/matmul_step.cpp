// Steps that run prepared matmuls: of activations by constant weights, packed once, or by another activation.
#include <fmt/format.h>

#include <algorithm>

#include "engine/executable/step_internal.h"
#include "engine/passes/bufferize.h"
#include "engine/weight_store.h"

namespace hone::executable {
namespace {

using graph::Constant;
using graph::Dim;
using graph::Node;
using graph::ValueId;
using passes::Dispatch;

class MatmulStep final : public Step {
 public:
  Status run(const Call& call) const override {
    MatmulCall m{.m = rows.at(call.symbols), .a = call.at<const float>(a), .c = call.at<float>(c)};
    if (m.m == 0) return {};
    if (b) m.b = call.at<const float>(*b);
    if (bias) m.bias = call.at<const float>(*bias);
    if (gate) m.gate = call.at<const float>(*gate);
    if (residual) m.residual = call.at<const float>(*residual);
    if (row_scale) m.row_scale = call.at<const float>(*row_scale);
    if (Status s = matmul->run(m); !s.ok()) return {s.code(), name + ": " + s.message()};
    return {};
  }

  Result<StepReport> report(std::span<const int64_t> symbols) const override {
    HONE_ASSIGN_OR_RETURN(const PlanInfo info, matmul->plan(std::max<int64_t>(1, rows.at(symbols))));
    return StepReport{.kernel = info.problem,
                      .plan = info.program,
                      .codegen = info.codegen,
                      .numerics = info.numerics + (row_scale ? ", norm folded" : ""),
                      .reason = info.reason,
                      .threads = info.threads};
  }

  Result<const plan::PlanFacts*> facts(std::span<const int64_t> symbols) const override {
    return EngineAccess::facts(*matmul, std::max<int64_t>(1, rows.at(symbols)));
  }

  std::optional<Matmul> matmul;
  Size rows;
  Place a, c;
  std::optional<Place> b, bias, gate, residual, row_scale;
};

// B is packed from where it lies, and is not looked at where a store has it packed already.
Result<Matmul> of_constant(Preparation& p, const MatmulSpec& spec, const Constant& weights) {
  bool read = false;
  const WeightSource source{.elements = [&]() -> Result<const void*> {
                              read = true;
                              HONE_ASSIGN_OR_RETURN(const std::byte* elements, elements_of(weights, p.joined));
                              return elements;
                            },
                            .content_key = weights.splat ? "" : weights.content_key,
                            .store = p.options.weights};
  Result<Matmul> matmul = EngineAccess::prepare(p.engine, spec, source);
  if (read) p.done_with(weights);
  return matmul;
}

// "+bias*gate" as the steps that a spec has.
Result<MatmulSpec> spec_of(DType weights, const std::string& epilogue, int64_t n, int64_t k) {
  std::string text = fmt::format("matmul:{}:m=1,n={},k={},b=nt", dtype_name(weights), n, k);
  if (!epilogue.empty()) text += ":" + epilogue;
  return MatmulSpec::parse(text);
}

Status set_rows(Preparation& p, const Dim& rows, MatmulSpec& spec) {
  spec.expected_m = p.expected(rows);
  HONE_ASSIGN_OR_RETURN(const int64_t most, p.largest(rows));
  spec.max_m = p.options.warm_up ? most : 0;
  if (spec.expected_m.empty()) spec.expected_m = {most};
  return {};
}

}  // namespace

Status prepare_matmul(Preparation& p, const Dispatch& dispatch, Steps& steps) {
  const Node& n = p.compilation.graph.node(dispatch.nodes[0]);
  if (n.op == graph::OpKind::dot_general) return prepare_dot_general(p, dispatch, steps);
  const auto a = passes::as_rows(p.type(n.operands[0]), p.placement(n.operands[0]));
  const auto c = passes::as_rows(p.type(n.results[0]), p.placement(n.results[0]));
  const bool nt = n.text("layout") != "nn";
  const graph::Shape& b = p.type(n.operands[1]).dims;
  if (!a || !c || !b[0].is_static() || !b[1].is_static())
    return unsupported(fmt::format("matmul {}: the sizes of its weights have to be static", n.name));
  HONE_ASSIGN_OR_RETURN(MatmulSpec spec, spec_of(p.type(n.operands[1]).dtype, n.text("epilogue"), b[nt ? 0 : 1].value(),
                                                 b[nt ? 1 : 0].value()));
  spec.b = nt ? Layout::kNt : Layout::kNn;
  spec.lda = a->stride;
  spec.ldc = c->stride;
  HONE_RETURN_IF_ERROR(set_rows(p, a->rows, spec));
  auto step = std::make_unique<MatmulStep>();
  set_names(*step, dispatch);
  if (const Constant* weights = p.compilation.graph.constant(n.operands[1])) {
    if (spec.weight_type == WeightType::kBf16) spec.numerics = p.options.numerics;
    HONE_ASSIGN_OR_RETURN(step->matmul, of_constant(p, spec, *weights));
    p.packed_bytes += step->matmul->weight_bytes();
  } else {
    const auto rows = passes::as_rows(p.type(n.operands[1]), p.placement(n.operands[1]));
    spec.ldb = rows ? rows->stride : 0;
    HONE_ASSIGN_OR_RETURN(step->matmul, p.engine.prepare(spec));
    HONE_ASSIGN_OR_RETURN(step->b, p.place(n.operands[1]));
  }
  HONE_ASSIGN_OR_RETURN(step->rows, p.size(a->rows));
  HONE_ASSIGN_OR_RETURN(step->a, p.place(n.operands[0]));
  HONE_ASSIGN_OR_RETURN(step->c, p.place(n.results[0]));
  size_t operand = 2;
  for (const Epilogue e : spec.epilogue) {
    std::optional<Place>* const to = e == Epilogue::kBias       ? &step->bias
                                     : e == Epilogue::kGate     ? &step->gate
                                     : e == Epilogue::kResidual ? &step->residual
                                     : e == Epilogue::kRowScale ? &step->row_scale
                                                                : nullptr;
    if (to == nullptr) continue;
    HONE_ASSIGN_OR_RETURN(*to, p.place(n.operands[operand++]));
  }
  steps.push_back(std::move(step));
  return {};
}

// [batch.., m, k] by [batch.., k, n] or [batch.., n, k], as legalize_dot_general leaves it; both dense.
Status prepare_dot_general(Preparation& p, const Dispatch& dispatch, Steps& steps) {
  const Node& n = p.compilation.graph.node(dispatch.nodes[0]);
  const graph::Shape& a = p.type(n.operands[0]).dims;
  const graph::Shape& b = p.type(n.operands[1]).dims;
  const size_t rank = a.size();
  const bool nt = n.integers("rhs_contract")[0] == static_cast<int64_t>(rank) - 1;
  const Dim& columns = b[rank - (nt ? 2 : 1)];
  if (!columns.is_static() || !a[rank - 1].is_static())
    return unsupported(
        fmt::format("dot_general {}: columns and the dimension that is summed have to be static", n.name));
  MatmulSpec spec{.n = columns.value(), .k = a[rank - 1].value(), .b = nt ? Layout::kNt : Layout::kNn};
  for (size_t i = 0; i + 2 < rank; ++i) {
    if (!a[i].is_static())
      return unsupported(fmt::format("dot_general {}: batch dimension {} has to be static", n.name, i));
    spec.batch *= a[i].value();
  }
  HONE_RETURN_IF_ERROR(set_rows(p, a[rank - 2], spec));
  auto step = std::make_unique<MatmulStep>();
  set_names(*step, dispatch);
  HONE_ASSIGN_OR_RETURN(step->matmul, p.engine.prepare(spec));
  HONE_ASSIGN_OR_RETURN(step->rows, p.size(a[rank - 2]));
  HONE_ASSIGN_OR_RETURN(step->a, p.place(n.operands[0]));
  HONE_ASSIGN_OR_RETURN(step->b, p.place(n.operands[1]));
  HONE_ASSIGN_OR_RETURN(step->c, p.place(n.results[0]));
  steps.push_back(std::move(step));
  return {};
}

}  // namespace hone::executable
