// The loops of small control flows. Lines are numbered as the listings have them.
#include <gmock/gmock.h>

#include "jit/inspect/facts.h"
#include "tests/jit/inspect/bytes.h"

namespace hone::jit {
namespace {

using testing::ElementsAre;

// Of each instruction, the loop that it is in.
std::vector<int> loop_of(const CodeFacts& facts) {
  std::vector<int> loops;
  for (const Instruction& i : facts.instructions) loops.push_back(i.loop);
  return loops;
}

TEST(JitInspectFlow, NestedAndConsecutiveLoops) {
  HONE_NEEDS_INSPECT();
  constexpr Line kCode[] = {
      {"b9 0a 00 00 00", "mov ecx, 10"},
      {"ba 14 00 00 00", "outer: mov edx, 20"},
      {"62 f1 7c 48 10 06", "inner: vmovups zmm0, [rsi]"},
      {"48 ff ca", "dec rdx"},
      {"75 f5", "jne inner"},
      {"62 f1 7c 48 11 06", "vmovups [rsi], zmm0"},
      {"62 f2 75 48 b8 c2", "second: vfmadd231ps zmm0, zmm1, zmm2"},
      {"48 ff c8", "dec rax"},
      {"75 f5", "jne second"},
      {"48 ff c9", "dec rcx"},
      {"75 da", "jne outer"},
      {"c3", "ret"},
  };
  const CodeFacts facts = facts_of(kCode);
  EXPECT_THAT(loop_of(facts), ElementsAre(-1, 0, 1, 1, 1, 0, 2, 2, 2, 0, 0, -1));
  ASSERT_EQ(facts.loops.size(), 3u);
  const Loop &outer = facts.loops[0], &inner = facts.loops[1], &second = facts.loops[2];
  EXPECT_EQ(outer.depth, 1);
  EXPECT_FALSE(outer.innermost);
  EXPECT_EQ(outer.counts.total, 10);
  EXPECT_EQ(outer.begin, facts.instructions[1].offset);
  EXPECT_EQ(outer.end, facts.instructions[11].offset);
  EXPECT_EQ(inner.depth, 2);
  EXPECT_EQ(inner.parent, 0);
  EXPECT_TRUE(inner.innermost);
  EXPECT_EQ(inner.begin, facts.instructions[2].offset);
  EXPECT_EQ(inner.end, facts.instructions[5].offset);
  EXPECT_EQ(inner.counts.load, 1);
  EXPECT_EQ(second.counts.fma, 1);
  EXPECT_EQ(facts.hottest, 2) << "the one with fused multiply-adds";
  EXPECT_EQ(facts.instructions[4].target, 10);
}

TEST(JitInspectFlow, SeveralExitsAndBackEdgesAreOneLoop) {
  HONE_NEEDS_INSPECT();
  constexpr Line kCode[] = {
      {"62 f1 7c 48 10 06", "top: vmovups zmm0, [rsi]"},
      {"48 39 c8", "cmp rax, rcx"},
      {"74 0e", "je out"},
      {"48 39 d0", "cmp rax, rdx"},
      {"74 f0", "je top"},
      {"48 83 c6 40", "add rsi, 64"},
      {"48 ff c9", "dec rcx"},
      {"75 e7", "jne top"},
      {"c3", "out: ret"},
  };
  const CodeFacts facts = facts_of(kCode);
  EXPECT_THAT(loop_of(facts), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, -1));
  ASSERT_EQ(facts.loops.size(), 1u);
}

// A cycle with two entries is no natural loop, and must not confuse what is around it.
TEST(JitInspectFlow, CycleWithTwoEntriesIsNoLoop) {
  HONE_NEEDS_INSPECT();
  constexpr Line kCode[] = {
      {"48 85 c0", "test rax, rax"}, {"74 05", "je b"},  {"48 ff c9", "a: dec rcx"}, {"74 05", "je out"},
      {"48 ff ca", "b: dec rdx"},    {"75 f6", "jne a"}, {"c3", "out: ret"},
  };
  const CodeFacts facts = facts_of(kCode);
  EXPECT_TRUE(facts.loops.empty());
  EXPECT_EQ(facts.hottest, -1);
  EXPECT_EQ(facts.counts.total, 7);
  EXPECT_EQ(facts.counts.branch, 4);
}

// `cold` belongs to the loop and lies in front of it; `other` lies between the two and does not.
TEST(JitInspectFlow, LoopNeedNotBeInOnePiece) {
  HONE_NEEDS_INSPECT();
  constexpr Line kCode[] = {
      {"eb 0d", "jmp top"},  {"48 83 c6 40", "cold: add rsi, 64"},
      {"eb 0c", "jmp back"}, {"62 f2 75 48 b8 c2", "other: vfmadd231ps zmm0, zmm1, zmm2"},
      {"c3", "ret"},         {"48 39 d6", "top: cmp rsi, rdx"},
      {"74 ee", "je cold"},  {"48 ff c9", "back: dec rcx"},
      {"75 f6", "jne top"},  {"eb ed", "jmp other"},
  };
  const CodeFacts facts = facts_of(kCode);
  EXPECT_THAT(loop_of(facts), ElementsAre(-1, 0, 0, -1, -1, 0, 0, 0, 0, -1));
  ASSERT_EQ(facts.loops.size(), 1u);
  EXPECT_EQ(facts.loops[0].counts.total, 6);
  EXPECT_EQ(facts.loops[0].counts.fma, 0);
  EXPECT_EQ(facts.loops[0].begin, 2u);
  const std::vector<std::byte> code = bytes_of(kCode);
  EXPECT_EQ(loop_code(code, facts, 0).size(), 4u + 2 + 3 + 2 + 3 + 2);
  EXPECT_TRUE(loop_code(code, facts, -1).empty());
}

TEST(JitInspectFlow, CodeOfALoopHasTheLoopsInIt) {
  HONE_NEEDS_INSPECT();
  constexpr Line kCode[] = {
      {"b9 0a 00 00 00", "mov ecx, 10"},
      {"ba 14 00 00 00", "outer: mov edx, 20"},
      {"62 f1 7c 48 10 06", "inner: vmovups zmm0, [rsi]"},
      {"48 ff ca", "dec rdx"},
      {"75 f5", "jne inner"},
      {"62 f1 7c 48 11 06", "vmovups [rsi], zmm0"},
      {"62 f2 75 48 b8 c2", "second: vfmadd231ps zmm0, zmm1, zmm2"},
      {"48 ff c8", "dec rax"},
      {"75 f5", "jne second"},
      {"48 ff c9", "dec rcx"},
      {"75 da", "jne outer"},
      {"c3", "ret"},
  };
  const CodeFacts facts = facts_of(kCode);
  const std::vector<std::byte> code = bytes_of(kCode);
  EXPECT_EQ(loop_code(code, facts, 0), std::vector<std::byte>(code.begin() + 5, code.end() - 1));
}

// Where the jump goes is in the table only; its cases are what nothing else reaches.
TEST(JitInspectFlow, IndirectJumpReachesTheCases) {
  HONE_NEEDS_INSPECT();
  constexpr Line kCode[] = {
      {"48 8d 05 40 00 00 00", "lea rax, [rip + 64]"},
      {"ff 24 c8", "jmp [rax + 8*rcx]"},
      {"48 ff ca", "one: dec rdx"},
      {"75 fb", "jne one"},
      {"eb 0b", "jmp out"},
      {"62 f1 7c 48 10 06", "two: vmovups zmm0, [rsi]"},
      {"48 ff ca", "dec rdx"},
      {"75 f5", "jne two"},
      {"c3", "out: ret"},
  };
  EXPECT_THAT(loop_of(facts_of(kCode)), ElementsAre(-1, -1, 0, 0, -1, 1, 1, 1, -1));
}

// The version for full tiles is the hot one. What is behind it and cannot be reached has no loops.
TEST(JitInspectFlow, HottestIsTheLargestVersion) {
  HONE_NEEDS_INSPECT();
  constexpr Line kCode[] = {
      {"48 83 ff 01", "cmp rdi, 1"},
      {"74 12", "je small"},
      {"62 f2 75 48 b8 c2", "big: vfmadd231ps zmm0, zmm1, zmm2"},
      {"62 f2 75 48 b8 dc", "vfmadd231ps zmm3, zmm1, zmm4"},
      {"48 ff c9", "dec rcx"},
      {"75 ef", "jne big"},
      {"c3", "ret"},
      {"62 f2 75 48 b8 c2", "small: vfmadd231ps zmm0, zmm1, zmm2"},
      {"48 ff c9", "dec rcx"},
      {"75 f5", "jne small"},
      {"c3", "ret"},
      {"62 f2 75 48 b8 c2", "dead: vfmadd231ps zmm0, zmm1, zmm2"},
      {"62 f2 75 48 b8 c2", "vfmadd231ps zmm0, zmm1, zmm2"},
      {"62 f2 75 48 b8 c2", "vfmadd231ps zmm0, zmm1, zmm2"},
      {"48 ff c9", "dec rcx"},
      {"75 e9", "jne dead"},
      {"c3", "ret"},
  };
  const CodeFacts facts = facts_of(kCode);
  ASSERT_EQ(facts.loops.size(), 2u);
  EXPECT_EQ(facts.hottest, 0);
  EXPECT_EQ(facts.loops[0].counts.fma, 2);
  EXPECT_EQ(facts.counts.fma, 6);
}

TEST(JitInspectFlow, DeadCodeIsInNoLoop) {
  HONE_NEEDS_INSPECT();
  constexpr Line kCode[] = {
      {"48 ff c9", "top: dec rcx"}, {"74 05", "je out"}, {"48 ff ca", "middle: dec rdx"},
      {"75 f6", "jne top"},         {"c3", "out: ret"},  {"48 ff c1", "dead: inc rcx"},
      {"eb f5", "jmp middle"},
  };
  EXPECT_THAT(loop_of(facts_of(kCode)), ElementsAre(0, 0, 0, 0, -1, -1, -1));
}

TEST(JitInspectFlow, InstructionThatJumpsToItself) {
  HONE_NEEDS_INSPECT();
  constexpr Line kCode[] = {
      {"eb fe", "self: jmp self"},
  };
  const CodeFacts facts = facts_of(kCode);
  EXPECT_THAT(loop_of(facts), ElementsAre(0));
}

// Branches out of the code (tail calls) and into the middle of an instruction lead nowhere.
TEST(JitInspectFlow, BranchesThatLeadNowhere) {
  HONE_NEEDS_INSPECT();
  constexpr Line kCode[] = {
      {"b8 00 00 00 00", "mov eax, 0"}, {"75 fa", "jne 1"}, {"74 7f", "je 0x88"}, {"e9 fb ff 00 00", "jmp 0x10009"}};
  const CodeFacts facts = facts_of(kCode);
  EXPECT_TRUE(facts.loops.empty());
  EXPECT_EQ(facts.instructions[1].target, 1);
  EXPECT_EQ(facts.instructions[2].target, 0x88);
}

TEST(JitInspectFlow, NoCode) {
  HONE_NEEDS_INSPECT();
  const CodeFacts facts = facts_of({});
  EXPECT_EQ(facts.counts.total, 0);
  EXPECT_EQ(facts.hottest, -1);
}

// Constants behind the code, and code that was cut.
TEST(JitInspectFlow, BytesThatAreNoInstructions) {
  HONE_NEEDS_INSPECT();
  constexpr Line kCode[] = {{"c3", "ret"}, {"06", ".byte 0x06"}, {"62", ".byte 0x62"}, {"f1", ".byte 0xf1"}};
  const CodeFacts facts = facts_of(kCode);
  EXPECT_EQ(facts.instructions[1].text, ".byte 0x06");
  EXPECT_EQ(class_names(facts.instructions[1].classes), "");
}

}  // namespace
}  // namespace hone::jit
