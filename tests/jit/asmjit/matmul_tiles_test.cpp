// No register tile that the space enumerates spills in its innermost loops, whatever is packed, unrolled or prefetched
// around it: read from the emitted instructions, for both instruction sets wherever the test runs.
#include <gmock/gmock.h>

#include <algorithm>

#include "jit/codegen.h"
#include "kernels/matmul/blocking.h"
#include "tests/jit/inspect/bytes.h"
#include "tests/jit/inspect/emitted.h"

namespace hone::jit {
namespace {

using matmul::MatmulProblem;
using matmul::TransformProgram;

// A broadcast of an element of a buffer, not of a constant (those are addressed from rip).
bool broadcasts_from_memory(const InnerLoop& loop) {
  return std::any_of(loop.instructions.begin(), loop.instructions.end(), [](const Instruction& i) {
    return i.text.starts_with("vbroadcastss") && i.classes.load && i.text.find("[rip") == std::string::npos;
  });
}

class JitAsmjitTiles : public testing::TestWithParam<Isa> {
 protected:
  // Every loop with an fma and a broadcast of A in it is free of the stack, and of moves between vector registers.
  void expect_clean(const MatmulProblem& problem, const TransformProgram& program) {
    if (!matmul::legal(problem, program).ok()) return;
    const auto kernel = matmul::lower(problem, program);
    ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
    const auto emitted = emit(*find_code_generator("asmjit").value(), kernel.value(), program.isa);
    ASSERT_TRUE(emitted.ok()) << emitted.status().to_string();
    bool found = false;
    for (const InnerLoop& loop : emitted->inner_loops()) {
      if (loop.counts.fma == 0 || !broadcasts_from_memory(loop)) continue;  // an epilogue
      found = true;
      ASSERT_EQ(loop.counts.stack, 0) << matmul::to_string(problem) << "\n"
                                      << matmul::to_string(program) << "\n"
                                      << loop.text();
      ASSERT_EQ(loop.vector_moves(), 0) << matmul::to_string(problem) << "\n"
                                        << matmul::to_string(program) << "\n"
                                        << loop.text();
    }
    EXPECT_TRUE(found) << matmul::to_string(program);
    ++checked_;
  }
  int checked_ = 0;
};

TEST_P(JitAsmjitTiles, InnerLoopsDoNotSpill) {
  HONE_NEEDS_INSPECT();
  const Isa isa = GetParam();
  MatmulProblem problem{.m = 300, .n = 640, .k = 700};
  problem.epilogue = {matmul::EpilogueOp::kBias, matmul::EpilogueOp::kGeluErf, matmul::EpilogueOp::kResidual};
  for (const matmul::RegisterTile& tile : matmul::register_tiles(isa)) {
    for (auto layout : {matmul::BLayout::kNn, matmul::BLayout::kNt, matmul::BLayout::kPacked}) {
      for (auto pack_b : {matmul::PackB::kNone, matmul::PackB::kBlock, matmul::PackB::kStrip}) {
        for (int unroll : {1, 4}) {
          problem.b = layout;
          TransformProgram program{.isa = isa, .lanes = isa_info(isa).lanes_f32(), .mr = tile.mr, .nr = tile.nr};
          program.mc = tile.mr * 4;
          program.nc = tile.nr * 2;
          program.kc = 128;
          program.pack_a = unroll == 4 ? matmul::PackA::kRows : matmul::PackA::kNone;
          program.pack_b = pack_b;
          program.panel = tile.nr;
          program.unroll_k = unroll;
          program.prefetch_b = unroll == 4 ? 8 : 0, program.prefetch_next = unroll != 4;
          expect_clean(problem, program);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
  EXPECT_GT(checked_, 20);
}

INSTANTIATE_TEST_SUITE_P(All, JitAsmjitTiles, testing::ValuesIn(isas_of(Arch::kX86_64)),
                         [](const auto& p) { return std::string(isa_info(p.param).name); });

}  // namespace
}  // namespace hone::jit
