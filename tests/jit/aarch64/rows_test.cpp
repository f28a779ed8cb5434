// Row programs and top-k on AArch64: what NEON makes of permutes, tails, chains of four vectors and roots.
#include "kernels/rows/decoder.h"
#include "kernels/rows/lower.h"
#include "kernels/rows/topk.h"
#include "tests/jit/aarch64/emulation.h"

namespace hone::jit {
namespace {

using Aarch64Rows = EmulatedTest;

// 1, 2, 3, ..: extents and strides that fit any operand, since the buffers are made after them.
std::vector<std::vector<int64_t>> runs_of(const ir::Kernel& kernel, int outer, int64_t n) {
  std::vector<int64_t> params(kernel.params().size(), 2 * n + 3);
  for (int d = 0; d < outer; ++d) params[static_cast<size_t>(d)] = 3 - d % 2;
  std::vector<int64_t> none = params;
  none[0] = 0;
  return {params, none};
}

TEST_F(Aarch64Rows, ProgramsOfADecoder) {
  using namespace hone::rows;
  for (const int64_t n : {5, 16, 39}) {
    const RowShape shape{.n = n};
    const RowProgram programs[] = {rms_norm(shape, 1e-5F),
                                   rms_scale(shape, 1e-5F),
                                   add_rms_norm(shape, 0),
                                   layer_norm(shape, 0, true),
                                   softmax(shape, 0.5F),
                                   silu_mul(shape),
                                   rope_half(1, 2 * n),
                                   rope_interleaved(1, 2 * n),
                                   copy(shape, DType::kS32, Columns::kStrided),
                                   unary_map(shape, StepOp::kLog),
                                   reduce_columns(shape, StepOp::kReduceMax)};
    for (const RowProgram& program : programs) {
      const Result<ir::Kernel> kernel = lower(program, Isa::kNeon);
      ASSERT_TRUE(kernel.ok()) << kernel.status().message();
      const Status added = emulation_.add(*kernel, runs_of(*kernel, 1, n), 7);
      ASSERT_TRUE(added.ok()) << kernel->name << ": " << added.message();
    }
  }
  const Result<ir::Kernel> runtime = lower(softmax({.outer = 0}, 1), Isa::kNeon);
  ASSERT_TRUE(runtime.ok());
  ASSERT_TRUE(emulation_.add(*runtime, {{0}, {1}, {15}, {16}, {18}, {40}}, 3).ok());
  expect_equal_bits();
}

TEST_F(Aarch64Rows, TopK) {
  for (const rows::TopK& problem : {rows::TopK{8, 2}, rows::TopK{5, 5}, rows::TopK{37, 6}}) {
    const Result<ir::Kernel> kernel = rows::lower(problem, Isa::kNeon);
    ASSERT_TRUE(kernel.ok());
    ASSERT_TRUE(emulation_.add(*kernel, {{3, problem.n, problem.k, problem.k + 1}}, 11).ok());
  }
  expect_equal_bits();
}

}  // namespace
}  // namespace hone::jit
