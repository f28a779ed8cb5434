// AArch64: classes of instructions, each from its bytes alone, frames, and static throughput.
#include <gmock/gmock.h>

#include "jit/inspect/facts.h"
#include "tests/jit/inspect/bytes.h"

namespace hone::jit {
namespace {

using testing::DoubleNear;
using testing::HasSubstr;

struct Row {
  std::string_view bytes, assembly, is;
};

// clang-format off
constexpr Row kRows[] = {
    // arithmetic on vectors and on one lane
    {"20 d4 22 4e", "fadd v0.4s, v1.4s, v2.4s", "vector"},
    {"20 d4 22 0e", "fadd v0.2s, v1.2s, v2.2s", "vector"},
    {"20 28 22 1e", "fadd s0, s1, s2", ""},
    {"20 28 62 1e", "fadd d0, d1, d2", ""},
    {"20 d8 30 7e", "faddp s0, v1.2s", "vector"},
    {"20 c8 30 6e", "fmaxnmv s0, v1.4s", "vector"},
    {"00 20 21 1e", "fcmp s0, s1", ""},
    {"20 b8 a1 4e", "fcvtzs v0.4s, v1.4s", "vector"},
    {"00 00 38 1e", "fcvtzs w0, s0", ""},
    {"20 88 21 4e", "frintn v0.4s, v1.4s", "vector"},
    {"00 04 00 4f", "movi v0.4s, #0", "vector"},
    {"00 e4 00 6f", "movi v0.2d, #0", "vector"},
    {"00 10 2e 1e", "fmov s0, #1.0", ""},
    {"00 f6 03 4f", "fmov v0.4s, #1.0", "vector"},
    {"00 00 27 1e", "fmov s0, w0", ""},
    {"20 00 ae 9e", "fmov x0, v1.d[1]", ""},
    {"00 0c 04 4e", "dup v0.4s, w0", "vector"},
    {"20 04 04 4e", "dup v0.4s, v1.s[0]", "vector"},
    {"20 04 14 5e", "mov s0, v1.s[2]", ""},
    {"20 04 0c 6e", "mov v0.s[1], v1.s[0]", ""},
    {"00 1c 0c 4e", "mov v0.s[1], w0", ""},
    {"20 3c 0c 0e", "mov w0, v1.s[1]", ""},
    {"20 1c a1 4e", "mov v0.16b, v1.16b", "vector"},
    {"20 94 82 4e", "sdot v0.4s, v1.16b, v2.16b", "vector"},
    // fused multiply-adds
    {"20 cc 22 4e", "fmla v0.4s, v1.4s, v2.4s", "vector fma"},
    {"20 cc 22 0e", "fmla v0.2s, v1.2s, v2.2s", "vector fma"},
    {"20 10 a2 4f", "fmla v0.4s, v1.4s, v2.s[1]", "vector fma"},
    {"20 cc e2 4e", "fmls v0.2d, v1.2d, v2.2d", "vector fma"},
    {"20 ec 22 4e", "fmlal v0.4s, v1.4h, v2.4h", "vector fma"},
    {"20 10 a2 5f", "fmla s0, s1, v2.s[1]", ""},
    {"20 0c 02 1f", "fmadd s0, s1, s2, s3", ""},
    // loads and stores
    {"20 00 c0 3d", "ldr q0, [x1]", "vector load"},
    {"20 04 c1 3c", "ldr q0, [x1], #16", "vector load"},
    {"20 78 e2 3c", "ldr q0, [x1, x2, lsl #4]", "vector load"},
    {"20 04 41 ad", "ldp q0, q1, [x1, #32]", "vector load"},
    {"20 04 81 ac", "stp q0, q1, [x1], #32", "vector store"},
    {"20 04 80 3d", "str q0, [x1, #16]", "vector store"},
    {"20 00 40 fd", "ldr d0, [x1]", "load"},
    {"20 04 40 bd", "ldr s0, [x1, #4]", "load"},
    {"20 00 00 bd", "str s0, [x1]", "store"},
    {"20 a8 40 4c", "ld1 {v0.4s, v1.4s}, [x1]", "vector load"},
    {"20 78 df 4c", "ld1 {v0.4s}, [x1], #16", "vector load"},
    {"20 c8 40 4d", "ld1r {v0.4s}, [x1]", "vector load"},
    {"20 90 40 0d", "ld1 {v0.s}[1], [x1]", "load"},
    {"20 90 00 0d", "st1 {v0.s}[1], [x1]", "store"},
    {"20 78 82 4c", "st1 {v0.4s}, [x1], x2", "vector store"},
    {"20 88 40 4c", "ld2 {v0.4s, v1.4s}, [x1]", "vector load"},
    {"20 04 40 f9", "ldr x0, [x1, #8]", "load"},
    {"20 00 40 39", "ldrb w0, [x1]", "load"},
    {"20 00 80 b9", "ldrsw x0, [x1]", "load"},
    {"00 00 00 9c", "ldr q0, 0", "vector load"},
    {"40 04 00 a9", "stp x0, x1, [x2]", "store"},
    {"41 00 20 f8", "ldadd x0, x1, [x2]", "load store"},
    // integers
    {"20 00 01 91", "add x0, x1, #64", "address"},
    {"20 08 02 8b", "add x0, x1, x2, lsl #2", "address"},
    {"20 00 02 cb", "sub x0, x1, x2", "address"},
    {"00 04 00 f1", "subs x0, x0, #1", "address"},
    {"1f 00 01 eb", "cmp x0, x1", "address"},
    {"20 0c 02 9b", "madd x0, x1, x2, x3", "address"},
    {"20 ec 7c d3", "lsl x0, x1, #4", "address"},
    {"e0 03 01 aa", "mov x0, x1", "address"},
    {"a0 00 80 d2", "mov x0, #5", "address"},
    {"20 b0 82 9a", "csel x0, x1, x2, lt", "address"},
    {"e0 a7 9f 1a", "cset w0, lt", "address"},
    {"00 00 00 10", "adr x0, 0", "address"},
    // control flow
    {"10 00 00 14", "b 64", "branch"},
    {"01 02 00 54", "b.ne 64", "branch"},
    {"00 02 00 b4", "cbz x0, 64", "branch"},
    {"00 02 18 36", "tbz x0, #3, 64", "branch"},
    {"00 00 1f d6", "br x0", "branch"},
    {"10 00 00 94", "bl 64", "branch"},
    {"c0 03 5f d6", "ret", "branch"},
    // the frame
    {"e0 07 40 f9", "ldr x0, [sp, #8]", "load stack"},
    {"e0 0f 80 3d", "str q0, [sp, #48]", "vector store stack"},
    {"fd 7b bf a9", "stp x29, x30, [sp, #-16]!", "store stack"},
    {"fd 7b c1 a8", "ldp x29, x30, [sp], #16", "load stack"},
    {"e0 6b e1 3c", "ldr q0, [sp, x1]", "vector load stack"},
    {"ff 03 01 d1", "sub sp, sp, #64", "address"},
    {"a0 0b 40 f9", "ldr x0, [x29, #16]", "load"},
    // nothing of all that
    {"1f 20 03 d5", "nop", ""},
    {"5f 24 03 d5", "bti c", ""},
    {"20 20 80 f9", "prfm pldl1keep, [x1, #64]", ""},
    {"bf 3b 03 d5", "dmb ish", ""},
    {"20 00 20 d4", "brk #1", ""},
};
// clang-format on

TEST(JitInspectAarch64, ClassesFollowFromOperands) {
  HONE_NEEDS_INSPECT();
  for (const Row& row : kRows) {
    const Line line{row.bytes, row.assembly};
    const CodeFacts facts = facts_of({&line, 1}, Isa::kNeon);
    EXPECT_EQ(class_names(facts.instructions.front().classes), row.is) << row.assembly;
  }
}

CodeFacts expect_spills(std::span<const Row> rows) {
  std::vector<Line> code;
  for (const Row& row : rows) code.push_back({row.bytes, row.assembly});
  CodeFacts facts = facts_of(code, Isa::kNeon);
  for (size_t i = 0; i < std::min(rows.size(), facts.instructions.size()); ++i) {
    const Classes& all = facts.instructions[i].classes;
    EXPECT_EQ(class_names({.spill = all.spill, .reload = all.reload}), rows[i].is) << i << ": " << rows[i].assembly;
  }
  return facts;
}

// x19, x29, x30 and the lower halves of v8 to v15 are the caller's.
TEST(JitInspectAarch64, RegistersOfTheCaller) {
  HONE_NEEDS_INSPECT();
  constexpr Row kCode[] = {
      {"ff c3 01 d1", "sub sp, sp, #112", ""},
      {"e9 23 01 6d", "stp d9, d8, [sp, #16]", ""},
      {"fd 7b 06 a9", "stp x29, x30, [sp, #96]", ""},
      {"fd 83 01 91", "add x29, sp, #96", ""},
      {"f3 2f 00 f9", "str x19, [sp, #88]", ""},
      {"e0 07 00 f9", "str x0, [sp, #8]", "spill"},
      {"e0 0f 80 3d", "str q0, [sp, #48]", "spill"},
      {"e8 13 00 fd", "str d8, [sp, #32]", ""},
      {"08 40 60 1e", "fmov d8, d0", ""},
      {"e8 13 00 fd", "str d8, [sp, #32]", "spill"},
      {"e0 07 40 f9", "top: ldr x0, [sp, #8]", "reload"},
      {"a5 03 dd 3c", "ldur q5, [x29, #-48]", "reload"},
      {"e8 13 40 fd", "ldr d8, [sp, #32]", "reload"},
      {"21 04 00 f1", "subs x1, x1, #1", ""},
      {"81 ff ff 54", "b.ne top", ""},
      {"f3 2f 40 f9", "ldr x19, [sp, #88]", ""},
      {"fd 7b 46 a9", "ldp x29, x30, [sp, #96]", ""},
      {"e9 23 41 6d", "ldp d9, d8, [sp, #16]", ""},
      {"ff c3 01 91", "add sp, sp, #112", ""},
      {"c0 03 5f d6", "ret", ""},
  };
  const CodeFacts facts = expect_spills(kCode);
  ASSERT_EQ(facts.loops.size(), 1u);
  EXPECT_EQ(facts.loops[0].counts.reloads, 3);
  EXPECT_EQ(facts.loops[0].counts.vector_reloads, 2);
}

// The whole of v8 is not the caller's; addresses are written back before and behind an access.
TEST(JitInspectAarch64, RealignedFrameAndMovingStackPointer) {
  HONE_NEEDS_INSPECT();
  constexpr Row kCode[] = {
      {"fd 7b bf a9", "stp x29, x30, [sp, #-16]!", ""},
      {"fd 03 00 91", "mov x29, sp", ""},
      {"e9 c3 00 d1", "sub x9, sp, #48", ""},
      {"3f e5 7a 92", "and sp, x9, #0xffffffffffffffc0", ""},
      {"e8 27 00 ad", "stp q8, q9, [sp]", "spill"},
      {"a0 83 1f f8", "str x0, [x29, #-8]", "spill"},
      {"e1 07 c0 3d", "ldr q1, [sp, #16]", "reload"},
      {"e0 03 c0 3d", "ldr q0, [sp]", "reload"},
      {"a0 83 5f f8", "ldr x0, [x29, #-8]", "reload"},
      {"e1 0f 1f f8", "str x1, [sp, #-16]!", "spill"},
      {"e2 07 41 f8", "ldr x2, [sp], #16", "reload"},
      {"e3 03 5f b8", "ldr w3, [sp, #-16]", "reload"},
      {"bf 03 00 91", "mov sp, x29", ""},
      {"fd 7b c1 a8", "ldp x29, x30, [sp], #16", ""},
      {"c0 03 5f d6", "ret", ""},
  };
  expect_spills(kCode);
}

TEST(JitInspectAarch64, StructuresInTheFrame) {
  HONE_NEEDS_INSPECT();
  constexpr Row kCode[] = {
      {"e0 0f 9e 3c", "str q0, [sp, #-32]!", "spill"},
      {"e1 83 00 4d", "st1 {v1.s}[2], [sp]", ""},
      {"e2 7b df 4c", "ld1 {v2.4s}, [sp], #16", "reload"},
      {"e3 cb 40 4d", "ld1r {v3.4s}, [sp]", ""},
      {"c0 03 5f d6", "ret", ""},
  };
  EXPECT_EQ(expect_spills(kCode).counts.stack, 4);
}

TEST(JitInspectAarch64, CallsLeaveSomeRegisters) {
  HONE_NEEDS_INSPECT();
  constexpr Row kCode[] = {
      {"e0 0f 1f f8", "str x0, [sp, #-16]!", ""}, {"f3 03 00 91", "mov x19, sp", ""},
      {"e9 03 00 91", "mov x9, sp", ""},          {"20 00 3f d6", "blr x1", ""},
      {"62 02 00 f9", "str x2, [x19]", "spill"},  {"22 05 00 f9", "str x2, [x9, #8]", ""},
      {"60 02 40 f9", "ldr x0, [x19]", "reload"}, {"61 06 40 f9", "ldr x1, [x19, #8]", ""},
      {"ff 43 00 91", "add sp, sp, #16", ""},     {"c0 03 5f d6", "ret", ""},
  };
  expect_spills(kCode);
}

TEST(JitInspectAarch64, BytesThatAreNoInstructions) {
  HONE_NEEDS_INSPECT();
  constexpr Line kCode[] = {{"c0 03 5f d6", "ret"}, {"ff ff ff ff", ".byte"}, {"01 02", ".byte"}};
  const CodeFacts facts = facts_of(kCode, Isa::kNeon);
  EXPECT_EQ(facts.instructions[1].text, ".byte 0xff, 0xff, 0xff, 0xff");
  EXPECT_EQ(facts.instructions[2].text, ".byte 0x01, 0x02");
}

TEST(JitInspectAarch64, StaticThroughput) {
  HONE_NEEDS_INSPECT();
  constexpr Line kChain[] = {{"20 cc 22 4e", "fmla v0.4s, v1.4s, v2.4s"}};
  const std::vector<std::byte> chain = bytes_of(kChain);
  const Result<StaticThroughput> t = static_throughput(chain, Isa::kNeon, "neoverse-n1");
  ASSERT_TRUE(t.ok()) << t.status().to_string();
  EXPECT_DOUBLE_EQ(t->block_rthroughput, 0.5);  // two pipes
  EXPECT_THAT(t->cycles, DoubleNear(4, 0.01));
  EXPECT_EQ(t->bottleneck, "register dependency");
  // In order, another pipeline.
  const Result<StaticThroughput> small = static_throughput(chain, Isa::kNeon, "cortex-a55");
  ASSERT_TRUE(small.ok()) << small.status().to_string();
  EXPECT_THAT(small->cycles, DoubleNear(4, 0.01));
  EXPECT_THAT(static_throughput(chain, Isa::kNeon, "znver4").status().message(), HasSubstr("knows no CPU 'znver4'"));
}

}  // namespace
}  // namespace hone::jit
