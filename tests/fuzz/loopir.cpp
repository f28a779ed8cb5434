// LoopIR texts: parse, print, verify; and what verify() accepts runs inside its memory, for some parameters.
#include "jit/fuzz/arguments.h"
#include "kernels/ir/interpret.h"
#include "kernels/ir/text.h"
#include "kernels/ir/verify.h"
#include "tests/fuzz/fuzz_target.h"

using namespace hone;

namespace {

constexpr int64_t kMaxSteps = 20'000, kMaxBytes = 1 << 20;

void run(const ir::Kernel& kernel, int64_t value) {
  const std::vector<int64_t> params(kernel.params().size(), value);
  Result<jit::Arguments> arguments = jit::Arguments::create(kernel, params, 1, kMaxBytes);
  if (!arguments.ok()) return;
  const ir::RunCheck check = ir::check_run(kernel, params, arguments->tables(), kMaxSteps);
  // Strides of a caller may make rows overlap; then tasks store to one element without having the same index.
  HONE_FUZZ_REQUIRE(check.verdict != ir::RunCheck::Verdict::kFault);
  if (!check.clean()) return;
  const ir::Interpreter interpreter(kernel);
  arguments->run_tasks([&](auto... all) { interpreter.run(all...); });
  // What is only read, and what lies around all of it, is as it was.
  jit::Arguments::Contents now = arguments->contents();
  HONE_FUZZ_REQUIRE(arguments->difference(now).empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Result<ir::Kernel> kernel = ir::parse(fuzz::text_of(data, size));
  if (!kernel.ok()) {
    fuzz::require_message(kernel.status());
    return 0;
  }
  const Status legal = ir::verify(*kernel);
  if (!legal.ok()) {
    fuzz::require_message(legal);
    return 0;
  }
  const std::string printed = ir::print(*kernel);
  const Result<ir::Kernel> again = ir::parse(printed);
  HONE_FUZZ_REQUIRE(again.ok() && ir::print(*again) == printed && ir::hash(*again) == ir::hash(*kernel));
  HONE_FUZZ_REQUIRE(ir::verify(*again).ok());
  for (const int64_t value : {0, 3, 40}) run(*kernel, value);
  return 0;
}
