// See trial.h.
#include "kernels/op/trial.h"

#include <fmt/format.h>

#include <new>

#include "kernels/attention/trial.h"
#include "kernels/matmul/trial.h"

namespace hone::op {
namespace {

template <typename T>
struct TrialsOf;
#define HONE_OP(name)                  \
  template <>                          \
  struct TrialsOf<name::Op::Problem> { \
    using type = name::Trials;         \
    using Program = name::Op::Program; \
  };
#include "kernels/ops.inc"
#undef HONE_OP

template <typename T>
using Of = typename TrialsOf<std::decay_t<T>>::type;

}  // namespace

std::vector<std::string_view> names() {
  return {
#define HONE_OP(name) name::Op::kName,
#include "kernels/ops.inc"
#undef HONE_OP
  };
}

Result<Problem> random_problem(std::string_view op, uint64_t seed) {
#define HONE_OP(name) \
  if (op == name::Op::kName) return Problem(name::Trials::random_problem(seed));
#include "kernels/ops.inc"
#undef HONE_OP
  return not_found(fmt::format("no op is named '{}': {}", op, fmt::join(names(), ", ")));
}

std::optional<Program> random_program(const Problem& problem, uint64_t seed, Isa isa) {
  return std::visit(
      [&](const auto& p) -> std::optional<Program> {
        auto program = Of<decltype(p)>::random_program(p, seed, isa);
        if (!program) return std::nullopt;
        return Program(std::move(*program));
      },
      problem);
}

Result<std::unique_ptr<Trial>> make_trial(const Problem& problem, const Program& program, uint64_t seed) {
  using Made = Result<std::unique_ptr<Trial>>;
  return std::visit(
      [&](const auto& p) -> Made {
        using Mine = typename TrialsOf<std::decay_t<decltype(p)>>::Program;
        const Mine* t = std::get_if<Mine>(&program);
        if (t == nullptr) return invalid_argument(fmt::format("a program of another op than {}", name(problem)));
        try {
          return Of<decltype(p)>::make(p, *t, seed);
        } catch (const std::bad_alloc&) {
          return resource_exhausted(fmt::format("no memory for the operands of {}", to_string(problem)));
        }
      },
      problem);
}

}  // namespace hone::op
