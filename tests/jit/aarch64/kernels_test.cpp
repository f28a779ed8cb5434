// LoopIR on AArch64: every statement by hand-built kernels, and kernels of random structure. The interpreter on this
// machine says what bits they must give there.
#include <cstdlib>

#include "kernels/ir/random.h"
#include "kernels/ir/verify.h"
#include "tests/jit/aarch64/emulation.h"
#include "tests/jit/sample_kernels.h"

namespace hone::jit {
namespace {

using Aarch64Kernels = EmulatedTest;

TEST_F(Aarch64Kernels, Samples) {
  for (const int lanes : {1, 4}) {
    for (const KernelCase& test : sample_kernels(lanes)) {
      SCOPED_TRACE(test.name);
      for (const uint64_t seed : {20, 21}) ASSERT_TRUE(emulation_.add(test.kernel, test.params, seed).ok());
    }
  }
  expect_equal_bits();
}

TEST_F(Aarch64Kernels, Random) {
  const char* more = std::getenv("HONE_TEST_RANDOM_KERNELS");  // for a long run by hand
  const int count = more != nullptr ? std::atoi(more) : 600;
  for (uint64_t seed = 1; emulation_.cases() < static_cast<size_t>(count) * 3; ++seed) {
    const ir::RandomKernel random = ir::random_kernel(seed, isa_info(Isa::kNeon).lanes_f32());
    if (!ir::verify(random.kernel).ok()) continue;  // a package is refused with it
    const Status added = emulation_.add(random.kernel, random.runs, seed);
    ASSERT_TRUE(added.ok()) << added.message();
  }
  expect_equal_bits();
}

// The comparison on the other side compares: one bit changed here is found there, as is a store that nobody made.
TEST_F(Aarch64Kernels, DifferencesAreFound) {
  const KernelCase test = sample_kernels(4).front();
  ASSERT_TRUE(emulation_.add(test.kernel, {test.params.front()}, 1).ok());
  Recording::Case& recorded = emulation_.recording().cases.front();
  for (Recording::Region& region : recorded.regions) {
    if (region.after == region.before || region.after.empty()) continue;
    region.after[4] ^= 1;
    const Result<Emulation::Outcome> outcome = emulation_.run(folder_);
    ASSERT_TRUE(outcome.ok()) << outcome.status().message();
    EXPECT_EQ(outcome->code, 1);
    EXPECT_NE(outcome->output.find("word 1 is "), std::string::npos) << outcome->output;
    EXPECT_NE(outcome->output.find("1 cases, 1 differences"), std::string::npos) << outcome->output;
    return;
  }
  FAIL() << "the kernel writes nothing";
}

}  // namespace
}  // namespace hone::jit
