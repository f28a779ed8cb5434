// See op.h.
#include "kernels/op/op.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/text/problem_text.h"

namespace hone::op {
namespace {

template <typename T>
struct OpOf;
#define HONE_OP(name)              \
  template <>                      \
  struct OpOf<name::Op::Problem> { \
    using type = name::Op;         \
  };                               \
  template <>                      \
  struct OpOf<name::Op::Program> { \
    using type = name::Op;         \
  };
#include "kernels/ops.inc"
#undef HONE_OP

template <typename T>
using Of = typename OpOf<std::decay_t<T>>::type;

// fn(problem, program) where both are of one op, else `otherwise`.
template <typename R, typename Fn>
R visit_pair(const Problem& problem, const Program& program, Fn fn, R otherwise) {
  return std::visit(
      [&](const auto& p) -> R {
        using Mine = typename Of<decltype(p)>::Program;
        if (const Mine* t = std::get_if<Mine>(&program)) return fn(p, *t);
        return otherwise;
      },
      problem);
}

Status other_op(const Problem& problem, const Program& program) {
  return invalid_argument(fmt::format("a program of another op than {}: '{}'", name(problem), to_string(program)));
}

// fn(Op) for the op that `text` begins with.
template <typename R, typename Fn>
Result<R> with_op(std::string_view text, Fn fn) {
  const std::string_view word = text.substr(0, text.find(':'));
  std::string names;
#define HONE_OP(op_name)                                    \
  if (word == op_name::Op::kName) return fn(op_name::Op()); \
  names += fmt::format("{}{}", names.empty() ? "" : ", ", op_name::Op::kName);
#include "kernels/ops.inc"
#undef HONE_OP
  const std::string why = text.empty() ? "is empty" : fmt::format("op '{}' is not supported", text::printable(word));
  const std::string message = fmt::format("problem '{}': {}; ops: {} at column 1; grammar: {}", text::printable(text),
                                          why, names, problem_grammar());
  return text.empty() ? invalid_argument(message) : unsupported(message);
}

}  // namespace

std::string_view name(const Problem& problem) {
  return std::visit([](const auto& p) { return Of<decltype(p)>::kName; }, problem);
}
std::string to_string(const Problem& problem) {
  return std::visit([](const auto& p) { return to_string(p); }, problem);
}
std::string family(const Problem& problem) {
  return std::visit([](const auto& p) { return family(p); }, problem);
}
std::vector<Size> sizes(const Problem& problem) {
  return std::visit([](const auto& p) { return Of<decltype(p)>::sizes(p); }, problem);
}
int64_t rows(const Problem& problem) {
  return std::visit([](const auto& p) { return Of<decltype(p)>::rows(p); }, problem);
}

double distance(const Problem& one, const Problem& other) {
  const std::vector<Size> a = sizes(one), b = sizes(other);
  if (one.index() != other.index()) return INFINITY;
  auto log2_of = [](const Size& s) { return std::log2(static_cast<double>(std::max<int64_t>(s.value, 1))); };
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(log2_of(a[i]) - log2_of(b[i]));
  return sum;
}

std::string sizes_text(const Problem& problem) {
  std::string text;
  for (const Size& s : sizes(problem)) text += fmt::format("{}{}={}", text.empty() ? "" : ",", s.name, s.value);
  return text;
}

Status validate(const Problem& problem) {
  return std::visit([](const auto& p) { return validate(p); }, problem);
}
bool empty(const Problem& problem) {
  return std::visit([](const auto& p) { return Of<decltype(p)>::empty(p); }, problem);
}
double flops(const Problem& problem) {
  return std::visit([](const auto& p) { return p.flops(); }, problem);
}
double bytes(const Problem& problem) {
  return std::visit([](const auto& p) { return Of<decltype(p)>::bytes(p); }, problem);
}
double streamed_bytes(const Problem& problem) {
  return std::visit([](const auto& p) { return Of<decltype(p)>::streamed_bytes(p); }, problem);
}
double region_work(const Problem& problem) {
  return std::visit([](const auto& p) { return region_work(p); }, problem);
}

Result<Problem> parse_problem(std::string_view text) {
  return with_op<Problem>(text, [&](auto op) -> Result<Problem> {
    HONE_ASSIGN_OR_RETURN(auto problem, decltype(op)::parse_problem(text));
    return Problem(std::move(problem));
  });
}

Result<std::vector<Problem>> parse_problems(std::string_view text) {
  return with_op<std::vector<Problem>>(text, [&](auto op) -> Result<std::vector<Problem>> {
    HONE_ASSIGN_OR_RETURN(auto problems, decltype(op)::parse_problems(text));
    return std::vector<Problem>(std::make_move_iterator(problems.begin()), std::make_move_iterator(problems.end()));
  });
}

std::string problem_grammar() {
  std::string all;
#define HONE_OP(op_name) all += fmt::format("{}{}", all.empty() ? "" : "; or ", op_name::problem_grammar());
#include "kernels/ops.inc"
#undef HONE_OP
  return all;
}

std::string to_string(const Program& program) {
  return std::visit([](const auto& t) { return to_string(t); }, program);
}

Result<Program> parse_program(const Problem& problem, std::string_view text) {
  return std::visit(
      [&](const auto& p) -> Result<Program> {
        HONE_ASSIGN_OR_RETURN(auto program, Of<decltype(p)>::parse_program(text));
        return Program(std::move(program));
      },
      problem);
}

Isa isa(const Program& program) {
  return std::visit([](const auto& t) { return t.isa; }, program);
}
int lanes(const Program& program) {
  return std::visit([](const auto& t) { return t.lanes; }, program);
}
std::string numerics(const Program& program) {
  return std::visit([](const auto& t) { return Of<decltype(t)>::numerics(t); }, program);
}
FeatureSet features(const Program& program) {
  return std::visit([](const auto& t) { return Of<decltype(t)>::features(t); }, program);
}
std::string missing(const Program& program, const FeatureSet& has) {
  const FeatureSet lacks = features(program).without(has);
  return lacks == FeatureSet() ? "" : fmt::format("needs {}, which this CPU lacks", fmt::join(lacks.names(), ", "));
}

Status legal(const Problem& problem, const Program& program) {
  return visit_pair(
      problem, program, [](const auto& p, const auto& t) { return legal(p, t); }, other_op(problem, program));
}
Program canonical(const Problem& problem, const Program& program) {
  return visit_pair(
      problem, program, [](const auto& p, const auto& t) -> Program { return canonical(p, t); }, program);
}
Program lowering_identity(const Problem& problem, const Program& program) {
  return visit_pair(
      problem, program, [](const auto& p, const auto& t) -> Program { return lowering_identity(p, t); }, program);
}
std::string kernel_name(const Problem& problem, const Program& program) {
  return visit_pair(
      problem, program, [](const auto& p, const auto& t) { return kernel_name(p, t); }, std::string());
}
Result<std::vector<ir::Kernel>> lower(const Problem& problem, const Program& program) {
  using Kernels = Result<std::vector<ir::Kernel>>;
  return visit_pair<Kernels>(
      problem, program, [](const auto& p, const auto& t) -> Kernels { return Of<decltype(p)>::lower(p, t); },
      other_op(problem, program));
}
Adapted adapt(const Problem& problem, const Problem& tuned, const Program& program, int64_t panel) {
  return visit_pair(
      problem, program,
      [&](const auto& p, const auto& t) -> Adapted {
        const auto* other = std::get_if<std::decay_t<decltype(p)>>(&tuned);
        if (other == nullptr) return {program, ""};
        auto adapted = Of<decltype(p)>::adapt(p, *other, t, panel);
        return {std::move(adapted.program), std::move(adapted.difference)};
      },
      Adapted{program, ""});
}
int64_t panel(const Problem& problem, const Program& program) {
  return visit_pair(
      problem, program, [](const auto& p, const auto& t) { return Of<decltype(p)>::panel(p, t); }, int64_t{0});
}
Status panel_fits(const Problem& problem, const Program& program, int64_t panel) {
  return visit_pair(
      problem, program, [&](const auto& p, const auto& t) { return Of<decltype(p)>::panel_fits(p, t, panel); },
      other_op(problem, program));
}
Program default_program(const Problem& problem, const DefaultTarget& target) {
  return std::visit([&](const auto& p) -> Program { return Of<decltype(p)>::default_program(p, target); }, problem);
}

Status check_numerics(const Problem& problem, std::string_view wanted) {
  return std::visit([&](const auto& p) { return Of<decltype(p)>::check_numerics(p, wanted); }, problem);
}
bool numerics_allowed(const Problem& problem, std::string_view wanted, std::string_view offered) {
  return std::visit([&](const auto& p) { return Of<decltype(p)>::numerics_allowed(wanted, offered); }, problem);
}
std::string narrow_numerics(const Problem& problem, std::string_view wanted, const FeatureSet& features, Arch arch) {
  return std::visit([&](const auto& p) { return Of<decltype(p)>::narrow_numerics(p, wanted, features, arch); },
                    problem);
}
std::string precompiled_class(const Problem& problem, std::string_view wanted) {
  return std::visit([&](const auto& p) { return Of<decltype(p)>::precompiled_class(wanted); }, problem);
}

}  // namespace hone::op
