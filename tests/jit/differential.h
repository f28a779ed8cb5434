// Runs one kernel through the interpreter and through a code generator on equal inputs, and compares every byte that
// either may have written. Buffers end at a page that may not be touched, workspaces start as NaN.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "jit/codegen.h"
#include "kernels/ir/ir.h"

namespace hone::jit {

struct KernelCase {
  std::string name;
  ir::Kernel kernel;
  std::vector<std::vector<int64_t>> params;  // one run each
  bool verified = true;  // random kernels are legal by construction, beyond what the verifier proves
};

// A code generator and an instruction set that it emits.
struct Target {
  CodeGenerator* generator;
  Isa isa;
};
// All of this build but the interpreter; what does not run here is skipped by the tests, with the reason.
std::vector<Target> all_targets();
void PrintTo(const Target& target, std::ostream* out);  // found by gtest
std::string target_name(const testing::TestParamInfo<Target>& info);

// Random floats among which specials (NaN, infinities, signed zeros, denormals, halves, 2^31) are frequent. For s32
// buffers the same bits are as good as any.
void fill_random(std::span<uint32_t> words, uint32_t seed);

// True when a and b are the same bits, or both are f32 NaNs.
bool same_value(uint32_t a, uint32_t b, DType dtype);

// Compiles and runs; a difference fails the calling test and names buffer and element. `unsupported` is a failure too.
void expect_like_interpreter(const KernelCase& test, const Target& target, uint32_t seed);

}  // namespace hone::jit
