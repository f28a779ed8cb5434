// The promise that tuning never changes a result: over a sample of the space, every candidate, through every code
// generator, on every instruction set of this CPU, with 1, 2 and 3 threads, gives the bits of the scalar chain of its
// numerics class.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <memory>
#include <random>

#include "autotune/space/space.h"
#include "engine/base/machine.h"
#include "engine/runtime/schedule.h"
#include "jit/launch.h"
#include "jit/llvm/pipelines.h"
#include "kernels/ir/text.h"
#include "kernels/matmul/blocking.h"
#include "kernels/matmul/guarded_operands.h"
#include "kernels/matmul/trial.h"

namespace hone {
namespace {

using matmul::MatmulProblem;
using matmul::TransformProgram;

const Machine& machine() {
  static const Machine m = detect_machine().value();
  return m;
}

std::unique_ptr<runtime::Schedule> schedule(int threads) {
  return runtime::make_schedule({runtime::ScheduleKind::kTbb, threads}).value();
}

void run(const jit::Executable& executable, runtime::Schedule& on, matmul::Arguments args) {
  static jit::WorkspacePool workspaces;  // of all cases: what one leaves behind the next must not show
  jit::Launch launch(executable, args.buffers.data(), args.params.data(), &workspaces);
  on.for_range({"matmul", "test"}, launch.tasks(), 1, {jit::Launch::run_range, &launch});
}

// One program through one generator under each thread count.
void expect_bits(const MatmulProblem& problem, const TransformProgram& program, jit::CodeGenerator& generator,
                 uint64_t seed, int specials = 0) {
  SCOPED_TRACE(fmt::format("{} | {} | {} | seed {}", matmul::to_string(problem), matmul::to_string(program),
                           generator.name(), seed));
  const Result<ir::Kernel> kernel = matmul::lower(problem, program);
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  const Result<jit::Executable> executable = jit::make_executable(*kernel, generator, program.isa);
  ASSERT_TRUE(executable.ok()) << executable.status().message();
  matmul::GuardedOperands operands(problem, program.panel, seed, specials, program.dot);
  for (int threads : {1, 2, 3}) {
    const std::unique_ptr<runtime::Schedule> on = schedule(threads);
    operands.reset_c();
    run(*executable, *on, operands.arguments());
    const matmul::Comparison comparison = operands.compare_with_reference();
    ASSERT_TRUE(comparison.ok()) << threads << " threads: " << comparison.text << "\n" << ir::print(*kernel);
  }
}

bool runs_here(const jit::CodeGenerator& generator, Isa isa) {
  return generator.name() == "interp" || (machine().supports(isa) && generator.targets(isa));
}

class MatmulBits : public ::testing::TestWithParam<std::string> {
 protected:
  jit::CodeGenerator& generator() const { return *jit::find_code_generator(GetParam()).value(); }
};

// Random problems (any layout, strides, batch, alpha, beta, epilogue) under random programs.
TEST_P(MatmulBits, RandomPrograms) {
  int ran = 0;
  for (Isa isa : all_isas()) {
    if (!runs_here(generator(), isa)) continue;
    std::mt19937_64 rng(77);
    const int count = GetParam() == "llvm" ? 30 : GetParam().starts_with("llvm-") ? 10 : 120;
    for (int i = 0; i < count; ++i, ++ran) {
      const uint64_t seed = rng();
      const MatmulProblem problem = matmul::random_problem(seed, {.max_m = 40, .max_n = 130, .max_k = 90});
      expect_bits(problem, matmul::random_program(problem, seed + 1, isa), generator(), seed);
      if (HasFailure()) return;
    }
  }
  if (ran == 0) GTEST_SKIP() << "this CPU has no instruction set that " << GetParam() << " emits";
}

// What the tuner would really measure, on shapes that no tile divides.
TEST_P(MatmulBits, CandidatesOfTheTunersSpace) {
  autotune::Target target{
      .isas = {}, .caches = {.l1d = 8 << 10, .l2 = 32 << 10}, .threads = {1}, .codegens = {GetParam()}};
  for (Isa isa : all_isas())
    if (runs_here(generator(), isa)) target.isas.push_back(isa);
  if (target.isas.empty()) GTEST_SKIP() << "this CPU has no instruction set that " << GetParam() << " emits";
  for (const char* text :
       {"matmul:f32:m=1,n=211,k=67,b=packed", "matmul:f32:m=37,n=101,k=59,b=nn:+bias+gelu",
        "matmul:f32:m=5,n=83,k=61,b=nt:+silu*gate", "matmul:f32:m=19,n=160,k=51,b=packed:+bias+swiglu",
        "matmul:f32:m=23,n=96,k=44,b=packed:*row_scale+swiglu", "matmul:bf16:m=1,n=211,k=67,b=packed",
        "matmul:f16:m=33,n=101,k=59,b=packed:+bias"}) {
    const MatmulProblem problem = matmul::parse_problem(text).value();
    const autotune::Space space = autotune::enumerate(problem, target);
    ASSERT_GT(space.candidates.size(), 10U);
    const size_t step = std::max<size_t>(1, space.candidates.size() / (GetParam() == "llvm"              ? 12
                                                                       : GetParam().starts_with("llvm-") ? 4
                                                                                                         : 60));
    for (size_t i = 0; i < space.candidates.size(); i += step) {
      expect_bits(problem, std::get<matmul::TransformProgram>(space.candidates[i].program), generator(), i);
      if (HasFailure()) return;
    }
  }
}

// Weights of 16 bits under default programs: as many rows as decoders have at once, sizes that no tile divides, values
// among which NaN, infinities and denormals are.
TEST_P(MatmulBits, DefaultProgramsOf16BitWeights) {
  if (GetParam().starts_with("llvm-")) GTEST_SKIP() << "other pipelines: random programs are enough";
  for (Isa isa : all_isas()) {
    if (!runs_here(generator(), isa)) continue;
    for (int64_t m = 1; m <= 64; m = m == 17 ? 64 : m + (GetParam() == "llvm" ? 4 : 1)) {
      for (const DType dtype : {DType::kBf16, DType::kF16}) {
        MatmulProblem p{.dtype = dtype, .m = m, .n = 75, .k = 131, .b = matmul::BLayout::kPacked, .epilogue = {}};
        const matmul::BlockingTarget target{.isa = isa, .caches = {.l1d = 8 << 10, .l2 = 16 << 10}, .threads = 1};
        expect_bits(p, matmul::default_program(p, target, 0), generator(), static_cast<uint64_t>(m), 20);
        p.k = 0;
        if (m == 5) expect_bits(p, matmul::default_program(p, target, 0), generator(), 1);
        if (HasFailure()) return;
      }
    }
  }
}

// Class `bf16`: pairs of bf16, at the same numbers of rows, with an odd k; a block of k at a time, every epilogue, and
// what the tuner would measure.
TEST_P(MatmulBits, DotProductsOfPairs) {
  const FeatureSet dots{Feature::kAvx512Bf16};
  if (GetParam().starts_with("llvm-")) GTEST_SKIP() << "other pipelines: random kernels are enough";
  if (!runs_here(generator(), Isa::kAvx512) || (GetParam() != "interp" && !machine().features.contains(dots)))
    GTEST_SKIP() << "this CPU has no AVX512_BF16, or " << GetParam() << " does not emit it";
  uint64_t seed = 0;
  for (int64_t m = 1; m <= 64; m = m == 17 ? 64 : m + (GetParam() == "llvm" ? 4 : 1)) {
    const MatmulProblem p{
        .dtype = DType::kBf16, .m = m, .n = 75, .k = 131, .b = matmul::BLayout::kPacked, .epilogue = {}};
    matmul::BlockingTarget target{.isa = Isa::kAvx512, .caches = {.l1d = 8 << 10, .l2 = 16 << 10}};
    target.dot = matmul::Dot::kBf16;
    expect_bits(p, matmul::default_program(p, target, 0), generator(), ++seed, 20);
    if (HasFailure()) return;
  }
  for (const char* text :
       {"matmul:bf16:m=5,n=83,k=61,b=packed:+silu*gate", "matmul:bf16:m=19,n=160,k=51,b=packed:*row_scale+bias+swiglu",
        "matmul:bf16:m=7,n=40,k=33,b=packed,alpha=0.5,beta=2:+relu+residual", "matmul:bf16:m=3,n=20,k=0,b=packed",
        "matmul:bf16:m=21,n=50,k=300,b=packed,batch=2:+bias+gelu", "matmul:bf16:m=4,n=30,k=9,b=packed:+gelu_erf"}) {
    const MatmulProblem p = matmul::parse_problem(text).value();
    for (int i = 0; i < (GetParam() == "llvm" ? 3 : 8); ++i) {
      TransformProgram t = matmul::random_program(p, ++seed, Isa::kAvx512, false, dots);
      while (t.dot == matmul::Dot::kNone) t = matmul::random_program(p, ++seed, Isa::kAvx512, false, dots);
      expect_bits(p, t, generator(), seed, 20);
      if (HasFailure()) return;
    }
  }
  autotune::Target target{.isas = {Isa::kAvx512}, .caches = {.l1d = 8 << 10, .l2 = 32 << 10}, .threads = {1}};
  target.codegens = {GetParam()}, target.numerics = "bf16", target.features = dots;
  const MatmulProblem p = matmul::parse_problem("matmul:bf16:m=9,n=101,k=59,b=packed:+bias").value();
  const autotune::Space space = autotune::enumerate(p, target);
  ASSERT_GT(space.candidates.size(), 10U);
  for (size_t i = 0; i < space.candidates.size(); i += GetParam() == "llvm" ? 97 : 17) {
    const auto& t = std::get<TransformProgram>(space.candidates[i].program);
    ASSERT_EQ(t.dot, matmul::Dot::kBf16);
    expect_bits(p, t, generator(), i);
    if (HasFailure()) return;
  }
}

std::vector<std::string> generator_names() {
  std::vector<std::string> names;
  for (const jit::CodeGenerator* g : jit::code_generators()) names.emplace_back(g->name());
  for (const std::string_view pipeline : jit::llvm_pipeline_names()) names.emplace_back(pipeline);
  return names;
}

std::string name_of(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');  // which gtest does not take
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, MatmulBits, ::testing::ValuesIn(generator_names()), name_of);

}  // namespace
}  // namespace hone
