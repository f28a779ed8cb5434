// LLVM's standard pipelines give the interpreter's bits too: what they optimise is loops and integers, and arithmetic
// only where that is exact.
#include "jit/llvm/pipelines.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "kernels/ir/builder.h"
#include "tests/jit/differential.h"
#include "tests/jit/sample_kernels.h"

namespace hone::jit {
namespace {

using testing::HasSubstr;

std::vector<Target> pipeline_targets() {
  std::vector<Target> targets;
  for (const std::string_view name : llvm_pipeline_names())
    for (const Isa isa : all_isas()) targets.push_back({find_llvm_pipeline(name), isa});
  return targets;
}

std::string pipeline_name(const testing::TestParamInfo<Target>& info) {
  std::string name = target_name(info);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class JitPipelines : public testing::TestWithParam<Target> {
 protected:
  void SetUp() override {
    if (!GetParam().generator->targets(GetParam().isa))
      GTEST_SKIP() << "this CPU does not run " << isa_info(GetParam().isa).name;
  }
};
INSTANTIATE_TEST_SUITE_P(All, JitPipelines, testing::ValuesIn(pipeline_targets()), pipeline_name);

TEST_P(JitPipelines, SampleKernels) {
  for (const int lanes : {1, 4, 8, 16}) {
    if (lanes > isa_info(GetParam().isa).lanes_f32()) continue;
    SCOPED_TRACE(std::to_string(lanes) + " lanes");
    for (const KernelCase& test : sample_kernels(lanes)) expect_like_interpreter(test, GetParam(), 20);
  }
}

TEST_P(JitPipelines, RandomKernels) {
  for (uint32_t seed = 1; seed <= 150; ++seed) {
    expect_like_interpreter(random_case(seed, isa_info(GetParam().isa).lanes_f32()), GetParam(), seed);
    if (HasFailure()) break;
  }
}

TEST_P(JitPipelines, PairsOfBf16) {
  if (!has_pairs(GetParam().isa)) GTEST_SKIP() << "this CPU does not run AVX512_BF16 by " << GetParam().name();
  for (const int lanes : {4, 8, 16})
    for (const KernelCase& test : pair_kernels(lanes))
      for (const uint32_t seed : {20, 21}) expect_like_interpreter(test, GetParam(), seed);
  for (uint32_t seed = 1; seed <= 60 && !HasFailure(); ++seed)
    expect_like_interpreter(random_case(seed, isa_info(GetParam().isa).lanes_f32(), true), GetParam(), seed);
}

// x * y + z in two statements rounds twice, (x + y) - y is not x, and x - x is not 0 where x may be infinite.
TEST_P(JitPipelines, NothingIsContractedOrReassociated) {
  ir::Builder b("exact");
  const auto in = b.buffer({.name = "x", .scope = ir::Scope::kIn, .extents = {3, 8}, .strides = {8, 1}});
  const auto out = b.buffer({.name = "c", .scope = ir::Scope::kOut, .extents = {3, 8}, .strides = {8, 1}});
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
  b.binary(ir::BinaryOp::kSub, t, x, x);
  b.store({out, {2, 0}}, t);
  const ir::Kernel kernel = b.finish();
  expect_like_interpreter({"exact", kernel, {{}}}, GetParam(), 4);
  expect_like_interpreter({"exact", kernel, {{}}}, GetParam(), 5);
}

// A copy and a fill: to LLVM memcpy and memset, but there is no such function to call.
TEST_P(JitPipelines, LoopsDoNotBecomeCalls) {
  ir::Builder b("copy_and_fill");
  const auto n = b.param("n");
  const auto extent = ir::Affine::var(n);
  const auto in = b.buffer({.name = "x", .scope = ir::Scope::kIn, .extents = {extent}, .strides = {1}});
  const auto copy = b.buffer({.name = "copy", .scope = ir::Scope::kOut, .extents = {extent}, .strides = {1}});
  const auto fill = b.buffer({.name = "fill", .scope = ir::Scope::kOut, .extents = {extent}, .strides = {1}});
  const auto v = b.at(b.reg("v", {.lanes = 1}));
  b.serial("i", 0, extent, 1, [&](ir::Affine i) {
    b.load(v, {in, {i}});
    b.store({copy, {i}}, v);
  });
  b.constant(v, 0.0f);
  b.serial("j", 0, extent, 1, [&](ir::Affine j) { b.store({fill, {j}}, v); });
  expect_like_interpreter({"copy_and_fill", b.finish(), {{0}, {1}, {100}}}, GetParam(), 6);
}

// The pipelines differ, or there would be nothing to compare: the unoptimised code of a tile is the largest.
TEST(JitPipelineNames, EachIsAGeneratorOfItsOwn) {
  const ir::Kernel kernel = tile_kernel({.mr = 4, .nr = 16, .k = 64, .lanes = 8});
  std::vector<std::string> versions = {find_code_generator("llvm").value()->version()};
  size_t unoptimised = 0;
  for (const std::string_view name : llvm_pipeline_names()) {
    CodeGenerator* const g = find_code_generator(name).value();
    EXPECT_EQ(g->name(), name);
    EXPECT_EQ(std::count(versions.begin(), versions.end(), g->version()), 0) << g->version();
    EXPECT_THAT(g->version(), testing::StartsWith(versions.front()));
    versions.push_back(g->version());
    const auto code = g->compile(kernel, Isa::kAvx2);
    ASSERT_TRUE(code.ok()) << code.status().to_string();
    if (unoptimised == 0) unoptimised = (*code)->code().size();
    EXPECT_LE((*code)->code().size(), unoptimised) << name;
  }
  EXPECT_EQ(versions.size(), 5u);
}

TEST(JitPipelineNames, OthersAreUnknown) {
  for (const char* name : {"llvm-O4", "llvm-O", "llvm-o2", "llvm-O22", "llvm-"}) {
    EXPECT_EQ(find_llvm_pipeline(name), nullptr);
    EXPECT_FALSE(find_code_generator(name).ok());
  }
  for (CodeGenerator* g : code_generators()) EXPECT_EQ(find_llvm_pipeline(g->name()), nullptr);
}

}  // namespace
}  // namespace hone::jit
