// What kernels/op knows of matmul (see op.h there).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/printable.h"
#include "kernels/matmul/blocking.h"
#include "kernels/matmul/program.h"
#include "kernels/op/types.h"

namespace hone::matmul {

struct Op {
  using Problem = MatmulProblem;
  using Program = TransformProgram;
  static constexpr std::string_view kName = "matmul";

  static Result<Problem> parse_problem(std::string_view text) { return matmul::parse_problem(text); }
  static Result<std::vector<Problem>> parse_problems(std::string_view text) { return matmul::parse_problems(text); }
  static Result<Program> parse_program(std::string_view text) { return matmul::parse_program(text); }

  static std::vector<op::Size> sizes(const Problem& p) { return {{"m", p.m}}; }
  static int64_t rows(const Problem& p) { return p.m; }
  static bool empty(const Problem& p) { return p.m == 0 || p.n == 0; }
  // A, B and C once.
  static double bytes(const Problem& p) {
    const double m = static_cast<double>(p.m), n = static_cast<double>(p.n), k = static_cast<double>(p.k);
    return static_cast<double>(p.batch) *
           (4 * m * k + static_cast<double>(p.bytes_b()) * n * k + 4 * m * static_cast<double>(p.columns()));
  }
  // B: what a decoder streams.
  static double streamed_bytes(const Problem& p) {
    return static_cast<double>(p.bytes_b()) * static_cast<double>(p.n) * static_cast<double>(p.k);
  }

  static std::string numerics(const Program& program) { return std::string(matmul::numerics(program)); }
  static FeatureSet features(const Program& program) { return matmul::features(program); }
  static Status check_numerics(std::string_view wanted) {
    if (numerics_allowed(wanted, "ordered") || wanted == "bf16") return {};
    return invalid_argument("matmul has no numerics class '" + printable(wanted) +
                            "': ordered (the default), bf16 (weights of bf16 only) or any");
  }
  static Status check_numerics(const Problem& p, std::string_view wanted) {
    const Status known = check_numerics(wanted);
    if (!known.ok() || wanted != "bf16" || p.dtype == DType::kBf16) return known;
    return invalid_argument("numerics 'bf16' is for weights of bf16, not of " + std::string(dtype_name(p.dtype)) +
                            "; 'any' takes it where there are");
  }
  static bool numerics_allowed(std::string_view wanted, std::string_view offered) {
    return wanted == "any" || offered == (wanted.empty() || wanted == "default" ? "ordered" : wanted);
  }
  static std::string narrow_numerics(const Problem& p, std::string_view wanted, const FeatureSet& features, Arch arch) {
    return matmul::narrow_numerics(p, wanted, features, arch);
  }

  static std::string precompiled_class(std::string_view wanted) {
    return numerics_allowed(wanted, "ordered") ? "ordered" : "";
  }

  static Program default_program(const Problem& p, const op::DefaultTarget& target) {
    const BlockingTarget blocking{.isa = target.isa,
                                  .caches = target.caches,
                                  .threads = target.threads,
                                  .dot = dot_for(p, target.numerics, target.features, target.isa)};
    return matmul::default_program(p, blocking, target.panel);
  }
  static op::AdaptedOf<Program> adapt(const Problem& p, const Problem& tuned, const Program& program, int64_t panel) {
    op::AdaptedOf<Program> adapted;
    adapted.program = matmul::adapt(p, tuned.m, program, panel, &adapted.difference);
    return adapted;
  }
  static int64_t panel(const Problem& p, const Program& program) { return p.b == BLayout::kPacked ? program.panel : 0; }
  static Status panel_fits(const Problem& p, const Program& program, int64_t panel) {
    if (p.b != BLayout::kPacked || panel == 0 || program.panel == panel) return {};
    return unsupported("B is packed in panels of " + std::to_string(panel) + ", this needs " +
                       std::to_string(program.panel));
  }
  static Result<std::vector<ir::Kernel>> lower(const Problem& problem, const Program& program) {
    HONE_ASSIGN_OR_RETURN(ir::Kernel kernel, matmul::lower(problem, program));
    std::vector<ir::Kernel> kernels;
    kernels.push_back(std::move(kernel));
    return kernels;
  }
};

}  // namespace hone::matmul
