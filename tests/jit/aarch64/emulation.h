// Kernels compiled for AArch64 on this machine, run there by an emulator: packages of them, the memory that they run on
// and what they must leave in it. What must be there is computed here, by the interpreter, and judged by the op's naive
// reference where there is one.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "jit/aot/write.h"
#include "kernels/ir/ir.h"
#include "kernels/op/op.h"
#include "tests/jit/aarch64/recording.h"

namespace hone::jit {

class Emulation {
 public:
  // "" where it can be done, else what is missing.
  static std::string why_not();

  // A program on random operands.
  Status add(const op::Problem& problem, const op::Program& program, uint64_t seed);
  // A kernel with each of these parameters; many of them are one op of the package.
  Status add(const ir::Kernel& kernel, const std::vector<std::vector<int64_t>>& runs, uint64_t seed);

  size_t cases() const { return recording_.cases.size(); }
  Recording& recording() { return recording_; }

  // Writes the package to `folder`, which exists, runs it, and returns all that the runner printed. Error: what writing
  // the package says, or internal.
  struct Outcome {
    int code;  // of the runner
    std::string output;
  };
  Result<Outcome> run(const std::filesystem::path& folder) const;

 private:
  std::vector<AotOp> ops_;
  std::optional<size_t> loose_;  // the op of ops_ that takes the next kernel
  Recording recording_;
};

// An emulation with a folder of its own.
class EmulatedTest : public testing::Test {
 protected:
  EmulatedTest();
  ~EmulatedTest() override;
  void SetUp() override {
    if (const std::string why = Emulation::why_not(); !why.empty()) GTEST_SKIP() << why;
  }
  // Runs all that was added; a difference fails the test.
  void expect_equal_bits();

  std::filesystem::path folder_;
  Emulation emulation_;
};

}  // namespace hone::jit
