// Classes of x86-64 instructions, each from its bytes alone. The assembly is for the reader.
#include <gmock/gmock.h>

#include "jit/inspect/facts.h"
#include "tests/jit/inspect/bytes.h"

namespace hone::jit {
namespace {

struct Row {
  std::string_view bytes, assembly, classes;
};

// clang-format off
constexpr Row kRows[] = {
    // arithmetic on vectors and on one lane
    {"62 f1 6c 48 58 cb", "vaddps zmm1, zmm2, zmm3", "vector"},
    {"62 f1 6c c9 58 cb", "vaddps zmm1 {k1} {z}, zmm2, zmm3", "vector"},
    {"c5 e8 58 cb", "vaddps xmm1, xmm2, xmm3", "vector"},
    {"0f 58 ca", "addps xmm1, xmm2", "vector"},
    {"c5 ea 58 cb", "vaddss xmm1, xmm2, xmm3", ""},
    {"62 a1 ef 00 58 cb", "vaddsd xmm17, xmm18, xmm19", ""},
    {"f3 0f 58 ca", "addss xmm1, xmm2", ""},
    {"f2 0f 59 0e", "mulsd xmm1, qword ptr [rsi]", "load"},
    {"c5 eb 5d cb", "vminsd xmm1, xmm2, xmm3", ""},
    {"c4 e2 6d 39 cb", "vpminsd ymm1, ymm2, ymm3", "vector"},
    {"c5 ef d0 cb", "vaddsubps ymm1, ymm2, ymm3", "vector"},
    {"62 f1 7e 48 16 ca", "vmovshdup zmm1, zmm2", "vector"},
    {"c5 ea 51 0e", "vsqrtss xmm1, xmm2, dword ptr [rsi]", "load"},
    {"62 f3 6d 08 0a cb 00", "vrndscaless xmm1, xmm2, xmm3, 0", ""},
    {"62 f3 7d 48 08 ca 00", "vrndscaleps zmm1, zmm2, 0", "vector"},
    {"62 f2 6d 08 43 cb", "vgetexpss xmm1, xmm2, xmm3", ""},
    {"c5 ed 6b cb", "vpackssdw ymm1, ymm2, ymm3", "vector"},
    {"62 f2 6d 48 52 cb", "vpdpwssd zmm1, zmm2, zmm3", "vector"},
    {"c4 e1 ea 2a c8", "vcvtsi2ss xmm1, xmm2, rax", ""},
    {"c4 e1 fa 2c c1", "vcvttss2si rax, xmm1", ""},
    {"62 f1 7d 48 5b ca", "vcvtps2dq zmm1, zmm2", "vector"},
    {"62 f1 7c 48 5b ca", "vcvtdq2ps zmm1, zmm2", "vector"},
    {"c5 f8 2e ca", "vucomiss xmm1, xmm2", ""},
    {"62 f1 76 08 c2 ca 01", "vcmpss k1, xmm1, xmm2, 1", ""},
    {"62 f1 74 48 c2 ca 01", "vcmpps k1, zmm1, zmm2, 1", "vector"},
    {"c5 fc 50 c1", "vmovmskps eax, ymm1", "vector"},
    {"c4 e2 7d 17 ca", "vptest ymm1, ymm2", "vector"},
    {"c5 f0 57 c9", "vxorps xmm1, xmm1, xmm1", "vector"},
    {"62 f1 75 48 ef c9", "vpxord zmm1, zmm1, zmm1", "vector"},
    // fused multiply-adds
    {"62 f2 6d 48 b8 cb", "vfmadd231ps zmm1, zmm2, zmm3", "vector fma"},
    {"62 f2 6d 48 b8 0e", "vfmadd231ps zmm1, zmm2, zmmword ptr [rsi]", "vector fma load"},
    {"62 f2 6d 58 b8 0e", "vfmadd231ps zmm1, zmm2, dword ptr [rsi]{1to16}", "vector fma load"},
    {"62 f2 6d 49 b8 cb", "vfmadd231ps zmm1 {k1}, zmm2, zmm3", "vector fma"},
    {"c4 e2 ed a8 cb", "vfmadd213pd ymm1, ymm2, ymm3", "vector fma"},
    {"c4 e2 69 9c cb", "vfnmadd132ps xmm1, xmm2, xmm3", "vector fma"},
    {"c4 e2 6d b6 cb", "vfmaddsub231ps ymm1, ymm2, ymm3", "vector fma"},
    {"c4 e2 69 b9 cb", "vfmadd231ss xmm1, xmm2, xmm3", ""},
    {"c4 e2 69 b9 0e", "vfmadd231ss xmm1, xmm2, dword ptr [rsi]", "load"},
    {"62 a2 ed 00 b9 cb", "vfmadd231sd xmm17, xmm18, xmm19", ""},
    // moves of vectors and of one lane
    {"62 f1 7c 48 10 0e", "vmovups zmm1, zmmword ptr [rsi]", "vector load"},
    {"62 f1 7c 48 11 0e", "vmovups zmmword ptr [rsi], zmm1", "vector store"},
    {"c5 fc 28 ca", "vmovaps ymm1, ymm2", "vector"},
    {"0f 10 0e", "movups xmm1, xmmword ptr [rsi]", "vector load"},
    {"62 f1 7c 48 2b 0e", "vmovntps zmmword ptr [rsi], zmm1", "vector store"},
    {"c5 fa 10 0e", "vmovss xmm1, dword ptr [rsi]", "load"},
    {"c5 fa 11 0e", "vmovss dword ptr [rsi], xmm1", "store"},
    {"c5 ea 10 cb", "vmovss xmm1, xmm2, xmm3", ""},
    {"62 f1 7e 89 10 0e", "vmovss xmm1 {k1} {z}, dword ptr [rsi]", "load"},
    {"c5 fb 10 0e", "vmovsd xmm1, qword ptr [rsi]", "load"},
    {"f3 0f 10 0e", "movss xmm1, dword ptr [rsi]", "load"},
    {"c5 f9 6e c8", "vmovd xmm1, eax", ""},
    {"c5 f9 7e 0e", "vmovd dword ptr [rsi], xmm1", "store"},
    {"c5 fa 7e 0e", "vmovq xmm1, qword ptr [rsi]", "load"},
    {"62 e1 fd 08 7e c8", "vmovq rax, xmm17", ""},
    {"c4 e3 69 22 c8 01", "vpinsrd xmm1, xmm2, eax, 1", ""},
    {"c4 e3 69 22 0e 01", "vpinsrd xmm1, xmm2, dword ptr [rsi], 1", "load"},
    {"c4 e3 69 21 cb 10", "vinsertps xmm1, xmm2, xmm3, 16", ""},
    {"c4 e3 79 16 0e 01", "vpextrd dword ptr [rsi], xmm1, 1", "store"},
    {"c4 e3 79 17 c8 01", "vextractps eax, xmm1, 1", ""},
    {"c5 e8 12 0e", "vmovlps xmm1, xmm2, qword ptr [rsi]", "vector load"},
    {"62 f2 7d 48 18 0e", "vbroadcastss zmm1, dword ptr [rsi]", "vector load"},
    {"62 f2 7d 48 18 ca", "vbroadcastss zmm1, xmm2", "vector"},
    {"62 f2 7d 48 7c c8", "vpbroadcastd zmm1, eax", "vector"},
    {"c5 fb 12 0e", "vmovddup xmm1, qword ptr [rsi]", "vector load"},
    {"62 f2 7d 48 31 0e", "vpmovzxbd zmm1, xmmword ptr [rsi]", "vector load"},
    {"62 f2 7e 48 31 0e", "vpmovdb xmmword ptr [rsi], zmm1", "vector store"},
    {"c4 e3 7d 19 0e 01", "vextractf128 xmmword ptr [rsi], ymm1, 1", "vector store"},
    {"62 f3 6d 48 18 0e 01", "vinsertf32x4 zmm1, zmm2, xmmword ptr [rsi], 1", "vector load"},
    {"62 f3 7d 48 1d 0e 00", "vcvtps2ph ymmword ptr [rsi], zmm1, 0", "vector store"},
    {"62 f2 6d 48 16 0e", "vpermps zmm1, zmm2, zmmword ptr [rsi]", "vector load"},
    // masks
    {"62 f1 7c c9 10 0e", "vmovups zmm1 {k1} {z}, zmmword ptr [rsi]", "vector load"},
    {"62 f1 7c 49 11 0e", "vmovups zmmword ptr [rsi] {k1}, zmm1", "vector store"},
    {"c4 e2 6d 2c 0e", "vmaskmovps ymm1, ymm2, ymmword ptr [rsi]", "vector load"},
    {"c4 e2 75 2e 16", "vmaskmovps ymmword ptr [rsi], ymm1, ymm2", "vector store"},
    {"c4 e2 75 8e 16", "vpmaskmovd ymmword ptr [rsi], ymm1, ymm2", "vector store"},
    {"62 f2 7d 49 8a 0e", "vcompressps zmmword ptr [rsi] {k1}, zmm1", "vector store"},
    {"62 f2 7d 49 92 0c 96", "vgatherdps zmm1 {k1}, zmmword ptr [rsi + 4*zmm2]", "vector load"},
    {"c4 e2 65 92 0c 96", "vgatherdps ymm1, ymmword ptr [rsi + 4*ymm2], ymm3", "vector load"},
    {"62 f2 7d 49 a2 0c 96", "vscatterdps zmmword ptr [rsi + 4*zmm2] {k1}, zmm1", "vector store"},
    {"c5 f8 92 c8", "kmovw k1, eax", ""},
    {"c5 f8 90 0e", "kmovw k1, word ptr [rsi]", "load"},
    {"c4 e1 f8 91 0e", "kmovq qword ptr [rsi], k1", "store"},
    {"c5 ec 41 cb", "kandw k1, k2, k3", ""},
    {"c5 f8 98 ca", "kortestw k1, k2", ""},
    // integers
    {"48 89 c8", "mov rax, rcx", "address"},
    {"b8 05 00 00 00", "mov eax, 5", "address"},
    {"48 b8 ef cd ab 89 67 45 23 01", "movabs rax, 81985529216486895", "address"},
    {"48 8b 06", "mov rax, qword ptr [rsi]", "load"},
    {"0f b6 06", "movzx eax, byte ptr [rsi]", "load"},
    {"48 63 06", "movsxd rax, dword ptr [rsi]", "load"},
    {"48 89 06", "mov qword ptr [rsi], rax", "store"},
    {"48 c7 06 05 00 00 00", "mov qword ptr [rsi], 5", "store"},
    {"48 8d 44 ce 40", "lea rax, [rsi + 8*rcx + 64]", "address"},
    {"48 8d 05 40 00 00 00", "lea rax, [rip + 64]", "address"},
    {"48 83 c0 40", "add rax, 64", "address"},
    {"48 03 06", "add rax, qword ptr [rsi]", "load address"},
    {"48 01 06", "add qword ptr [rsi], rax", "load store address"},
    {"48 ff 06", "inc qword ptr [rsi]", "load store address"},
    {"48 f7 16", "not qword ptr [rsi]", "load store address"},
    {"48 29 d1", "sub rcx, rdx", "address"},
    {"48 ff c9", "dec rcx", "address"},
    {"48 0f af c1", "imul rax, rcx", "address"},
    {"48 6b 06 03", "imul rax, qword ptr [rsi], 3", "load address"},
    {"c4 e2 f3 f6 06", "mulx rax, rcx, qword ptr [rsi]", "load address"},
    {"c4 e2 f1 f7 06", "shlx rax, qword ptr [rsi], rcx", "load address"},
    {"48 39 d1", "cmp rcx, rdx", "address"},
    {"48 3b 0e", "cmp rcx, qword ptr [rsi]", "load address"},
    {"48 39 0e", "cmp qword ptr [rsi], rcx", "load address"},
    {"48 85 c9", "test rcx, rcx", "address"},
    {"31 c0", "xor eax, eax", "address"},
    {"48 0f 4c c1", "cmovl rax, rcx", "address"},
    {"48 0f 4c 06", "cmovl rax, qword ptr [rsi]", "load address"},
    {"0f 9c c0", "setl al", "address"},
    {"0f 9c 06", "setl byte ptr [rsi]", "store"},
    {"48 87 06", "xchg qword ptr [rsi], rax", "load store address"},
    {"48 0f c1 06", "xadd qword ptr [rsi], rax", "load store address"},
    {"48 99", "cqo", "address"},
    {"f3 48 a5", "rep movsq qword ptr es:[rdi], qword ptr [rsi]", "load store"},
    {"f3 aa", "rep stosb byte ptr es:[rdi], al", "store"},
    // control flow
    {"eb 3e", "jmp 64", "branch"},
    {"75 3e", "jne 64", "branch"},
    {"ff e0", "jmp rax", "branch"},
    {"ff 24 c6", "jmp qword ptr [rsi + 8*rax]", "load branch"},
    {"e8 3b 00 00 00", "call 64", "store branch stack"},
    {"ff d0", "call rax", "store branch stack"},
    {"c3", "ret", "load branch stack"},
    // the frame
    {"53", "push rbx", "store stack"},
    {"6a 05", "push 5", "store stack"},
    {"ff 36", "push qword ptr [rsi]", "load store stack"},
    {"5b", "pop rbx", "load stack"},
    {"c9", "leave", "load stack"},
    {"48 8b 44 24 08", "mov rax, qword ptr [rsp + 8]", "load stack"},
    {"48 89 44 24 08", "mov qword ptr [rsp + 8], rax", "store stack"},
    {"62 f1 7c 48 10 4c 24 01", "vmovups zmm1, zmmword ptr [rsp + 64]", "vector load stack"},
    {"62 f1 6c 58 58 0c 24", "vaddps zmm1, zmm2, dword ptr [rsp]{1to16}", "vector load stack"},
    {"c5 fa 10 0c 04", "vmovss xmm1, dword ptr [rsp + rax]", "load stack"},
    {"48 8d 44 24 40", "lea rax, [rsp + 64]", "address"},
    {"48 83 ec 40", "sub rsp, 64", "address"},
    {"48 8b 45 08", "mov rax, qword ptr [rbp + 8]", "load"},
    // nothing of all that
    {"90", "nop", ""},
    {"66 90", "xchg ax, ax", ""},
    {"66 0f 1f 04 00", "nop word ptr [rax + rax]", ""},
    {"2e 66 0f 1f 04 00", "nop word ptr cs:[rax + rax]", ""},
    {"f3 0f 1e fa", "endbr64", ""},
    {"0f 18 0e", "prefetcht0 byte ptr [rsi]", ""},
    {"0f 18 44 24 40", "prefetchnta byte ptr [rsp + 64]", ""},
    {"0f 0d 0e", "prefetchw byte ptr [rsi]", ""},
    {"c5 f8 77", "vzeroupper", ""},
    {"0f ae e8", "lfence", ""},
    {"0f ae f0", "mfence", ""},
    {"0f ae 16", "ldmxcsr dword ptr [rsi]", "load"},
    {"0f ae 1e", "stmxcsr dword ptr [rsi]", "store"},
    {"0f 0b", "ud2", ""},
    {"0f 31", "rdtsc", "address"},
};
// clang-format on

TEST(JitInspectX86, ClassesFollowFromOperands) {
  for (const Row& row : kRows) {
    const std::vector<std::byte> code = from_hex({row.bytes});
    const Result<CodeFacts> facts = inspect(code, Isa::kAvx512);
    if (facts.status().code() == Code::kUnsupported) GTEST_SKIP() << facts.status().to_string();
    ASSERT_TRUE(facts.ok()) << facts.status().to_string();
    ASSERT_EQ(facts->instructions.size(), 1u) << row.assembly;
    const Instruction& i = facts->instructions.front();
    EXPECT_EQ(class_names(i.classes), row.classes) << row.assembly;
    EXPECT_EQ(i.size, static_cast<int>(code.size())) << row.assembly;
  }
}

}  // namespace
}  // namespace hone::jit
