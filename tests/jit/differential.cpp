// See differential.h.
#include "tests/jit/differential.h"

#include <ostream>

#include "engine/base/machine.h"
#include "kernels/ir/random.h"
#include "kernels/ir/text.h"
#include "kernels/ir/verify.h"

namespace hone::jit {

KernelCase random_case(uint32_t seed, int max_lanes, bool pairs) {
  ir::RandomKernel random = ir::random_kernel(seed, max_lanes, pairs);
  return {"random " + std::to_string(seed), std::move(random.kernel), std::move(random.runs), false};
}

bool has_pairs(Isa isa) {
  static const Result<Machine> machine = detect_machine();
  return machine.ok() && isa_info(isa).mask_registers && machine->supports(isa) &&
         machine->features.has(Feature::kAvx512Bf16);
}

void PrintTo(const Target& target, std::ostream* out) { *out << target_name({target, 0}); }

std::string target_name(const testing::TestParamInfo<Target>& info) {
  return std::string(info.param.generator->name()) + "_" + std::string(isa_info(info.param.isa).name);
}

void expect_like_interpreter(const KernelCase& test, const Target& target, uint32_t seed) {
  if (test.verified) {
    const Status legal = ir::verify(test.kernel);
    ASSERT_TRUE(legal.ok()) << test.name << ": " << legal.to_string() << "\n" << ir::print(test.kernel);
  }
  Result<Differential> differential = Differential::create(test.kernel, test.params, seed);
  ASSERT_TRUE(differential.ok()) << test.name << ": " << differential.status().to_string();
  const Status same = differential->check(target);
  EXPECT_TRUE(same.ok()) << test.name << ", seed " << seed << ": " << same.to_string() << "\n"
                         << ir::print(test.kernel);
}

}  // namespace hone::jit
