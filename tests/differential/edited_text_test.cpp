// LoopIR is what runs: a loop, a pack, a prefetch or a statement that is changed in the text of a lowered matmul
// changes what every code generator executes, in the way that the text says.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "engine/base/machine.h"
#include "jit/launch.h"
#include "kernels/ir/text.h"
#include "kernels/matmul/program.h"

namespace hone {
namespace {

constexpr int64_t kM = 7, kN = 16, kK = 24;
constexpr const char* kProgram =
    "vectorize(avx2,8) register_tile(6,16) tile(6,16,24) order(ji) pack_a(none) pack_b(block) panel(16) unroll_k(1) "
    "prefetch_b(8) parallel(n)";

float a_at(int64_t i, int64_t p) { return static_cast<float>((3 * i + 5 * p) % 11) / 8 - 0.5f; }
float b_at(int64_t p, int64_t j) { return static_cast<float>((7 * p + 2 * j) % 13) / 8 - 0.75f; }

std::string lowered_text() {
  const matmul::MatmulProblem problem{.m = kM, .n = kN, .k = kK, .epilogue = {}};
  const Result<matmul::TransformProgram> program = matmul::parse_program(kProgram);
  EXPECT_TRUE(program.ok()) << program.status().message();
  const Result<ir::Kernel> kernel = matmul::lower(problem, *program);
  EXPECT_TRUE(kernel.ok()) << kernel.status().message();
  return ir::print(*kernel);
}

std::string edited(const std::string& from, const std::string& to) {
  std::string text = lowered_text();
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << "'" << from << "' is not in\n" << text;
  EXPECT_EQ(text.find(from, at + 1), std::string::npos) << "'" << from << "' is there twice";
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

struct Output {
  std::vector<float> c;
  std::vector<std::byte> code;
};

class EditedText : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const Result<Machine> machine = detect_machine();
    ASSERT_TRUE(machine.ok());
    const bool interp = GetParam() == "interp";
    if (!interp && (!machine->supports(Isa::kAvx2) || !generator().targets(Isa::kAvx2)))
      GTEST_SKIP() << "this CPU has no AVX2";
  }
  jit::CodeGenerator& generator() const { return *jit::find_code_generator(GetParam()).value(); }

  Output output(const std::string& text) const {
    const Result<ir::Kernel> kernel = ir::parse(text);
    EXPECT_TRUE(kernel.ok()) << kernel.status().message();
    const Result<jit::Executable> executable = jit::make_executable(*kernel, generator(), Isa::kAvx2);
    EXPECT_TRUE(executable.ok()) << executable.status().message();
    if (!kernel.ok() || !executable.ok()) return {};
    std::vector<float> a, b;
    for (int64_t i = 0; i < kM; ++i)
      for (int64_t p = 0; p < kK; ++p) a.push_back(a_at(i, p));
    for (int64_t p = 0; p < kK; ++p)
      for (int64_t j = 0; j < kN; ++j) b.push_back(b_at(p, j));
    Output result{std::vector<float>(static_cast<size_t>(kM * kN), NAN), {}};
    void* buffers[] = {a.data(), b.data(), result.c.data()};
    const int64_t params[] = {kM};
    jit::WorkspacePool workspaces;
    jit::Launch launch(*executable, buffers, params, &workspaces);
    jit::Launch::run_range(&launch, 0, launch.tasks());
    result.code.assign(executable->kernel->code().begin(), executable->kernel->code().end());
    return result;
  }
};

// What C must be when row p of B is taken from row source(p), for the first `depth` values of p.
template <typename Source>
std::vector<float> chain(int64_t depth, Source source) {
  std::vector<float> c;
  for (int64_t i = 0; i < kM; ++i)
    for (int64_t j = 0; j < kN; ++j) {
      float sum = 0;
      for (int64_t p = 0; p < depth; ++p) sum = std::fma(a_at(i, p), b_at(source(p), j), sum);
      c.push_back(sum);
    }
  return c;
}
int64_t same(int64_t p) { return p; }

TEST_P(EditedText, UneditedIsTheMatmul) { EXPECT_EQ(output(lowered_text()).c, chain(kK, same)); }

TEST_P(EditedText, AShorterLoopSumsLess) {
  EXPECT_EQ(output(edited("for k in 0..24 step 1", "for k in 0..23 step 1")).c, chain(kK - 1, same));
}

TEST_P(EditedText, APackOfOtherRowsIsWhatIsMultiplied) {
  const std::vector<float> c = output(edited("load B[pk, 16*jp]", "load B[23 - pk, 16*jp]")).c;
  const std::vector<float> straight = chain(kK, same), reversed = chain(kK, [](int64_t p) { return kK - 1 - p; });
  ASSERT_EQ(c.size(), straight.size());
  for (int64_t i = 0; i < kM; ++i)
    for (int64_t j = 0; j < kN; ++j) {
      const auto at = static_cast<size_t>(i * kN + j);
      EXPECT_EQ(c[at], j < 8 ? reversed[at] : straight[at]) << i << ", " << j;
    }
}

TEST_P(EditedText, AnotherPrefetchDistanceIsOtherCodeAndTheSameResult) {
  const Output near = output(lowered_text()),
               far = output(edited("prefetch t0 Bp[jj, k + 8, 0]", "prefetch t0 Bp[jj, k + 9, 0]"));
  EXPECT_EQ(near.c, far.c);
  if (GetParam() != "interp") {
    EXPECT_NE(near.code, far.code);
  }
}

TEST_P(EditedText, AnotherFirstValueIsAdded) {
  std::vector<float> expected;
  for (int64_t i = 0; i < kM; ++i)
    for (int64_t j = 0; j < kN; ++j) {
      float sum = 1;
      for (int64_t p = 0; p < kK; ++p) sum = std::fma(a_at(i, p), b_at(p, j), sum);
      expected.push_back(sum);
    }
  EXPECT_EQ(output(edited("acc[r, v] = const 0x00000000", "acc[r, v] = const 0x3f800000")).c, expected);
}

std::vector<std::string> generator_names() {
  std::vector<std::string> names;
  for (const jit::CodeGenerator* g : jit::code_generators()) names.emplace_back(g->name());
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, EditedText, ::testing::ValuesIn(generator_names()),
                         [](const auto& param_info) { return param_info.param; });

}  // namespace
}  // namespace hone
