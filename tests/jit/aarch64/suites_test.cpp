// Matmul and attention on AArch64, from packages: a sample of what tests/differential runs on this machine's
// instruction sets. Every case ends at the naive reference of its numerics class, on this machine; there, the bits must
// be the same.
#include <fmt/format.h>

#include "autotune/space/space.h"
#include "engine/base/random.h"
#include "kernels/attention/trial.h"
#include "kernels/matmul/trial.h"
#include "kernels/op/op.h"
#include "tests/jit/aarch64/emulation.h"

namespace hone::jit {
namespace {

class Aarch64Suites : public EmulatedTest {
 protected:
  void add(const op::Problem& problem, const op::Program& program, uint64_t seed) {
    const Status added = emulation_.add(problem, program, seed);
    ASSERT_TRUE(added.ok()) << added.message();
  }
  void add_default(const std::string& text, const std::string& numerics = "") {
    const Result<op::Problem> problem = op::parse_problem(text);
    ASSERT_TRUE(problem.ok()) << problem.status().message();
    add(*problem, op::default_program(*problem, {.isa = Isa::kNeon, .caches = {}, .numerics = numerics}),
        emulation_.cases());
  }
  // `count` candidates, evenly over the space.
  void add_candidates(const std::string& text, size_t count) {
    const op::Problem problem = op::parse_problem(text).value();
    const autotune::Target target{
        .isas = {Isa::kNeon}, .caches = {.l1d = 8 << 10, .l2 = 32 << 10}, .threads = {1}, .codegens = {"llvm"}};
    const autotune::Space space = autotune::enumerate(problem, target);
    ASSERT_GT(space.candidates.size(), count);
    for (size_t i = 0; i < count; ++i) add(problem, space.candidates[i * space.candidates.size() / count].program, i);
  }
};

// Any layout, strides, batch, alpha, beta and epilogue under any knob.
TEST_F(Aarch64Suites, MatmulRandomPrograms) {
  Random random(77);
  for (int i = 0; i < 30; ++i) {
    const uint64_t seed = random.next();
    const matmul::MatmulProblem problem = matmul::random_problem(seed, {.max_m = 40, .max_n = 130, .max_k = 90});
    add(problem, matmul::random_program(problem, seed + 1, Isa::kNeon), seed);
  }
  expect_equal_bits();
}

// Tiles, tails of every side, every layout, epilogues, beta, batch; and what a tuner would measure.
TEST_F(Aarch64Suites, MatmulShapes) {
  for (const char* text :
       {"matmul:f32:m=1,n=64,k=64,b=packed", "matmul:f32:m=1,n=211,k=67,b=nt:+bias", "matmul:f32:m=3,n=5,k=1",
        "matmul:f32:m=16,n=96,k=64,b=packed:+bias+gelu", "matmul:f32:m=17,n=97,k=65,b=packed:+silu*gate+residual",
        "matmul:f32:m=17,n=96,k=65,b=packed:+bias+swiglu*gate", "matmul:f32:m=37,n=101,k=59:*row_scale+gelu_erf",
        "matmul:f32:m=64,n=64,k=300,b=nt:+relu", "matmul:bf16:m=5,n=75,k=41,b=packed:+bias",
        "matmul:f16:m=13,n=97,k=30,b=packed", "matmul:f32:m=9,n=31,k=20,lda=24,ldb=40,ldc=33,batch=3"}) {
    SCOPED_TRACE(text);
    add_default(text);
  }
  add_candidates("matmul:f32:m=1,n=211,k=67,b=packed", 6);
  add_candidates("matmul:f32:m=37,n=101,k=59,b=nn:+bias+gelu", 6);
  add_candidates("matmul:f32:m=5,n=83,k=61,b=nt:+silu*gate", 6);
  expect_equal_bits();
}

TEST_F(Aarch64Suites, AttentionRandomPrograms) {
  Random random(91);
  for (int tried = 0; emulation_.cases() < 20 && tried < 80; ++tried) {
    const uint64_t seed = random.next();
    const attention::AttentionProblem problem =
        attention::random_problem(seed, {.max_q = 12, .max_kv = 140, .max_d = 48});
    const auto program = attention::random_program(problem, seed + 1, Isa::kNeon);
    if (program) add(problem, *program, seed);
  }
  EXPECT_EQ(emulation_.cases(), 20u) << "too few legal programs";
  expect_equal_bits();
}

TEST_F(Aarch64Suites, AttentionShapes) {
  for (const char* text :
       {"attention:f32:b=1,hq=8,hkv=2,q=1,kv=100,d=64", "attention:f32:b=2,hq=4,hkv=4,q=33,kv=33,d=40:causal",
        "attention:f32:b=1,hq=6,hkv=2,q=7,kv=130,d=24,page=16:causal:softcap=30",
        "attention:f32:b=2,hq=4,hkv=2,q=10,kv=120,d=19,k=blocked,page=64:causal:window=36",
        "attention:f32:b=1,hq=2,hkv=1,q=5,kv=70,d=17,dv=23:mask"}) {
    SCOPED_TRACE(text);
    add_default(text);
  }
  add_default("attention:f32:b=1,hq=8,hkv=2,q=3,kv=200,d=32:causal", "ordered");
  add_default("attention:f32:b=1,hq=8,hkv=2,q=1,kv=300,d=32", "split(64,3)");
  add_candidates("attention:f32:b=1,hq=4,hkv=2,q=9,kv=77,d=20:causal", 6);
  expect_equal_bits();
}

}  // namespace
}  // namespace hone::jit
