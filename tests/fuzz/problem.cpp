// Problem strings of every op, with ranges and without.
#include "kernels/op/op.h"
#include "tests/fuzz/fuzz_target.h"

using namespace hone;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  const Result<op::Problem> problem = op::parse_problem(text);
  if (!problem.ok()) {
    fuzz::require_message(problem.status());
  } else {
    HONE_FUZZ_REQUIRE(op::validate(*problem).ok());
    const std::string canonical = op::to_string(*problem);
    const Result<op::Problem> again = op::parse_problem(canonical);
    HONE_FUZZ_REQUIRE(again.ok() && *again == *problem && op::to_string(*again) == canonical);
    HONE_FUZZ_REQUIRE(!op::family(*problem).empty());
    HONE_FUZZ_REQUIRE(op::flops(*problem) >= 0 && op::bytes(*problem) >= 0 && op::region_work(*problem) >= 0);
  }
  const Result<std::vector<op::Problem>> problems = op::parse_problems(text);
  if (!problems.ok()) {
    fuzz::require_message(problems.status());
    HONE_FUZZ_REQUIRE(!problem.ok());
  } else {
    HONE_FUZZ_REQUIRE(!problems->empty());
    for (const op::Problem& p : *problems) HONE_FUZZ_REQUIRE(op::validate(p).ok());
  }
  return 0;
}
