// Kernels that tests hand to every code generator, and the expectation that jit/fuzz/differential.h finds no
// difference.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "jit/fuzz/differential.h"
#include "kernels/ir/ir.h"

namespace hone::jit {

struct KernelCase {
  std::string name;
  ir::Kernel kernel;
  std::vector<std::vector<int64_t>> params;  // one run each
  bool verified = true;                      // false: right for these parameters, beyond what the verifier proves
};

// A kernel of random structure; equal seeds give equal kernels. With `pairs`, of bf16 too.
KernelCase random_case(uint32_t seed, int max_lanes, bool pairs = false);
// Does this CPU run pairs of bf16, in code for this ISA?
bool has_pairs(Isa isa);

void PrintTo(const Target& target, std::ostream* out);  // found by gtest
std::string target_name(const testing::TestParamInfo<Target>& info);

// Compiles and runs; a difference fails the calling test and names buffer and element. `unsupported` is a failure too.
void expect_like_interpreter(const KernelCase& test, const Target& target, uint32_t seed);

}  // namespace hone::jit
