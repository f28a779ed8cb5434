#include "tools/hone/codegen_align.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace hone::cli {
namespace {

using testing::ElementsAre;

std::vector<jit::Instruction> listing(const std::vector<std::string>& texts) {
  std::vector<jit::Instruction> all(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) all[i].text = texts[i];
  return all;
}

TEST(CodegenAlign, ShapesForgetRegistersAddressesAndNumbers) {
  EXPECT_EQ(instruction_shape("vfmadd231ps zmm5, zmm0, dword ptr [rcx + 4*rax + 0x800]{1to16}"),
            instruction_shape("vfmadd231ps zmm31, zmm7, dword ptr [r8]{1to16}"));
  EXPECT_EQ(instruction_shape("add rax, 0x80"), instruction_shape("add r10, 64"));
  EXPECT_EQ(instruction_shape("jne 0x11c0"), instruction_shape("jne 0x8"));
  EXPECT_EQ(instruction_shape("vmovups zmm1{k1}{z}, zmm2"), instruction_shape("vmovups zmm3{k7}{z}, zmm4"));
  EXPECT_EQ(instruction_shape("ret"), "ret");
}

TEST(CodegenAlign, ShapesKeepWhatAnInstructionDoes) {
  EXPECT_NE(instruction_shape("vfmadd231ps zmm5, zmm0, zmm1"), instruction_shape("vfmadd231ps ymm5, ymm0, ymm1"));
  EXPECT_NE(instruction_shape("vfmadd231ps zmm5, zmm0, zmm1"),
            instruction_shape("vfmadd231ps zmm5, zmm0, zmmword ptr [rax]"));
  EXPECT_NE(instruction_shape("vmulps zmm5, zmm0, zmm1"), instruction_shape("vaddps zmm5, zmm0, zmm1"));
  EXPECT_NE(instruction_shape("add rax, 0x80"), instruction_shape("add rax, rbx"));
  EXPECT_NE(instruction_shape("vmovups xmm1, xmmword ptr [rax]"), instruction_shape("vmovss xmm1, dword ptr [rax]"));
}

TEST(CodegenAlign, WhatIsEqualStandsInOneLine) {
  const auto left = listing({"mov rax, rbx", "vmulps zmm0, zmm1, zmm2", "sub rdx, 0x2", "jg 0x10"});
  const auto right = listing({"vmulps zmm9, zmm8, zmm7", "add rdi, -0x2", "jne 0x20"});
  EXPECT_THAT(align(left, right), ElementsAre(AlignedLine{0, -1, false}, AlignedLine{1, 0, true},
                                              AlignedLine{2, 1, false}, AlignedLine{3, 2, false}));
  EXPECT_THAT(align({}, right),
              ElementsAre(AlignedLine{-1, 0, false}, AlignedLine{-1, 1, false}, AlignedLine{-1, 2, false}));
  EXPECT_TRUE(align({}, {}).empty());
}

// Random listings: each instruction once and in order, and as many pairs as a naive search finds.
int naive(const std::vector<std::string>& a, const std::vector<std::string>& b, size_t i, size_t j) {
  if (i == a.size() || j == b.size()) return 0;
  if (a[i] == b[j]) return 1 + naive(a, b, i + 1, j + 1);
  return std::max(naive(a, b, i + 1, j), naive(a, b, i, j + 1));
}

TEST(CodegenAlign, IsALongestCommonSubsequence) {
  std::mt19937 random(5);
  const std::vector<std::string> words = {"vaddps zmm, zmm, zmm", "ret", "jmp #"};
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> a(random() % 9), b(random() % 9);
    for (std::string& text : a) text = words[random() % words.size()];
    for (std::string& text : b) text = words[random() % words.size()];
    const std::vector<AlignedLine> lines = align(listing(a), listing(b));
    int left = 0, right = 0, same = 0;
    for (const AlignedLine& line : lines) {
      ASSERT_TRUE(line.left >= 0 || line.right >= 0);
      EXPECT_EQ(line.left, line.left < 0 ? -1 : left++);
      EXPECT_EQ(line.right, line.right < 0 ? -1 : right++);
      if (!line.same) continue;
      ++same;
      EXPECT_EQ(a[static_cast<size_t>(line.left)], b[static_cast<size_t>(line.right)]);
    }
    EXPECT_EQ(left, static_cast<int>(a.size()));
    EXPECT_EQ(right, static_cast<int>(b.size()));
    EXPECT_EQ(same, naive(a, b, 0, 0)) << round;
  }
}

// Thousands of instructions on both sides: no table of all pairs.
TEST(CodegenAlign, HugeListingsAreNotCompared) {
  const std::vector<jit::Instruction> huge(6000);
  const std::vector<AlignedLine> lines = align(huge, huge);
  ASSERT_EQ(lines.size(), 6000u);
  EXPECT_EQ(lines.back(), (AlignedLine{5999, 5999, false}));
}

}  // namespace
}  // namespace hone::cli
