#include "engine/graph/epilogue.h"

#include <fmt/format.h>

#include "engine/base/printable.h"

namespace hone::graph {

Result<std::vector<matmul::EpilogueOp>> parse_epilogue(std::string_view text) {
  if (text.empty()) return std::vector<matmul::EpilogueOp>();
  // Of a problem that every epilogue fits.
  const int64_t n = 2 * matmul::kSwigluColumns;
  const auto wrong = [&](std::string_view why) {
    return invalid_argument(fmt::format("epilogue '{}': {}", printable(text), why));
  };
  if (text.size() > 200) return wrong("is longer than any");
  Result<matmul::MatmulProblem> problem =
      matmul::parse_problem(fmt::format("matmul:f32:m=1,n={},k=1,b=nt:{}", n, text));
  if (problem.ok()) return std::move(problem->epilogue);
  // The message begins with the problem and ends with the grammar, which nobody wrote.
  std::string_view why = problem.status().message();
  if (const size_t begin = why.find("': "); begin != std::string_view::npos) why.remove_prefix(begin + 3);
  why = why.substr(0, why.find(" at column "));
  return wrong(why);
}

}  // namespace hone::graph
