// Texts of row programs: what parses prints as itself, and becomes a legal kernel for every instruction set.
#include "kernels/ir/verify.h"
#include "kernels/rows/lower.h"
#include "tests/fuzz/fuzz_target.h"

using namespace hone;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Result<rows::RowProgram> program = rows::parse(fuzz::text_of(data, size));
  if (!program.ok()) {
    fuzz::require_message(program.status());
    return 0;
  }
  const std::string text = rows::to_string(*program);
  const Result<rows::RowProgram> again = rows::parse(text);
  HONE_FUZZ_REQUIRE(again.ok() && *again == *program && rows::to_string(*again) == text);
  for (const Isa isa : all_isas()) {
    const Result<ir::Kernel> kernel = rows::lower(*program, isa);
    HONE_FUZZ_REQUIRE(kernel.ok() && ir::verify(*kernel).ok());
  }
  return 0;
}
