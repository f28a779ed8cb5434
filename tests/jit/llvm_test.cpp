// What is particular to the LLVM code generator: runtime strides, no spill in the loops it is meant for, errors instead
// of aborts, memory that is given back. codegen_test.cpp compares it with the interpreter, like every generator.
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "jit/exec_memory.h"
#include "kernels/ir/builder.h"
#include "tests/jit/differential.h"
#include "tests/jit/inspect/emitted.h"
#include "tests/jit/sample_kernels.h"

namespace hone::jit {
namespace {

using ir::Affine;
using ir::Builder;
using ir::Scope;
using testing::HasSubstr;

CodeGenerator& llvm() { return *find_code_generator("llvm").value(); }

class JitLlvm : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!llvm().targets(GetParam())) GTEST_SKIP() << "this CPU has no " << isa_info(GetParam()).name;
  }
  Target target() const { return {&llvm(), GetParam()}; }
  int lanes() const { return isa_info(GetParam()).lanes_f32(); }
};

std::string isa_name(const testing::TestParamInfo<Isa>& info) { return std::string(isa_info(info.param).name); }
INSTANTIATE_TEST_SUITE_P(All, JitLlvm, testing::ValuesIn(all_isas().begin(), all_isas().end()), isa_name);

// out[i, :] += a[i, k] * b[k, :] where the rows of a and out are a runtime stride apart. Rows are written out, because
// only constants may index such a dimension.
ir::Kernel rows_at_runtime_stride(int rows, int vectors, int lanes) {
  Builder b("rows_" + std::to_string(rows) + "x" + std::to_string(vectors * lanes));
  const auto k = b.param("k"), lda = b.param("lda"), ldo = b.param("ldo");
  const auto a = b.buffer(
      {.name = "a", .scope = Scope::kIn, .extents = {Affine(rows), Affine::var(k)}, .strides = {Affine::var(lda), 1}});
  const auto w = b.buffer({.name = "b",
                           .scope = Scope::kIn,
                           .extents = {Affine::var(k), Affine(vectors * lanes)},
                           .strides = {Affine(vectors * lanes), 1}});
  const auto out = b.buffer({.name = "c",
                             .scope = Scope::kInOut,
                             .extents = {Affine(rows), Affine(vectors * lanes)},
                             .strides = {Affine::var(ldo), 1}});
  const ir::RegType f{.lanes = lanes};
  const auto acc = b.reg("acc", f, {rows, vectors});
  const auto bv = b.reg("bv", f, {vectors});
  const auto av = b.at(b.reg("av", f));
  auto each = [&](const std::function<void(int, int)>& body) {
    for (int r = 0; r < rows; ++r)
      for (int v = 0; v < vectors; ++v) body(r, v);
  };
  each([&](int r, int v) { b.load(b.at(acc, {r, v}), {out, {r, v * lanes}}); });
  b.serial("i", 0, Affine::var(k), 1, [&](Affine i) {
    for (int v = 0; v < vectors; ++v) b.load(b.at(bv, {v}), {w, {i, v * lanes}});
    each([&](int r, int v) {
      if (v == 0) b.broadcast(av, {a, {r, i}});
      b.fma(b.at(acc, {r, v}), av, b.at(bv, {v}), b.at(acc, {r, v}));
    });
  });
  each([&](int r, int v) { b.store({out, {r, v * lanes}}, b.at(acc, {r, v})); });
  return b.finish();
}

// Every row number 0..30 has its own way of being addressed.
TEST_P(JitLlvm, RuntimeStrides) {
  for (int rows : {1, 2, 9, 10, 14, 31}) {
    const KernelCase test{
        "rows", rows_at_runtime_stride(rows, 1, lanes()), {{0, 8, 64}, {1, 1, 16}, {7, 7, 16}, {5, 133, 40}}};
    expect_like_interpreter(test, target(), 3);
  }
}

// x * y + z in two statements rounds twice, and (x + y) - y is not x.
TEST_P(JitLlvm, NothingIsContractedOrReassociated) {
  Builder b("exact");
  const auto in = b.buffer({.name = "in", .scope = Scope::kIn, .extents = {3, 16}, .strides = {16, 1}});
  const auto out = b.buffer({.name = "c", .scope = Scope::kOut, .extents = {2, 16}, .strides = {16, 1}});
  const ir::RegType f{.lanes = 8};
  const auto x = b.at(b.reg("x", f)), y = b.at(b.reg("y", f)), z = b.at(b.reg("z", f)), t = b.at(b.reg("t", f));
  b.load(x, {in, {0, 0}});
  b.load(y, {in, {1, 0}});
  b.load(z, {in, {2, 0}});
  b.binary(ir::BinaryOp::kMul, t, x, y);
  b.binary(ir::BinaryOp::kAdd, t, t, z);
  b.store({out, {0, 0}}, t);
  b.binary(ir::BinaryOp::kAdd, t, x, y);
  b.binary(ir::BinaryOp::kSub, t, t, y);
  b.store({out, {1, 0}}, t);
  auto compiled = llvm().compile(b.finish(), GetParam());
  ASSERT_TRUE(compiled.ok()) << compiled.status().to_string();
  float input[48], output[32] = {};
  std::fill(input, input + 16, 1.0f + 0x1p-12f);
  std::fill(input + 16, input + 32, 1.0f + 0x1p-12f);
  std::fill(input + 32, input + 48, -1.0f);
  void* buffers[] = {input, output};
  (*compiled)->run(buffers, nullptr, nullptr, nullptr);
  EXPECT_EQ(output[0], 0x1p-11f);  // fused: 0x1p-11 + 0x1p-24
  std::fill(input, input + 16, 0x1p-30f);
  (*compiled)->run(buffers, nullptr, nullptr, nullptr);
  EXPECT_EQ(output[16], 0.0f);
}

TEST_P(JitLlvm, ThreadsCompileAndRunAtOnce) {
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      const KernelCase test{
          "tile", tile_kernel({.mr = 2 + static_cast<int>(t), .nr = lanes(), .k = 9, .lanes = lanes()}), {{}}};
      for (uint32_t seed = 0; seed < 4; ++seed) expect_like_interpreter(test, target(), seed + t);
    });
  }
  for (std::thread& t : threads) t.join();
}

TEST_P(JitLlvm, CodeIsReadableAndNotWritable) {
  auto compiled = llvm().compile(tile_kernel({.mr = 2, .nr = lanes(), .k = 9, .lanes = lanes()}), GetParam());
  ASSERT_TRUE(compiled.ok()) << compiled.status().to_string();
  const std::span<const std::byte> code = (*compiled)->code();
  ASSERT_EQ(static_cast<const void*>(code.data()), reinterpret_cast<const void*>((*compiled)->entry()));
  ASSERT_GT(code.size(), 32u);
  EXPECT_EQ(code.back(), std::byte{0xc3}) << "a function ends with ret";
  std::ifstream maps("/proc/self/maps");
  bool found = false;
  for (std::string line; std::getline(maps, line);) {
    EXPECT_THAT(line, testing::Not(HasSubstr(" rwx"))) << "a page is writable and executable";
    unsigned long first = 0, last = 0;
    char access[8] = {};
    if (std::sscanf(line.c_str(), "%lx-%lx %7s", &first, &last, access) != 3) continue;
    const auto at = reinterpret_cast<unsigned long>(code.data());
    if (at < first || at >= last) continue;
    found = true;
    EXPECT_STREQ(access, "r-xp");
  }
  EXPECT_TRUE(found);
}

int64_t resident_kib() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE) / 1024;
}

// Code of one kernel takes 12 KiB of pages: kept, 500 would show as 6 MiB.
TEST_P(JitLlvm, ReleasedKernelsGiveBackTheirMemory) {
  const ir::Kernel kernel = tile_kernel({.mr = 1, .nr = lanes(), .k = 5, .lanes = lanes()});
  auto compile = [&](int times) {
    for (int i = 0; i < times; ++i) ASSERT_TRUE(llvm().compile(kernel, GetParam()).ok());
  };
  compile(100);
  const int64_t before = resident_kib();
  compile(500);
#if !defined(__SANITIZE_ADDRESS__)  // whose allocator keeps what is freed
  EXPECT_LT(resident_kib() - before, 2048);
#else
  EXPECT_LT(resident_kib() - before, 1 << 20);
#endif
}

TEST(JitLlvmErrors, ExecutableMemoryRefused) {
  refuse_exec_memory_for_testing(true);
  const auto refused = llvm().compile(tile_kernel({.mr = 1, .nr = 8, .k = 4, .lanes = 8}), Isa::kAvx2);
  refuse_exec_memory_for_testing(false);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kResourceExhausted);
  EXPECT_THAT(refused.status().message(), HasSubstr("mprotect"));
  EXPECT_TRUE(llvm().compile(tile_kernel({.mr = 1, .nr = 8, .k = 4, .lanes = 8}), Isa::kAvx2).ok());
}

TEST(JitLlvmInfo, VersionNamesTheLibrary) {
  EXPECT_THAT(llvm().version(), testing::StartsWith("llvm-19."));
  EXPECT_EQ(llvm().name(), "llvm");
}

// ---- what the emitted loops look like; needs no CPU that could run them
// ------------------------------------------------

class DumpDirectory {
 public:
  DumpDirectory() : path_(std::filesystem::temp_directory_path() / ("hone_llvm_test." + std::to_string(getpid()))) {
    setenv("HONE_JIT_DUMP", path_.c_str(), 1);
  }
  ~DumpDirectory() {
    unsetenv("HONE_JIT_DUMP");
    std::error_code ignored;  // a left-over temporary folder is not a failure
    std::filesystem::remove_all(path_, ignored);
  }
  std::string read(const std::string& name) const {
    std::ifstream file(path_ / name);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

 private:
  std::filesystem::path path_;
};

struct LoopCase {
  int mr, nr, lanes;
};

class JitLlvmLoops : public testing::TestWithParam<LoopCase> {};
INSTANTIATE_TEST_SUITE_P(Tiles, JitLlvmLoops,
                         testing::Values(LoopCase{14, 32, 16}, LoopCase{12, 32, 16}, LoopCase{6, 64, 16},
                                         LoopCase{8, 48, 16}, LoopCase{9, 48, 16}, LoopCase{28, 16, 16},
                                         LoopCase{1, 128, 16}, LoopCase{6, 16, 8}, LoopCase{4, 24, 8},
                                         LoopCase{5, 16, 8}, LoopCase{12, 8, 8}, LoopCase{1, 64, 8}),
                         [](const auto& tile) {
                           return std::to_string(tile.param.mr) + "x" + std::to_string(tile.param.nr) + "_" +
                                  std::to_string(tile.param.lanes);
                         });

// `a_pointers` are advanced besides the one of b.
void expect_tight(const ir::Kernel& kernel, const LoopCase& t, int unroll, int a_pointers) {
  const auto emitted = emit(llvm(), kernel, t.lanes == 16 ? Isa::kAvx512 : Isa::kAvx2);
  ASSERT_TRUE(emitted.ok()) << emitted.status().to_string();
  const InnerLoop loop = emitted->hot_loop();
  const int vectors = t.nr / t.lanes;
  EXPECT_EQ(loop.counts.fma, unroll * t.mr * vectors);
  EXPECT_EQ(loop.counts.stack, 0) << "spill in the inner loop:\n" << loop.text();
  EXPECT_EQ(loop.vector_moves(), 0) << "moves between registers:\n" << loop.text();
  // A broadcast with one use is an operand of it, or an instruction of its own.
  const int broadcasts = loop.mnemonic("vbroadcastss") + loop.mnemonic("vpbroadcastd");
  EXPECT_EQ(broadcasts + loop.with("{1to"), unroll * t.mr);
  const int vector_work = unroll * (vectors + t.mr * vectors) + broadcasts;
  constexpr int kCounterAndBranch = 2;
  EXPECT_LE(loop.counts.total, vector_work + a_pointers + 1 + kCounterAndBranch) << loop.text();
}

// Broadcast instructions of a tile of pairs.
int single_broadcasts(const LoopCase& t) {
  const auto emitted =
      emit(llvm(), tile_kernel({.mr = t.mr, .nr = t.nr, .k = 64, .lanes = 16, .packed_a = true, .pairs = true}),
           Isa::kAvx512);
  if (!emitted.ok()) return -1;
  const InnerLoop loop = emitted->hot_loop();
  EXPECT_EQ(loop.mnemonic("vdpbf16ps"), t.mr * t.nr / 16);
  return loop.mnemonic("vbroadcastss") + loop.mnemonic("vpbroadcastd");
}

TEST_P(JitLlvmLoops, AreTight) {
  const LoopCase t = GetParam();
  for (int unroll : {1, 2, 4}) {
    for (bool packed : {true, false}) {
      SCOPED_TRACE("unroll " + std::to_string(unroll) + (packed ? " packed" : " rows"));
      expect_tight(
          tile_kernel({.mr = t.mr, .nr = t.nr, .k = 64, .lanes = t.lanes, .unroll = unroll, .packed_a = packed}), t,
          unroll, 1);
    }
  }
  if (t.lanes == 16) {
    for (int unroll : {1, 4}) {
      SCOPED_TRACE("pairs, unroll " + std::to_string(unroll));
      expect_tight(
          tile_kernel(
              {.mr = t.mr, .nr = t.nr, .k = 64, .lanes = 16, .unroll = unroll, .packed_a = true, .pairs = true}),
          t, unroll, 1);
    }
    EXPECT_EQ(single_broadcasts(t), t.nr == 16 ? 0 : t.mr) << "the others are used more than once";
  }
  expect_tight(rows_at_runtime_stride(t.mr, t.nr / t.lanes, t.lanes), t, 1, (t.mr + 8) / 9);
}

TEST(JitLlvmDump, WritesIrAndCode) {
  const DumpDirectory dump;
  const ir::Kernel kernel = tile_kernel({.mr = 2, .nr = 8, .k = 9, .lanes = 8});
  auto compiled = llvm().compile(kernel, Isa::kAvx2);
  ASSERT_TRUE(compiled.ok()) << compiled.status().to_string();
  EXPECT_THAT(dump.read(kernel.name + "_llvm.ll"), HasSubstr("llvm.fma.v8f32"));
  EXPECT_THAT(dump.read(kernel.name + "_llvm.s"), HasSubstr("vfmadd231ps"));
  EXPECT_EQ(dump.read(kernel.name + "_llvm.bin").size(), (*compiled)->code().size());
}

TEST(JitLlvmDump, AnUnwritableFolderDoesNotStopACompile) {
  setenv("HONE_JIT_DUMP", "/proc/no/such/folder", 1);
  const auto compiled = llvm().compile(tile_kernel({.mr = 2, .nr = 8, .k = 9, .lanes = 8}), Isa::kAvx2);
  unsetenv("HONE_JIT_DUMP");
  EXPECT_TRUE(compiled.ok());
}

}  // namespace
}  // namespace hone::jit
