// Machine code of both generators: they do the same work, and what must be found in it is found.
#include <gmock/gmock.h>

#include <random>

#include "jit/codegen.h"
#include "tests/jit/inspect/bytes.h"
#include "tests/jit/inspect/emitted.h"
#include "tests/jit/sample_kernels.h"

namespace hone::jit {
namespace {

Emitted emitted(CodeGenerator& generator, const ir::Kernel& kernel, Isa isa) {
  Result<Emitted> code = emit(generator, kernel, isa);
  EXPECT_TRUE(code.ok()) << code.status().to_string();
  return code.ok() ? std::move(*code) : Emitted{};
}

// Instructions cover the code, loops lie in it and nest, counts add up.
void expect_consistent(const CodeFacts& facts, size_t bytes) {
  size_t at = 0;
  int total = 0;
  for (const Instruction& i : facts.instructions) {
    ASSERT_EQ(i.offset, at);
    ASSERT_GT(i.size, 0);
    at += static_cast<size_t>(i.size);
    ++total;
    EXPECT_TRUE(!i.classes.spill || (i.classes.store && i.classes.stack)) << i.text;
    EXPECT_TRUE(!i.classes.reload || (i.classes.load && i.classes.stack)) << i.text;
    EXPECT_TRUE(!i.classes.fma || i.classes.vector) << i.text;
  }
  EXPECT_EQ(at, bytes);
  EXPECT_EQ(facts.counts.total, total);
  for (size_t l = 0; l < facts.loops.size(); ++l) {
    const Loop& loop = facts.loops[l];
    EXPECT_LT(loop.begin, loop.end);
    EXPECT_LE(loop.end, bytes);
    if (loop.parent < 0) {
      EXPECT_EQ(loop.depth, 1);
      continue;
    }
    ASSERT_LT(loop.parent, static_cast<int>(l));
    const Loop& around = facts.loops[static_cast<size_t>(loop.parent)];
    EXPECT_EQ(loop.depth, around.depth + 1);
    EXPECT_FALSE(around.innermost);
    EXPECT_LE(around.begin, loop.begin);
    EXPECT_GE(around.end, loop.end);
    EXPECT_GT(around.counts.total, loop.counts.total);
  }
}

TEST(JitInspectKernels, FactsAreConsistent) {
  HONE_NEEDS_INSPECT();
  for (CodeGenerator* generator : compiling_generators()) {
    for (Isa isa : all_isas()) {
      if (!generator->emits(isa)) continue;
      for (const KernelCase& c : sample_kernels(isa_info(isa).lanes_f32())) {
        SCOPED_TRACE(std::string(generator->name()) + " " + c.kernel.name + " " + std::string(isa_info(isa).name));
        const Emitted code = emitted(*generator, c.kernel, isa);
        expect_consistent(code.facts, code.code.size());
        for (const Instruction& i : code.facts.instructions) EXPECT_FALSE(i.text.starts_with(".byte")) << i.text;
      }
    }
  }
}

TEST(JitInspectKernels, GeneratorsDoTheSameWork) {
  HONE_NEEDS_INSPECT();
  for (CodeGenerator* generator : compiling_generators()) {
    for (Isa isa : all_isas()) {
      if (!generator->emits(isa)) continue;
      SCOPED_TRACE(std::string(generator->name()) + " " + std::string(isa_info(isa).name));
      const int lanes = isa_info(isa).lanes_f32();
      const Emitted code =
          emitted(*generator,
                  tile_kernel({.mr = 6, .nr = 2 * lanes, .k = 64, .lanes = lanes, .unroll = 2, .versions = true}), isa);
      const InnerLoop loop = code.hot_loop();
      EXPECT_EQ(loop.counts.fma, 2 * 6 * 2) << loop.text();
      EXPECT_EQ(loop.counts.store, 0);
      EXPECT_EQ(loop.counts.stack, 0);
      EXPECT_EQ(code.facts.counts.fma, 2 * 2 * (1 + 2 + 3 + 4 + 5 + 6)) << "a loop for each number of rows";
      EXPECT_EQ(code.facts.counts.vector_spills, 0);
      EXPECT_EQ(code.facts.counts.vector_reloads, 0);
      if (isa == Isa::kNeon) continue;  // two elements of a at a time, or two vectors of b
      EXPECT_EQ(loop.counts.load, 2 * (2 + 6)) << loop.text();
      EXPECT_DOUBLE_EQ(loop.counts.loads_per_fma(), 16.0 / 24);
    }
  }
}

// 32 accumulators, two vectors of b and one of a do not fit 32 registers.
TEST(JitInspectKernels, VectorsThatDoNotFitAreFound) {
  HONE_NEEDS_INSPECT();
  for (CodeGenerator* generator : compiling_generators()) {
    SCOPED_TRACE(generator->name());
    const Emitted code = emitted(*generator, tile_kernel({.mr = 16, .nr = 32, .k = 64, .lanes = 16}), Isa::kAvx512);
    const InnerLoop loop = code.hot_loop();
    EXPECT_EQ(loop.counts.fma, 32);
    EXPECT_GE(loop.counts.vector_spills, 2) << loop.text();
    EXPECT_GE(loop.counts.vector_reloads, 2) << loop.text();
  }
}

// Whatever the bytes are. Jumps back and prefixes of vector instructions are sown, so that there are loops to find.
TEST(JitInspectKernels, AnyBytesHaveFacts) {
  HONE_NEEDS_INSPECT();
  size_t loops = 0;
  for (uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::vector<std::byte> code(1 + random() % 400);
    for (std::byte& b : code) b = static_cast<std::byte>(random());
    for (size_t i = 0; i + 1 < code.size(); i += 1 + random() % 60) {
      code[i] = static_cast<std::byte>(0x70 + random() % 16);  // a conditional jump
      code[i + 1] = static_cast<std::byte>(0x80 + random() % 128);
    }
    for (Isa isa : {Isa::kAvx512, Isa::kNeon}) {
      const Result<CodeFacts> facts = inspect(code, isa);
      ASSERT_TRUE(facts.ok()) << facts.status().to_string();
      expect_consistent(*facts, code.size());
      loops += facts->loops.size();
    }
  }
  EXPECT_GT(loops, 20u);
}

}  // namespace
}  // namespace hone::jit
