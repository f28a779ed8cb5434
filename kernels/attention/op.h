// What kernels/op knows of attention (see op.h there).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/attention/blocking.h"
#include "kernels/attention/program.h"
#include "kernels/op/types.h"

namespace hone::attention {

// See op::lowering_identity.
AttentionProgram lowering_identity(const AttentionProblem& problem, const AttentionProgram& program);

// See op::precompiled_class: one of those of fallback.h, online where both are allowed.
std::string precompiled_class(std::string_view wanted);

struct Op {
  using Problem = AttentionProblem;
  using Program = AttentionProgram;
  static constexpr std::string_view kName = "attention";

  static Result<Problem> parse_problem(std::string_view text) { return attention::parse_problem(text); }
  static Result<std::vector<Problem>> parse_problems(std::string_view text) { return attention::parse_problems(text); }
  static Result<Program> parse_program(std::string_view text) { return attention::parse_program(text); }

  static std::vector<op::Size> sizes(const Problem& p) { return {{"b", p.batch}, {"q", p.q}, {"kv", p.kv}}; }
  static int64_t rows(const Problem& p) { return p.q; }
  static bool empty(const Problem& p) { return p.batch == 0 || p.q == 0; }
  // What is seen of K and V, and Q and O.
  static double bytes(const Problem& p) {
    const double rows = static_cast<double>(p.batch) * static_cast<double>(p.heads) * static_cast<double>(p.q);
    return p.kv_bytes() + 4 * rows * static_cast<double>(p.d + p.value_dim());
  }
  static double streamed_bytes(const Problem& p) { return p.kv_bytes(); }

  static std::string numerics(const Program& program) { return attention::numerics(program); }
  static FeatureSet features(const Program&) { return {}; }
  static Status check_numerics(const Problem&, std::string_view wanted) { return attention::check_numerics(wanted); }
  static bool numerics_allowed(std::string_view wanted, std::string_view offered) {
    return attention::numerics_allowed(wanted, offered);
  }
  // Keys and values lie alike for every class: each call may have its own.
  static std::string narrow_numerics(const Problem&, std::string_view wanted, const FeatureSet&, Arch) {
    return std::string(wanted);
  }

  static std::string precompiled_class(std::string_view wanted) { return attention::precompiled_class(wanted); }

  static Program default_program(const Problem& p, const op::DefaultTarget& target) {
    return attention::default_program(p, target.isa, target.caches, target.numerics);
  }
  // canonical() cuts what is too large for the problem; nothing has to grow, as all loops run over the call's sizes.
  static op::AdaptedOf<Program> adapt(const Problem&, const Problem&, const Program& program, int64_t) {
    return {program, ""};
  }
  static int64_t panel(const Problem&, const Program&) { return 0; }
  static Status panel_fits(const Problem&, const Program&, int64_t) { return {}; }
  static Result<std::vector<ir::Kernel>> lower(const Problem& problem, const Program& program) {
    return attention::lower(problem, program);
  }
};

}  // namespace hone::attention
