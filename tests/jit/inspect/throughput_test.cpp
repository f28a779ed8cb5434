// Static throughput: against what the machine models say when read by hand, and against the llvm-mca tool.
#include <gmock/gmock.h>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "jit/codegen.h"
#include "jit/inspect/facts.h"
#include "tests/jit/inspect/bytes.h"
#include "tests/jit/sample_kernels.h"

namespace hone::jit {
namespace {

using testing::DoubleNear;
using testing::HasSubstr;

constexpr Line kChain[] = {
    {"62 f2 75 48 b8 c2", "vfmadd231ps zmm0, zmm1, zmm2"},
};
constexpr Line kTen[] = {
    {"62 92 0d 40 b8 c7", "vfmadd231ps zmm0, zmm30, zmm31"}, {"62 92 0d 40 b8 cf", "vfmadd231ps zmm1, zmm30, zmm31"},
    {"62 92 0d 40 b8 d7", "vfmadd231ps zmm2, zmm30, zmm31"}, {"62 92 0d 40 b8 df", "vfmadd231ps zmm3, zmm30, zmm31"},
    {"62 92 0d 40 b8 e7", "vfmadd231ps zmm4, zmm30, zmm31"}, {"62 92 0d 40 b8 ef", "vfmadd231ps zmm5, zmm30, zmm31"},
    {"62 92 0d 40 b8 f7", "vfmadd231ps zmm6, zmm30, zmm31"}, {"62 92 0d 40 b8 ff", "vfmadd231ps zmm7, zmm30, zmm31"},
    {"62 12 0d 40 b8 c7", "vfmadd231ps zmm8, zmm30, zmm31"}, {"62 12 0d 40 b8 cf", "vfmadd231ps zmm9, zmm30, zmm31"},
};
constexpr Line kTenYmm[] = {
    {"c4 c2 0d b8 c7", "vfmadd231ps ymm0, ymm14, ymm15"}, {"c4 c2 0d b8 cf", "vfmadd231ps ymm1, ymm14, ymm15"},
    {"c4 c2 0d b8 d7", "vfmadd231ps ymm2, ymm14, ymm15"}, {"c4 c2 0d b8 df", "vfmadd231ps ymm3, ymm14, ymm15"},
    {"c4 c2 0d b8 e7", "vfmadd231ps ymm4, ymm14, ymm15"}, {"c4 c2 0d b8 ef", "vfmadd231ps ymm5, ymm14, ymm15"},
    {"c4 c2 0d b8 f7", "vfmadd231ps ymm6, ymm14, ymm15"}, {"c4 c2 0d b8 ff", "vfmadd231ps ymm7, ymm14, ymm15"},
    {"c4 42 0d b8 c7", "vfmadd231ps ymm8, ymm14, ymm15"}, {"c4 42 0d b8 cf", "vfmadd231ps ymm9, ymm14, ymm15"},
};
constexpr Line kTenDots[] = {
    {"62 92 0e 40 52 c7", "vdpbf16ps zmm0, zmm30, zmm31"}, {"62 92 0e 40 52 cf", "vdpbf16ps zmm1, zmm30, zmm31"},
    {"62 92 0e 40 52 d7", "vdpbf16ps zmm2, zmm30, zmm31"}, {"62 92 0e 40 52 df", "vdpbf16ps zmm3, zmm30, zmm31"},
    {"62 92 0e 40 52 e7", "vdpbf16ps zmm4, zmm30, zmm31"}, {"62 92 0e 40 52 ef", "vdpbf16ps zmm5, zmm30, zmm31"},
    {"62 92 0e 40 52 f7", "vdpbf16ps zmm6, zmm30, zmm31"}, {"62 92 0e 40 52 ff", "vdpbf16ps zmm7, zmm30, zmm31"},
    {"62 12 0e 40 52 c7", "vdpbf16ps zmm8, zmm30, zmm31"}, {"62 12 0e 40 52 cf", "vdpbf16ps zmm9, zmm30, zmm31"},
};
constexpr Line kLoads[] = {
    {"c5 fc 10 06", "vmovups ymm0, [rsi]"},
    {"c5 fc 10 4e 20", "vmovups ymm1, [rsi+32]"},
    {"c5 fc 10 56 40", "vmovups ymm2, [rsi+64]"},
    {"c5 fc 10 5e 60", "vmovups ymm3, [rsi+96]"},
};
constexpr Line kChase[] = {
    {"48 8b 00", "mov rax, [rax]"},
};
constexpr Line kDivision[] = {
    {"c5 f4 5e c2", "vdivps ymm0, ymm1, ymm2"},
};
constexpr Line kNops[] = {{"90 90 90 90 90 90 90 90 90 90 90 90", "twelve times nop"}};

StaticThroughput throughput(std::span<const Line> lines, const std::string& cpu, Isa isa = Isa::kAvx2) {
  const Result<StaticThroughput> result = static_throughput(bytes_of(lines), isa, cpu);
  EXPECT_TRUE(result.ok()) << result.status().to_string();
  return result.ok() ? *result : StaticThroughput{};
}

void expect(const StaticThroughput& t, double bound, double cycles, const std::string& bottleneck) {
  EXPECT_DOUBLE_EQ(t.block_rthroughput, bound);
  EXPECT_THAT(t.cycles, DoubleNear(cycles, 0.01));
  EXPECT_EQ(t.bottleneck, bottleneck);
}

TEST(JitInspectThroughput, LatencyOfAChain) {
  HONE_NEEDS_INSPECT();
  const StaticThroughput t = throughput(kChain, "znver4", Isa::kAvx512);
  expect(t, 1, 4, "register dependency");  // a result every 4 cycles, though one could start in each
  EXPECT_EQ(t.cpu, "znver4");
  EXPECT_EQ(t.uops, 1);
  EXPECT_THAT(t.ipc, DoubleNear(0.25, 0.001));
  expect(throughput(kChase, "skylake"), 0.5, 5, "register dependency");  // a hit in L1
}

TEST(JitInspectThroughput, PortsOfIndependentInstructions) {
  HONE_NEEDS_INSPECT();
  // 512 bits take both pipes of Zen 4, and port 5 besides the fused 0 and 1 of Skylake.
  expect(throughput(kTen, "znver4", Isa::kAvx512), 10, 10, "resource Zn4FP0/Zn4FP1");
  expect(throughput(kTen, "skylake-avx512", Isa::kAvx512), 5, 5, "resource SKXPort0/SKXPort5");
  expect(throughput(kTenYmm, "znver4"), 5, 5, "resource Zn4FP0/Zn4FP1");
  // One vector of dot products in a cycle is what Zen 4 does; versions of LLVM say one in 1 to 3 cycles.
  const StaticThroughput dots = throughput(kTenDots, "znver4", Isa::kAvx512);
  EXPECT_GE(dots.block_rthroughput, 10);
  EXPECT_GE(dots.cycles, 10);
  expect(throughput(kDivision, "skylake"), 5, 5, "resource SKLFPDivider");
  const StaticThroughput loads = throughput(kLoads, "skylake");
  expect(loads, 2, 2, "resource SKLPort2/SKLPort3");
  EXPECT_THAT(loads.pressure, testing::ElementsAre(testing::Pair("SKLPort2", DoubleNear(2, 0.01)),
                                                   testing::Pair("SKLPort3", DoubleNear(2, 0.01))));
}

TEST(JitInspectThroughput, DispatchWidth) {
  HONE_NEEDS_INSPECT();
  expect(throughput(kNops, "skylake"), 2, 2, "dispatch width");  // six in a cycle
}

TEST(JitInspectThroughput, WhatIsRefused) {
  HONE_NEEDS_INSPECT();
  const auto refused = [](std::span<const Line> lines, const std::string& cpu, Isa isa) {
    const Result<StaticThroughput> result = static_throughput(bytes_of(lines), isa, cpu);
    EXPECT_EQ(result.status().code(), Code::kInvalidArgument) << cpu;
    return result.status().message();
  };
  EXPECT_THAT(refused(kChain, "znver", Isa::kAvx512), AllOf(HasSubstr("'znver'"), HasSubstr("znver4")));
  EXPECT_THAT(refused(kChain, "help", Isa::kAvx512), HasSubstr("'help'"));
  EXPECT_THAT(refused(kChain, "0", Isa::kAvx512), HasSubstr("clang -mcpu"));
  EXPECT_THAT(refused(kChain, "", host_arch() == Arch::kX86_64 ? Isa::kNeon : Isa::kAvx2), HasSubstr("name a CPU"));
  EXPECT_THAT(refused(kTenYmm, "i386", Isa::kAvx2), HasSubstr("no scheduling model of 'i386'"));
  EXPECT_THAT(refused(kChain, "haswell", Isa::kAvx512), HasSubstr("'haswell' lacks avx512f"));
  constexpr Line kDot[] = {{"62 f2 6e 48 52 cb", "vdpbf16ps zmm1, zmm2, zmm3"}};
  EXPECT_THAT(refused(kDot, "skylake-avx512", Isa::kAvx512), HasSubstr("'skylake-avx512' lacks avx512bf16"));
  EXPECT_THAT(refused({}, "znver4", Isa::kAvx512), HasSubstr("empty"));
  constexpr Line kNoCode[] = {{"90", "nop"}, {"06", "nothing"}};
  EXPECT_THAT(refused(kNoCode, "znver4", Isa::kAvx512), HasSubstr("byte 1 of the loop"));
}

TEST(JitInspectThroughput, CallsAreNotModelled) {
  HONE_NEEDS_INSPECT();
  constexpr Line kCode[] = {{"90", "nop"}, {"ff d0", "call rax"}};
  const Result<StaticThroughput> result = static_throughput(bytes_of(kCode), Isa::kAvx2, "skylake");
  EXPECT_EQ(result.status().code(), Code::kUnsupported);
  EXPECT_THAT(result.status().message(), HasSubstr("byte 1"));
}

TEST(JitInspectThroughput, ThisCpuByDefault) {
  HONE_NEEDS_INSPECT();
  EXPECT_NE(host_cpu(), "");
  const Result<StaticThroughput> here = static_throughput(bytes_of(kChase), Isa::kAvx2);
  if (here.ok()) {
    EXPECT_EQ(here->cpu, host_cpu());
  } else {  // a CPU without AVX2, of another architecture, or one that LLVM has no model of
    EXPECT_EQ(here.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(here.status().message(), AnyOf(HasSubstr(host_cpu()), HasSubstr("name a CPU")));
  }
}

#ifdef HONE_LLVM_MCA
// A loop as the tool reads it; a jump goes to its start.
std::string assembly_of(const CodeFacts& facts, int loop) {
  std::string text;
  for (const Instruction& i : facts.instructions)
    if (i.loop == loop) text += (i.target < 0 ? i.text : i.text.substr(0, i.text.rfind(' ')) + " top") + "\n";
  return text;
}

nlohmann::json run_tool(const std::string& file, Isa isa, const std::string& cpu, int iterations) {
  const bool x86 = isa_info(isa).arch == Arch::kX86_64;
  const std::string command = std::string(HONE_LLVM_MCA) + " -mtriple=" + (x86 ? "x86_64" : "aarch64") +
                              "-unknown-linux-gnu -mcpu=" + cpu + " -iterations=" + std::to_string(iterations) +
                              " -json " + file;
  std::string out;
  if (FILE* pipe = popen(command.c_str(), "r"); pipe != nullptr) {
    char buffer[4096];
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, n);
    EXPECT_EQ(pclose(pipe), 0) << command;
  }
  const nlohmann::json all = nlohmann::json::parse(out, nullptr, false);
  EXPECT_FALSE(all.is_discarded()) << command << "\n" << out.substr(0, 400);
  return all.is_discarded() ? nlohmann::json() : all["CodeRegions"][0]["SummaryView"];
}

// The bound agrees exactly; cycles agree with those that the tool needs for more iterations.
void expect_as_the_tool(std::span<const std::byte> code, Isa isa, const std::vector<std::string>& cpus) {
  const Result<CodeFacts> facts = inspect(code, isa);
  ASSERT_TRUE(facts.ok()) << facts.status().to_string();
  ASSERT_GE(facts->hottest, 0);
  const std::string file = testing::TempDir() + "/hone_mca_" + std::to_string(getpid()) + ".s";
  std::ofstream(file) << (isa == Isa::kNeon ? "" : ".intel_syntax noprefix\n") << "top:\n"
                      << assembly_of(*facts, facts->hottest);
  for (const std::string& cpu : cpus) {
    SCOPED_TRACE(cpu);
    const Result<StaticThroughput> ours = static_throughput(loop_code(code, *facts, facts->hottest), isa, cpu);
    ASSERT_TRUE(ours.ok()) << ours.status().to_string();
    const nlohmann::json half = run_tool(file, isa, cpu, 200), all = run_tool(file, isa, cpu, 400);
    EXPECT_DOUBLE_EQ(ours->block_rthroughput, all["BlockRThroughput"].get<double>());
    EXPECT_EQ(ours->uops * 400, all["TotaluOps"].get<double>());
    const double cycles = (all["TotalCycles"].get<double>() - half["TotalCycles"].get<double>()) / 200;
    EXPECT_NEAR(ours->cycles, cycles, 0.02 * cycles);
  }
  std::remove(file.c_str());
}

TEST(JitInspectThroughput, AgreesWithTheTool) {
  HONE_NEEDS_INSPECT();
  if (std::ifstream tool(HONE_LLVM_MCA); !tool) GTEST_SKIP() << "there is no " << HONE_LLVM_MCA;
  const std::map<Isa, std::vector<std::string>> cpus = {{Isa::kAvx512, {"sapphirerapids", "znver4", "skylake-avx512"}},
                                                        {Isa::kAvx2, {"skylake", "znver2", "alderlake"}},
                                                        {Isa::kNeon, {"neoverse-n1", "neoverse-v2", "cortex-a55"}}};
  for (CodeGenerator* generator : compiling_generators()) {
    for (const auto& [isa, names] : cpus) {
      if (!generator->emits(isa)) continue;
      SCOPED_TRACE(std::string(generator->name()) + " " + std::string(isa_info(isa).name));
      const int lanes = isa_info(isa).lanes_f32();
      const auto compiled =
          generator->compile(tile_kernel({.mr = 6, .nr = 2 * lanes, .k = 64, .lanes = lanes, .unroll = 2}), isa);
      ASSERT_TRUE(compiled.ok()) << compiled.status().to_string();
      expect_as_the_tool((*compiled)->code(), isa, names);
    }
  }
}
#endif

}  // namespace
}  // namespace hone::jit
