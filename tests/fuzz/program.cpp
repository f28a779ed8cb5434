// TransformProgram texts of every op: a problem on the first line, a program on the second.
#include "kernels/ir/verify.h"
#include "kernels/op/op.h"
#include "tests/fuzz/fuzz_target.h"

using namespace hone;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text = fuzz::text_of(data, size);
  const Result<op::Problem> problem = op::parse_problem(fuzz::take_line(text));
  if (!problem.ok()) return 0;  // problem.cpp looks at those
  const Result<op::Program> program = op::parse_program(*problem, fuzz::take_line(text));
  if (!program.ok()) {
    fuzz::require_message(program.status());
    return 0;
  }
  const std::string printed = op::to_string(*program);
  const Result<op::Program> again = op::parse_program(*problem, printed);
  HONE_FUZZ_REQUIRE(again.ok() && *again == *program);
  HONE_FUZZ_REQUIRE(!op::numerics(*program).empty());
  const Status legal = op::legal(*problem, *program);
  (void)op::kernel_name(*problem, *program);
  if (!legal.ok()) {
    fuzz::require_message(legal);
    HONE_FUZZ_REQUIRE(!op::lower(*problem, *program).ok());
    return 0;
  }
  const op::Program canonical = op::canonical(*problem, *program);
  HONE_FUZZ_REQUIRE(op::legal(*problem, canonical).ok() && op::canonical(*problem, canonical) == canonical);
  const Result<std::vector<ir::Kernel>> kernels = op::lower(*problem, *program);
  HONE_FUZZ_REQUIRE(kernels.ok());
  for (const ir::Kernel& kernel : *kernels) HONE_FUZZ_REQUIRE(ir::verify(kernel).ok());
  return 0;
}
