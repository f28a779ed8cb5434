// Every code generator against the interpreter, bit for bit: the oracle decides, not another optimised version.
#include "jit/codegen.h"

#include <gmock/gmock.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "engine/base/machine.h"
#include "kernels/ir/builder.h"
#include "kernels/ir/interpret.h"
#include "kernels/ir/text.h"
#include "tests/jit/sample_kernels.h"

namespace hone::jit {
namespace {

using testing::HasSubstr;
using testing::Not;

template <typename Run>
void with_denormals_as_zero(bool on, Run run) {
#if defined(__x86_64__)
  const unsigned before = _mm_getcsr();
  if (on) _mm_setcsr(before | 0x8040);
  run();
  _mm_setcsr(before);
#else
  run();
#endif
}

class JitDifferential : public testing::TestWithParam<Target> {
 protected:
  void SetUp() override {
    if (!GetParam().generator->targets(GetParam().isa))
      GTEST_SKIP() << "this CPU does not run " << isa_info(GetParam().isa).name;
  }
  int max_lanes() const { return isa_info(GetParam().isa).lanes_f32(); }
};

TEST_P(JitDifferential, SampleKernels) {
  for (int lanes : {1, 4, 8, 16}) {
    if (lanes > max_lanes()) continue;
    for (const KernelCase& test : sample_kernels(lanes)) {
      SCOPED_TRACE(std::to_string(lanes) + " lanes");
      expect_like_interpreter(test, GetParam(), 20);
      expect_like_interpreter(test, GetParam(), 21);
    }
  }
}

TEST_P(JitDifferential, RandomKernels) {
  const char* more = std::getenv("HONE_TEST_RANDOM_KERNELS");  // for a long run by hand
  const auto count = static_cast<uint32_t>(more != nullptr ? std::atoi(more) : 1000);
  for (uint32_t seed = 1; seed <= count; ++seed) {
    expect_like_interpreter(random_case(seed, max_lanes()), GetParam(), seed);
    if (HasFailure()) break;
  }
}

// Pairs of bf16: special values and random bits, on whole kernels of them and mixed with everything else.
TEST_P(JitDifferential, PairsOfBf16) {
  if (!has_pairs(GetParam().isa)) GTEST_SKIP() << "this CPU does not run AVX512_BF16 by " << GetParam().name();
  for (const int lanes : {4, 8, 16})
    for (const KernelCase& test : pair_kernels(lanes))
      for (uint32_t seed = 1; seed <= 6; ++seed)
        for (const bool daz : {false, true})
          with_denormals_as_zero(daz, [&] { expect_like_interpreter(test, GetParam(), seed); });
  for (uint32_t seed = 1; seed <= 300 && !HasFailure(); ++seed)
    expect_like_interpreter(random_case(seed, max_lanes(), true), GetParam(), seed);
}

// More values than registers live through code that is no instruction (a move to itself) and through branches, so that
// some wait in memory meanwhile. Found by `hone fuzz`: the value was loaded back before it had been stored.
TEST_P(JitDifferential, ValuesOutliveCodeThatEmitsNothing) {
  using ir::Affine;
  ir::Builder b("idle");
  const auto q = b.param("q");
  const int64_t many = isa_info(GetParam().isa).vector_registers - 1;
  const auto result = b.buffer({.name = "result", .scope = ir::Scope::kOut, .extents = {many}, .strides = {1}});
  const auto f = b.reg("f", {.lanes = 1}, {many});
  const auto g = b.at(b.reg("g", {.lanes = 1})), h = b.at(b.reg("h", {.lanes = 1}));
  const Affine c = b.let_min("c", {Affine::var(q) + 2, 3});
  for (int64_t i = 0; i < many; ++i) b.constant(b.at(f, {i}), static_cast<float>(i) + 0.5f);
  b.constant(g, 1);
  b.constant(h, 2);
  b.serial("i", 0, 2, 1, [&](const Affine&) { b.constant(b.at(f, {0}), 0.5f); });
  b.unary(ir::UnaryOp::kMove, g, g);
  b.specialise("v", 2, 7, c, [&](const Affine&) { b.unary(ir::UnaryOp::kMove, h, h); });
  for (int64_t i = 0; i < many; ++i) b.store({result, {i}}, b.at(f, {i}));
  expect_like_interpreter({"idle", b.finish(), {{0}, {1}}}, GetParam(), 5);
}

// More constants than registers, each twice in its instruction. Found by random kernels: both operands became memory.
TEST_P(JitDifferential, ConstantsAreFactorAndAddendAtOnce) {
  using ir::Affine;
  ir::Builder b("twice");
  const int64_t many = isa_info(GetParam().isa).vector_registers + 4;
  const auto result = b.buffer({.name = "result", .scope = ir::Scope::kOut, .extents = {many}, .strides = {1}});
  const auto f = b.reg("f", {.lanes = 1}, {many});
  const auto z = b.at(b.reg("z", {.lanes = 1})), sum = b.at(b.reg("sum", {.lanes = 1}));
  for (int64_t i = 0; i < many; ++i) b.constant(b.at(f, {i}), static_cast<float>(i) + 0.5f);
  b.constant(z, 3);
  for (int64_t i = 0; i < many; ++i) {
    b.fma(sum, b.at(f, {i}), z, b.at(f, {i}));
    b.store({result, {i}}, sum);
  }
  expect_like_interpreter({"twice", b.finish(), {{}}}, GetParam(), 5);
}

// One generator, many threads: compiled code must not depend on what the others compile (m14 in small).
TEST_P(JitDifferential, CompilesOnManyThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint32_t seed = 1; seed <= 20; ++seed) {
        const KernelCase test = random_case(seed + 20 * t, max_lanes());
        const auto first = GetParam().generator->compile(test.kernel, GetParam().isa);
        const auto second = GetParam().generator->compile(test.kernel, GetParam().isa);
        if (!first.ok() || !second.ok() || !std::ranges::equal(first.value()->code(), second.value()->code())) ++wrong;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

// Rows 8 GiB apart: offsets do not fit a 32-bit displacement. Only the touched pages of the mapping exist.
TEST_P(JitDifferential, OffsetsBeyondTwoGiB) {
  constexpr int64_t kStride = int64_t{1} << 31;  // elements
  ir::Builder b("far_rows");
  const auto x = b.buffer({.name = "x", .scope = ir::Scope::kInOut, .extents = {3, 64}, .strides = {kStride, 1}});
  const auto v = b.at(b.reg("v", {.lanes = 4}));
  b.serial("i", 0, 2, 1, [&](ir::Affine i) {
    b.unroll("j", 0, 3, 1, [&](ir::Affine j) {
      b.load(v, {x, {j, i * 8}});
      b.binary(ir::BinaryOp::kAdd, v, v, v);
      b.store({x, {2 - j, i * 8 + 16}}, v);
    });
  });
  b.serial("r", 0, 3, 1, [&](ir::Affine r) {
    b.load(v, {x, {2 - r, 16}});
    b.store({x, {r, 40}}, v);
  });
  const ir::Kernel kernel = b.finish();
  const size_t bytes = 2 * kStride * 4 + 64 * 4;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no " << bytes << " bytes of address space";
  auto* data = static_cast<float*>(memory);
  auto reset = [&] {
    for (int64_t r = 0; r < 3; ++r)
      for (int64_t i = 0; i < 64; ++i) data[r * kStride + i] = static_cast<float>(r * 100 + i);
  };
  auto read = [&] {
    std::vector<float> all;
    for (int64_t r = 0; r < 3; ++r) all.insert(all.end(), data + r * kStride, data + r * kStride + 64);
    return all;
  };
  reset();
  ir::interpret(kernel, &memory, nullptr, nullptr, nullptr);
  const std::vector<float> expected = read();
  reset();
  auto compiled = GetParam().generator->compile(kernel, GetParam().isa);
  ASSERT_TRUE(compiled.ok()) << compiled.status().to_string();
  compiled.value()->run(&memory, nullptr, nullptr, nullptr);
  EXPECT_EQ(read(), expected);
  munmap(memory, bytes);
}

// What a 16-bit float stands for, by its definition: sign, exponent and fraction.
double meaning(DType dtype, uint32_t bits) {
  const int fraction = dtype == DType::kBf16 ? 7 : 10, bias = dtype == DType::kBf16 ? 127 : 15;
  const int exponent = static_cast<int>(bits >> fraction & ((1U << (15 - fraction)) - 1));
  const double part = bits & ((1U << fraction) - 1), sign = bits >> 15 != 0 ? -1 : 1;
  if (exponent == 2 * bias + 1) return part == 0 ? sign * INFINITY : NAN;
  return sign *
         std::ldexp(part + (exponent == 0 ? 0 : std::ldexp(1, fraction)), std::max(exponent, 1) - bias - fraction);
}

// Every 16-bit float, denormals and infinities too, becomes exactly the f32 that it stands for, however the caller
// treats denormals. NaN stays NaN.
TEST_P(JitDifferential, EveryHalfIsWidenedExactly) {
  constexpr int64_t kCount = 65536;
  std::vector<uint16_t> x(kCount);
  for (size_t i = 0; i < kCount; ++i) x[i] = static_cast<uint16_t>(i);
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    for (int lanes = 1; lanes <= max_lanes(); lanes = lanes == 1 ? 4 : 2 * lanes) {
      const auto compiled = GetParam().generator->compile(widening_kernel(dtype, kCount, lanes), GetParam().isa);
      ASSERT_TRUE(compiled.ok()) << compiled.status().to_string();
      const int64_t row = kCount + lanes;
      for (const bool daz : {false, true}) {
        std::vector<uint32_t> y(static_cast<size_t>(3 * row));
        void* buffers[] = {x.data(), y.data()};
        with_denormals_as_zero(daz, [&] { compiled.value()->run(buffers, nullptr, nullptr, nullptr); });
        for (int64_t i = 0; i < 3 * kCount; ++i) {
          const uint32_t got = y[static_cast<size_t>(i / kCount * row + i % kCount)];
          const double want = meaning(dtype, static_cast<uint32_t>(i % kCount));
          const bool same = std::isnan(want) ? std::isnan(std::bit_cast<float>(got))
                                             : got == std::bit_cast<uint32_t>(static_cast<float>(want));
          ASSERT_TRUE(same) << dtype_name(dtype) << " x" << lanes << " daz " << daz << " way " << i / kCount << std::hex
                            << " of 0x" << i % kCount << " came 0x" << got;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, JitDifferential, testing::ValuesIn(all_targets()), target_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(JitDifferential);

// What does not depend on the CPU: refusals.
class JitRefusal : public testing::TestWithParam<Target> {};

TEST_P(JitRefusal, LanesBeyondTheIsaAreNamed) {
  const auto [generator, isa] = GetParam();
  if (isa_info(isa).lanes_f32() >= 16) GTEST_SKIP() << "has 16 lanes";
  const auto result = generator->compile(tile_kernel({.mr = 2, .nr = 16, .k = 4, .lanes = 16}), isa);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), Code::kUnsupported);
  EXPECT_THAT(result.status().message(), HasSubstr("16 lanes"));
  EXPECT_THAT(result.status().message(), HasSubstr("at most " + std::to_string(isa_info(isa).lanes_f32())));
}

// m13: an unrolled body of unreasonable size is refused quickly, not compiled for minutes.
TEST_P(JitRefusal, CodeSizeIsBounded) {
  ir::Builder b("huge");
  const auto v = b.at(b.reg("v", {.lanes = 4}));
  b.constant(v, 1.0f);
  b.unroll("i", 0, 1'000'000, 1, [&](ir::Affine) {
    b.unroll("j", 0, 1'000'000, 1, [&](ir::Affine) { b.binary(ir::BinaryOp::kAdd, v, v, v); });
  });
  const auto [generator, isa] = GetParam();
  const auto result = generator->compile(b.finish(), isa);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), Code::kUnsupported);
  EXPECT_THAT(result.status().message(), HasSubstr("200000"));
}

// What a CPU lacks is an argument: no CPU but the one that code is for decides.
TEST_P(JitRefusal, PairsNeedTheCpuToHaveThem) {
  const auto [generator, isa] = GetParam();
  const ir::Kernel kernel = pair_kernels(4).front().kernel;
  FeatureSet without = isa_info(isa).required, with = without;
  with.add(Feature::kAvx512Bf16);
  const auto refused = generator->compile(kernel, isa, {.cached = false, .cpu = without});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kUnsupported);
  EXPECT_THAT(refused.status().message(), HasSubstr("kernel 'pairs' works on pairs of bf16, which takes AVX512_BF16"));
  EXPECT_THAT(refused.status().message(), Not(HasSubstr("\n")));
  const auto made = generator->compile(kernel, isa, {.cached = false, .cpu = with});
  EXPECT_EQ(made.ok(), isa == Isa::kAvx512) << made.status().to_string();
  if (!made.ok()) {
    EXPECT_THAT(made.status().message(), HasSubstr(std::string(isa_info(isa).name) + " has no"));
  }
  EXPECT_TRUE(find_code_generator("interp").value()->compile(kernel, isa, {.cpu = without}).ok());
  // zen3 has no AVX-512 at all; a CPU that does not have it either has nothing to be taken away.
  setenv("HONE_CPU", "zen3", 1);
  const Result<Machine> zen3 = detect_machine();
  unsetenv("HONE_CPU");
  ASSERT_TRUE(zen3.ok());
  EXPECT_FALSE(generator->compile(kernel, isa, {.cached = false, .cpu = zen3->features}).ok());
}

INSTANTIATE_TEST_SUITE_P(All, JitRefusal, testing::ValuesIn(all_targets()), target_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(JitRefusal);

// An instruction set of another architecture: what runs here, here is emitted, and what is not emitted is refused.
TEST(JitCodegen, WhatIsNotEmittedIsRefused) {
  const ir::Kernel kernel = tile_kernel({.mr = 2, .nr = 4, .k = 4, .lanes = 4});
  for (CodeGenerator* g : compiling_generators()) {
    for (Isa isa : all_isas()) {
      SCOPED_TRACE(std::string(g->name()) + " " + std::string(isa_info(isa).name));
      EXPECT_TRUE(g->emits(isa) || !g->targets(isa));
      EXPECT_TRUE(isa_info(isa).arch == host_arch() || !g->targets(isa));
      if (g->emits(isa)) continue;
      const auto result = g->compile(kernel, isa);
      ASSERT_FALSE(result.ok());
      EXPECT_EQ(result.status().code(), Code::kUnsupported);
      EXPECT_THAT(result.status().message(), HasSubstr(std::string(isa_info(isa).name)));
    }
  }
}

// Without CompileOptions::cpu it is this CPU with what HONE_CPU leaves of it, as a process finds it at its start.
TEST(JitCodegen, HoneCpuTakesPairsAway) {
  if (std::getenv("HONE_CPU") == nullptr) {
    const std::string self = std::filesystem::read_symlink("/proc/self/exe");
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    const std::string only = std::string("--gtest_filter=") + test.test_suite_name() + "." + test.name();
    EXPECT_EQ(std::system(("HONE_CPU=zen3 '" + self + "' " + only + " >/dev/null").c_str()), 0);
    return;
  }
  for (CodeGenerator* g : compiling_generators()) {
    const Status refused = g->compile(pair_kernels(16).front().kernel, Isa::kAvx512).status();
    EXPECT_EQ(refused.code(), Code::kUnsupported) << g->name();
    EXPECT_THAT(refused.message(), HasSubstr("AVX512_BF16"));
  }
}

TEST(JitCodegen, RegistryEndsWithTheInterpreter) {
  ASSERT_FALSE(code_generators().empty());
  EXPECT_EQ(code_generators().back()->name(), "interp");
  for (CodeGenerator* g : code_generators()) {
    EXPECT_EQ(find_code_generator(g->name()).value(), g);
    EXPECT_FALSE(g->version().empty());
  }
}

TEST(JitCodegen, UnknownNameListsWhatThereIs) {
  const auto result = find_code_generator("asmjjt");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), Code::kNotFound);
  EXPECT_THAT(result.status().message(), HasSubstr("'asmjjt'"));
  EXPECT_THAT(result.status().message(), HasSubstr("interp"));
}

TEST(JitCodegen, InterpreterRunsAnyIsa) {
  CodeGenerator* interp = find_code_generator("interp").value();
  for (Isa isa : all_isas()) {
    EXPECT_TRUE(interp->targets(isa));
    expect_like_interpreter(sample_kernels(16).front(), {interp, isa}, 3);
  }
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// HONE_JIT_DUMP leaves the program and its code, makes a missing directory, and never stops a kernel.
TEST(JitDump, WritesIrAndCode) {
  const std::filesystem::path dir = std::filesystem::path(testing::TempDir()) / "hone_dump" / "made on demand";
  ir::Kernel kernel = tile_kernel({.mr = 2, .nr = 8, .k = 4, .lanes = 4});
  kernel.name = "a/b c";
  for (const Target& t : all_targets()) {
    if (!t.generator->targets(t.isa)) continue;
    std::filesystem::remove_all(dir.parent_path());
    setenv("HONE_JIT_DUMP", dir.c_str(), 1);
    auto compiled = t.generator->compile(kernel, t.isa);
    unsetenv("HONE_JIT_DUMP");
    ASSERT_TRUE(compiled.ok());
    const std::string stem = "a_b_c_" + std::string(t.generator->name());
    EXPECT_THAT(read_file(dir / (stem + ".ir")), HasSubstr("fma("));
    EXPECT_THAT(read_file(dir / (stem + ".s")), HasSubstr("vfmadd"));
    const auto code = compiled.value()->code();
    EXPECT_EQ(read_file(dir / (stem + ".bin")), std::string(reinterpret_cast<const char*>(code.data()), code.size()));

    setenv("HONE_JIT_DUMP", (dir / (stem + ".ir")).c_str(), 1);  // a file: cannot become a directory
    testing::internal::CaptureStderr();
    EXPECT_TRUE(t.generator->compile(kernel, t.isa).ok());
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("HONE_JIT_DUMP"));
    unsetenv("HONE_JIT_DUMP");
  }
  std::filesystem::remove_all(dir.parent_path());
}

// Names leave out what only some programs have: two of one name are two sets of files, and each writes its own again.
TEST(JitDump, ProgramsOfOneNameDoNotOverwriteEachOther) {
  const std::filesystem::path dir = std::filesystem::path(testing::TempDir()) / "hone_dump_names";
  for (const Target& t : all_targets()) {
    std::filesystem::remove_all(dir);
    setenv("HONE_JIT_DUMP", dir.c_str(), 1);
    std::vector<std::string> texts;
    for (const int k : {4, 5, 4, 5}) {
      ir::Kernel kernel = tile_kernel({.mr = 2, .nr = 8, .k = k, .lanes = 4});
      kernel.name = "same";
      ASSERT_TRUE(t.generator->compile(kernel, t.isa).ok());
      texts.push_back(ir::print(kernel));
    }
    unsetenv("HONE_JIT_DUMP");
    std::vector<std::string> dumped;
    for (const std::filesystem::directory_entry& e : std::filesystem::directory_iterator(dir))
      if (e.path().extension() == ".ir") dumped.push_back(read_file(e.path()));
    EXPECT_THAT(dumped, testing::UnorderedElementsAre(texts[0], texts[1]));
    EXPECT_EQ(read_file(dir / ("same_" + std::string(t.generator->name()) + ".ir")), texts[0]);
  }
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace hone::jit
