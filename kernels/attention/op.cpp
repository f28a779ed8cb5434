#include "kernels/attention/op.h"

#include <fmt/format.h>

namespace hone::attention {

AttentionProgram lowering_identity(const AttentionProblem& problem, const AttentionProgram& program) {
  return canonical(problem, program);
}

std::string precompiled_class(std::string_view wanted) {
  for (std::string name : {fmt::format("online({})", kDefaultKeyBlock), std::string("ordered")})
    if (numerics_allowed(wanted, name)) return name;
  return "";
}

}  // namespace hone::attention
