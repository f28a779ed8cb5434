// MatmulSpec and MatmulProblem say the same; the one is the caller's, the other the kernels'. This is the only place
// that knows both.
#include "engine/spec_internal.h"

#include <fmt/format.h>

#include <array>

#include "engine/base/status.h"
#include "engine/state_internal.h"
#include "kernels/matmul/op.h"

namespace hone {
namespace {

using matmul::EpilogueOp;
constexpr std::array kEpilogues = {
    std::pair{Epilogue::kBias, EpilogueOp::kBias},         std::pair{Epilogue::kGeluTanh, EpilogueOp::kGeluTanh},
    std::pair{Epilogue::kGeluErf, EpilogueOp::kGeluErf},   std::pair{Epilogue::kSilu, EpilogueOp::kSilu},
    std::pair{Epilogue::kRelu, EpilogueOp::kRelu},         std::pair{Epilogue::kGate, EpilogueOp::kGate},
    std::pair{Epilogue::kResidual, EpilogueOp::kResidual}, std::pair{Epilogue::kSwiglu, EpilogueOp::kSwiglu},
    std::pair{Epilogue::kRowScale, EpilogueOp::kRowScale},
};

Result<EpilogueOp> op_of(Epilogue step) {
  for (const auto& [ours, theirs] : kEpilogues)
    if (ours == step) return theirs;
  return invalid_argument(fmt::format("epilogue step {} is not one of hone::Epilogue", static_cast<int>(step)));
}

Epilogue step_of(EpilogueOp op) {
  for (const auto& [ours, theirs] : kEpilogues)
    if (theirs == op) return ours;
  return Epilogue::kBias;  // not reached: the table has every op
}

constexpr std::array kWeightTypes = {std::pair{WeightType::kF32, DType::kF32},
                                     std::pair{WeightType::kBf16, DType::kBf16},
                                     std::pair{WeightType::kF16, DType::kF16}};

Result<DType> dtype_of(WeightType type) {
  for (const auto& [ours, theirs] : kWeightTypes)
    if (ours == type) return theirs;
  return invalid_argument(fmt::format("weight_type {} is not one of hone::WeightType", static_cast<int>(type)));
}

WeightType type_of(DType dtype) {
  for (const auto& [ours, theirs] : kWeightTypes)
    if (theirs == dtype) return ours;
  return WeightType::kF32;  // not reached: the parser takes no others
}

Result<MatmulSpec> parse_spec(std::string_view text) {
  HONE_ASSIGN_OR_RETURN(const std::vector<matmul::MatmulProblem> problems, matmul::parse_problems(text));
  MatmulSpec spec;
  spec.expected_m.clear();
  const matmul::MatmulProblem& p = problems.front();
  for (const matmul::MatmulProblem& q : problems) {
    if (q.n != p.n || q.k != p.k)
      return invalid_argument(fmt::format("'{}': n and k must be one number each; only m may be a range", text));
    spec.expected_m.push_back(q.m);
  }
  spec.n = p.n, spec.k = p.k;
  spec.b = p.b == matmul::BLayout::kNn ? Layout::kNn : Layout::kNt;
  spec.weight_type = type_of(p.dtype);
  spec.lda = p.lda, spec.ldb = p.ldb, spec.ldc = p.ldc;
  spec.batch = p.batch, spec.stride_a = p.sa, spec.stride_b = p.sb, spec.stride_c = p.sc;
  spec.alpha = p.alpha, spec.beta = p.beta;
  for (EpilogueOp op : p.epilogue) spec.epilogue.push_back(step_of(op));
  return spec;
}

}  // namespace

Result<MatmulSpec> MatmulSpec::parse(std::string_view problem) {
  return guarded([&] { return parse_spec(problem); });
}

Result<matmul::MatmulProblem> problem_of(const MatmulSpec& spec) {
  HONE_ASSIGN_OR_RETURN(const DType dtype, dtype_of(spec.weight_type));
  matmul::MatmulProblem p{.dtype = dtype,
                          .n = spec.n,
                          .k = spec.k,
                          .b = spec.b == Layout::kNn ? matmul::BLayout::kNn : matmul::BLayout::kNt,
                          .lda = spec.lda,
                          .ldb = spec.ldb,
                          .ldc = spec.ldc,
                          .batch = spec.batch,
                          .sa = spec.stride_a,
                          .sb = spec.stride_b,
                          .sc = spec.stride_c,
                          .alpha = spec.alpha,
                          .beta = spec.beta,
                          .epilogue = {}};
  for (Epilogue step : spec.epilogue) {
    HONE_ASSIGN_OR_RETURN(const EpilogueOp op, op_of(step));
    p.epilogue.push_back(op);
  }
  HONE_RETURN_IF_ERROR(matmul::validate(p));
  HONE_RETURN_IF_ERROR(matmul::Op::check_numerics(spec.numerics));
  return p;
}

}  // namespace hone
