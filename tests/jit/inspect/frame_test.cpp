// Spills and reloads of small functions, by data flow. Each line says what the instruction is.
#include <gmock/gmock.h>

#include "jit/inspect/facts.h"
#include "tests/jit/inspect/bytes.h"

namespace hone::jit {
namespace {

struct FrameLine {
  std::string_view bytes, assembly, is;
};

CodeFacts expect_classes(std::span<const FrameLine> lines) {
  std::vector<Line> code;
  for (const FrameLine& line : lines) code.push_back({line.bytes, line.assembly});
  CodeFacts facts = facts_of(code);
  for (size_t i = 0; i < std::min(lines.size(), facts.instructions.size()); ++i) {
    const Classes& all = facts.instructions[i].classes;
    EXPECT_EQ(class_names({.spill = all.spill, .reload = all.reload}), lines[i].is) << i << ": " << lines[i].assembly;
  }
  return facts;
}

// Integers, vectors and lanes; a reload may be the operand of an instruction.
TEST(JitInspectFrame, SpillAndReload) {
  HONE_NEEDS_INSPECT();
  constexpr FrameLine kCode[] = {
      {"48 89 44 24 f8", "mov [rsp - 8], rax", "spill"},
      {"62 f1 7c 48 11 4c 24 fe", "vmovups [rsp - 128], zmm1", "spill"},
      {"c5 fa 11 94 24 78 ff ff ff", "vmovss [rsp - 136], xmm2", "spill"},
      {"48 8b 44 24 f8", "mov rax, [rsp - 8]", "reload"},
      {"62 f1 74 48 58 4c 24 fe", "vaddps zmm1, zmm1, [rsp - 128]", "reload"},
      {"c5 ea 58 94 24 78 ff ff ff", "vaddss xmm2, xmm2, [rsp - 136]", "reload"},
      {"c3", "ret", ""},
  };
  const CodeFacts facts = expect_classes(kCode);
  EXPECT_EQ(facts.counts.spills, 3);
  EXPECT_EQ(facts.counts.reloads, 3);
  EXPECT_EQ(facts.counts.vector_spills, 2);
  EXPECT_EQ(facts.counts.vector_reloads, 2);
  EXPECT_EQ(facts.counts.stack, 7);
}

// Only what is loaded later counts: not the first store, nor the last.
TEST(JitInspectFrame, AnOverwrittenValueIsNoSpill) {
  HONE_NEEDS_INSPECT();
  constexpr FrameLine kCode[] = {
      {"48 89 44 24 f8", "mov [rsp - 8], rax", ""},
      {"48 89 4c 24 f8", "mov [rsp - 8], rcx", "spill"},
      {"48 8b 44 24 f8", "mov rax, [rsp - 8]", "reload"},
      {"48 89 54 24 f8", "mov [rsp - 8], rdx", ""},
      {"c3", "ret", ""},
  };
  expect_classes(kCode);
}

// A slot that is never loaded, one that was never stored, and an argument on the caller's side of the frame.
TEST(JitInspectFrame, StoredOrLoadedOnly) {
  HONE_NEEDS_INSPECT();
  constexpr FrameLine kCode[] = {
      {"48 89 44 24 f8", "mov [rsp - 8], rax", ""},
      {"48 8b 44 24 f0", "mov rax, [rsp - 16]", ""},
      {"48 8b 4c 24 08", "mov rcx, [rsp + 8]", ""},
      {"c3", "ret", ""},
  };
  expect_classes(kCode);
}

// The first store still gives the lower half.
TEST(JitInspectFrame, PartlyOverwritten) {
  HONE_NEEDS_INSPECT();
  constexpr FrameLine kCode[] = {
      {"62 f1 7c 48 11 44 24 ff", "vmovups [rsp - 64], zmm0", "spill"},
      {"c5 fc 11 4c 24 e0", "vmovups [rsp - 32], ymm1", "spill"},
      {"c5 fc 10 54 24 c0", "vmovups ymm2, [rsp - 64]", "reload"},
      {"62 f1 7c 48 10 5c 24 ff", "vmovups zmm3, [rsp - 64]", "reload"},
      {"c3", "ret", ""},
  };
  expect_classes(kCode);
}

// Two halves replace the whole: the first store is dead.
TEST(JitInspectFrame, WhollyOverwritten) {
  HONE_NEEDS_INSPECT();
  constexpr FrameLine kCode[] = {
      {"62 f1 7c 48 11 44 24 ff", "vmovups [rsp - 64], zmm0", ""},
      {"c5 fc 11 4c 24 c0", "vmovups [rsp - 64], ymm1", "spill"},
      {"c5 fc 11 54 24 e0", "vmovups [rsp - 32], ymm2", "spill"},
      {"62 f1 7c 48 10 5c 24 ff", "vmovups zmm3, [rsp - 64]", "reload"},
      {"c3", "ret", ""},
  };
  expect_classes(kCode);
}

// Half of what is loaded was never stored.
TEST(JitInspectFrame, HalfStored) {
  HONE_NEEDS_INSPECT();
  constexpr FrameLine kCode[] = {
      {"c5 fc 11 44 24 c0", "vmovups [rsp - 64], ymm0", "spill"},
      {"62 f1 7c 48 10 5c 24 ff", "vmovups zmm3, [rsp - 64]", ""},
      {"c3", "ret", ""},
  };
  expect_classes(kCode);
}

TEST(JitInspectFrame, AMaskedStoreReplacesNothingForSure) {
  HONE_NEEDS_INSPECT();
  constexpr FrameLine kCode[] = {
      {"62 f1 7c 48 11 44 24 ff", "vmovups [rsp - 64], zmm0", "spill"},
      {"62 f1 7c 49 11 4c 24 ff", "vmovups [rsp - 64]{k1}, zmm1", "spill"},
      {"62 f1 7c 48 10 5c 24 ff", "vmovups zmm3, [rsp - 64]", "reload"},
      {"c3", "ret", ""},
  };
  expect_classes(kCode);
}

TEST(JitInspectFrame, OneLaneOfASlot) {
  HONE_NEEDS_INSPECT();
  constexpr FrameLine kCode[] = {
      {"62 f1 7c 48 11 44 24 ff", "vmovups [rsp - 64], zmm0", "spill"},
      {"c5 fa 11 4c 24 c4", "vmovss [rsp - 60], xmm1", "spill"},
      {"62 f2 7d 48 18 54 24 f1", "vbroadcastss zmm2, [rsp - 60]", "reload"},
      {"62 f2 7d 48 18 54 24 f2", "vbroadcastss zmm2, [rsp - 56]", "reload"},
      {"c3", "ret", ""},
  };
  expect_classes(kCode);
}

TEST(JitInspectFrame, ThroughTheBackEdge) {
  HONE_NEEDS_INSPECT();
  constexpr FrameLine kCode[] = {
      {"48 89 44 24 f8", "mov [rsp - 8], rax", "spill"},
      {"48 8b 44 24 f8", "top: mov rax, [rsp - 8]", "reload"},
      {"48 83 c0 40", "add rax, 64", ""},
      {"48 89 44 24 f8", "mov [rsp - 8], rax", "spill"},
      {"48 ff c9", "dec rcx", ""},
      {"75 ed", "jne top", ""},
      {"c3", "ret", ""},
  };
  expect_classes(kCode);
}

TEST(JitInspectFrame, ACounterInTheFrame) {
  HONE_NEEDS_INSPECT();
  constexpr FrameLine kCode[] = {
      {"48 c7 44 24 f8 0a 00 00 00", "mov qword ptr [rsp - 8], 10", "spill"},
      {"48 ff 4c 24 f8", "top: dec qword ptr [rsp - 8]", "spill reload"},
      {"75 f9", "jne top", ""},
      {"c3", "ret", ""},
  };
  expect_classes(kCode);
}

TEST(JitInspectFrame, NotStoredBeforeTheFirstIteration) {
  HONE_NEEDS_INSPECT();
  constexpr FrameLine kCode[] = {
      {"48 8b 44 24 f8", "top: mov rax, [rsp - 8]", ""},
      {"48 89 44 24 f8", "mov [rsp - 8], rax", "spill"},
      {"48 ff c9", "dec rcx", ""},
      {"75 f1", "jne top", ""},
      {"c3", "ret", ""},
  };
  expect_classes(kCode);
}

TEST(JitInspectFrame, StoredOnOnePath) {
  HONE_NEEDS_INSPECT();
  constexpr FrameLine kCode[] = {
      {"48 85 c0", "test rax, rax", ""},
      {"74 05", "je over", ""},
      {"48 89 44 24 f8", "mov [rsp - 8], rax", "spill"},
      {"48 8b 44 24 f8", "over: mov rax, [rsp - 8]", ""},
      {"c3", "ret", ""},
  };
  expect_classes(kCode);
}

TEST(JitInspectFrame, StoredOnBothPaths) {
  HONE_NEEDS_INSPECT();
  constexpr FrameLine kCode[] = {
      {"48 85 c0", "test rax, rax", ""},
      {"74 07", "je other", ""},
      {"48 89 44 24 f8", "mov [rsp - 8], rax", "spill"},
      {"eb 05", "jmp over", ""},
      {"48 89 4c 24 f8", "other: mov [rsp - 8], rcx", "spill"},
      {"48 8b 44 24 f8", "over: mov rax, [rsp - 8]", "reload"},
      {"c3", "ret", ""},
  };
  expect_classes(kCode);
}

TEST(JitInspectFrame, StoredOnceInFrontOfALoop) {
  HONE_NEEDS_INSPECT();
  constexpr FrameLine kCode[] = {
      {"48 89 7c 24 f8", "mov [rsp - 8], rdi", "spill"},
      {"48 8b 44 24 f8", "outer: mov rax, [rsp - 8]", "reload"},
      {"62 f1 7c 48 10 00", "inner: vmovups zmm0, [rax]", ""},
      {"48 ff ca", "dec rdx", ""},
      {"75 f5", "jne inner", ""},
      {"48 ff c9", "dec rcx", ""},
      {"75 eb", "jne outer", ""},
      {"c3", "ret", ""},
  };
  const CodeFacts facts = expect_classes(kCode);
  ASSERT_EQ(facts.loops.size(), 2u);
  EXPECT_EQ(facts.loops[0].counts.spills, 0);
  EXPECT_EQ(facts.loops[0].counts.reloads, 1);
  EXPECT_EQ(facts.loops[1].counts.reloads, 0) << "the inner loop is free of them";
}

// Saved by push or mov, given back by pop or mov; rbx is also spilled for its own sake.
TEST(JitInspectFrame, RegistersOfTheCaller) {
  HONE_NEEDS_INSPECT();
  constexpr FrameLine kCode[] = {
      {"55", "push rbp", ""},
      {"48 89 e5", "mov rbp, rsp", ""},
      {"53", "push rbx", ""},
      {"4c 89 64 24 f8", "mov [rsp - 8], r12", ""},
      {"48 83 e4 c0", "and rsp, -64", ""},
      {"48 81 ec 80 00 00 00", "sub rsp, 128", ""},
      {"48 89 1c 24", "mov [rsp], rbx", ""},
      {"48 89 fb", "mov rbx, rdi", ""},
      {"48 89 5c 24 08", "mov [rsp + 8], rbx", "spill"},
      {"48 8b 5c 24 08", "mov rbx, [rsp + 8]", "reload"},
      {"48 8b 1c 24", "mov rbx, [rsp]", ""},
      {"4c 8b 65 f0", "mov r12, [rbp - 16]", ""},
      {"48 8d 65 f8", "lea rsp, [rbp - 8]", ""},
      {"5b", "pop rbx", ""},
      {"5d", "pop rbp", ""},
      {"c3", "ret", ""},
  };
  expect_classes(kCode);
}

// What lies above the aligned stack pointer and what lies at it are apart, whatever their offsets.
TEST(JitInspectFrame, RealignedFrame) {
  HONE_NEEDS_INSPECT();
  constexpr FrameLine kCode[] = {
      {"55", "push rbp", ""},
      {"48 89 e5", "mov rbp, rsp", ""},
      {"48 83 e4 c0", "and rsp, -64", ""},
      {"48 83 ec 40", "sub rsp, 64", ""},
      {"48 89 44 24 38", "mov [rsp + 56], rax", "spill"},
      {"48 89 4d f8", "mov [rbp - 8], rcx", "spill"},
      {"48 8b 44 24 38", "mov rax, [rsp + 56]", "reload"},
      {"48 8b 4d f8", "mov rcx, [rbp - 8]", "reload"},
      {"c9", "leave", ""},
      {"c3", "ret", ""},
  };
  expect_classes(kCode);
}

// As asmjit does without a frame pointer: an address of the frame is no spilled value, and it is followed.
TEST(JitInspectFrame, StackPointerKeptInTheFrame) {
  HONE_NEEDS_INSPECT();
  constexpr FrameLine kCode[] = {
      {"48 89 e0", "mov rax, rsp", ""},
      {"48 83 e4 c0", "and rsp, -64", ""},
      {"48 83 ec 40", "sub rsp, 64", ""},
      {"48 89 44 24 08", "mov [rsp + 8], rax", ""},
      {"48 89 3c 24", "mov [rsp], rdi", "spill"},
      {"48 8b 3c 24", "mov rdi, [rsp]", "reload"},
      {"48 8b 64 24 08", "mov rsp, [rsp + 8]", ""},
      {"48 89 7c 24 f8", "mov [rsp - 8], rdi", "spill"},
      {"48 8b 44 24 f8", "mov rax, [rsp - 8]", "reload"},
      {"c3", "ret", ""},
  };
  expect_classes(kCode);
}

// Arguments are not the caller's to get back, so pushing one is a spill. Offsets move with the stack pointer.
TEST(JitInspectFrame, PushAndPop) {
  HONE_NEEDS_INSPECT();
  constexpr FrameLine kCode[] = {
      {"57", "push rdi", "spill"}, {"48 8b 3c 24", "mov rdi, [rsp]", "reload"},
      {"53", "push rbx", ""},      {"48 8b 74 24 08", "mov rsi, [rsp + 8]", "reload"},
      {"5b", "pop rbx", ""},       {"5f", "pop rdi", "reload"},
      {"c3", "ret", ""},
  };
  expect_classes(kCode);
}

// An access with an index is of the frame, yet of no slot.
TEST(JitInspectFrame, AddressesOfTheFrameInRegisters) {
  HONE_NEEDS_INSPECT();
  constexpr FrameLine kCode[] = {
      {"48 8d 44 24 c0", "lea rax, [rsp - 64]", ""},
      {"48 89 c1", "mov rcx, rax", ""},
      {"48 83 c1 08", "add rcx, 8", ""},
      {"48 89 39", "mov [rcx], rdi", "spill"},
      {"48 89 34 f8", "mov [rax + 8*rdi], rsi", ""},
      {"48 8b 7c 24 c8", "mov rdi, [rsp - 56]", "reload"},
      {"48 8b 74 fc c0", "mov rsi, [rsp + 8*rdi - 64]", ""},
      {"48 8b 17", "mov rdx, [rdi]", ""},
      {"c3", "ret", ""},
  };
  const CodeFacts facts = expect_classes(kCode);
  EXPECT_EQ(facts.counts.stack, 5) << "four by addresses of the frame, and ret";
}

// On the two paths: what they address is not known.
TEST(JitInspectFrame, AddressesThatDiffer) {
  HONE_NEEDS_INSPECT();
  constexpr FrameLine kCode[] = {
      {"48 85 ff", "test rdi, rdi", ""},
      {"48 8d 44 24 c0", "lea rax, [rsp - 64]", ""},
      {"74 05", "je over", ""},
      {"48 8d 44 24 80", "lea rax, [rsp - 128]", ""},
      {"48 89 38", "over: mov [rax], rdi", ""},
      {"48 8b 7c 24 c0", "mov rdi, [rsp - 64]", ""},
      {"c3", "ret", ""},
  };
  expect_classes(kCode);
}

TEST(JitInspectFrame, CallsLeaveSomeRegisters) {
  HONE_NEEDS_INSPECT();
  constexpr FrameLine kCode[] = {
      {"48 8d 5c 24 c0", "lea rbx, [rsp - 64]", ""},
      {"48 8d 44 24 80", "lea rax, [rsp - 128]", ""},
      {"ff d2", "call rdx", ""},
      {"48 89 3b", "mov [rbx], rdi", "spill"},
      {"48 89 38", "mov [rax], rdi", ""},
      {"48 8b 7c 24 c0", "mov rdi, [rsp - 64]", "reload"},
      {"48 8b 7c 24 80", "mov rdi, [rsp - 128]", ""},
      {"c3", "ret", ""},
  };
  expect_classes(kCode);
}

// rbx is the caller's until it is written, in rcx too; a part of it is a value of ours.
TEST(JitInspectFrame, CopiesOfRegisters) {
  HONE_NEEDS_INSPECT();
  constexpr FrameLine kCode[] = {
      {"53", "push rbx", ""},
      {"48 89 5c 24 f8", "mov [rsp - 8], rbx", ""},
      {"48 89 d9", "mov rcx, rbx", ""},
      {"48 89 4c 24 f0", "mov [rsp - 16], rcx", ""},
      {"48 8b 5c 24 f0", "mov rbx, [rsp - 16]", ""},
      {"48 ff c1", "inc rcx", ""},
      {"48 89 4c 24 f0", "mov [rsp - 16], rcx", "spill"},
      {"48 8b 5c 24 f0", "mov rbx, [rsp - 16]", "reload"},
      {"89 db", "mov ebx, ebx", ""},
      {"48 89 5c 24 e8", "mov [rsp - 24], rbx", "spill"},
      {"48 8b 5c 24 e8", "mov rbx, [rsp - 24]", "reload"},
      {"5b", "pop rbx", ""},
      {"c3", "ret", ""},
  };
  expect_classes(kCode);
}

// What was saved is no longer what the caller wants back.
TEST(JitInspectFrame, SavedRegisterOverwrittenInPart) {
  HONE_NEEDS_INSPECT();
  constexpr FrameLine kCode[] = {
      {"48 89 5c 24 f8", "mov [rsp - 8], rbx", ""},
      {"c7 44 24 f8 01 00 00 00", "mov dword ptr [rsp - 8], 1", "spill"},
      {"48 8b 44 24 f8", "mov rax, [rsp - 8]", "reload"},
      {"48 89 44 24 f0", "mov [rsp - 16], rax", "spill"},
      {"48 8b 4c 24 f0", "mov rcx, [rsp - 16]", "reload"},
      {"c3", "ret", ""},
  };
  expect_classes(kCode);
}

// They count as integers.
TEST(JitInspectFrame, Masks) {
  HONE_NEEDS_INSPECT();
  constexpr FrameLine kCode[] = {
      {"c5 f8 91 4c 24 f8", "kmovw [rsp - 8], k1", "spill"},
      {"62 f1 7c c9 10 44 24 fe", "vmovups zmm0{k1}{z}, [rsp - 128]", ""},
      {"c5 f8 90 4c 24 f8", "kmovw k1, [rsp - 8]", "reload"},
      {"c3", "ret", ""},
  };
  const CodeFacts facts = expect_classes(kCode);
  EXPECT_EQ(facts.counts.vector_spills, 0);
  EXPECT_EQ(facts.counts.vector_reloads, 0);
}

TEST(JitInspectFrame, CodeThatIsNotReached) {
  HONE_NEEDS_INSPECT();
  constexpr FrameLine kCode[] = {
      {"48 89 44 24 f8", "mov [rsp - 8], rax", ""},
      {"c3", "ret", ""},
      {"48 8b 44 24 f8", "mov rax, [rsp - 8]", ""},
      {"c3", "ret", ""},
  };
  expect_classes(kCode);
}

}  // namespace
}  // namespace hone::jit
