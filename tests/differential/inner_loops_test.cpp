// What the study of code generators promises of every kernel: no inner loop keeps anything in the stack frame,
// whichever generator emitted it, for instruction sets that this CPU may lack.
#include <gtest/gtest.h>

#include "jit/codegen.h"
#include "jit/inspect/facts.h"
#include "kernels/op/op.h"

namespace hone {
namespace {

// Each op with what makes its loops differ: tails, epilogues with exp, masks, windows, pages that groups of keys fill
// or not.
constexpr const char* kProblems[] = {
    "matmul:f32:m=1,n=256,k=512,b=packed",
    "matmul:f32:m=4,n=256,k=512,b=packed",
    "matmul:f32:m=16,n=256,k=256,b=packed:+bias",
    "matmul:f32:m=128,n=256,k=256,b=packed:+bias+gelu_tanh",
    "matmul:f32:m=128,n=256,k=256,b=packed:+gelu_erf",
    "matmul:f32:m=8,n=512,k=512,b=packed:+silu*gate",
    "matmul:f32:m=1,n=256,k=256,b=nt",
    "matmul:f32:m=7,n=256,k=256,b=nt:+bias",
    "matmul:f32:m=127,n=255,k=511,b=nn",
    "matmul:f32:m=33,n=1000,k=7,b=nn",
    "matmul:f32:m=33,n=7,k=1000,b=nn",
    "matmul:f32:m=32,n=32,k=32,batch=64",
    "attention:f32:b=1,hq=8,hkv=2,q=512,kv=512,d=64:causal",
    "attention:f32:b=1,hq=8,hkv=2,q=512,kv=512,d=128:causal",
    "attention:f32:b=1,hq=8,hkv=2,q=77,kv=300,d=64,page=32:causal:window=100",
    "attention:f32:b=1,hq=8,hkv=2,q=128,kv=128,d=64:mask",
    "attention:f32:b=1,hq=8,hkv=2,q=128,kv=128,d=64:softcap=30",
    "attention:f32:b=1,hq=9,hkv=3,q=37,kv=61,d=40:causal",
    "attention:f32:b=1,hq=32,hkv=8,q=1,kv=500,d=128",
    "attention:f32:b=2,hq=16,hkv=4,q=1,kv=1000,d=64,page=16:causal",
    "attention:f32:b=2,hq=16,hkv=4,q=1,kv=1000,d=64,page=4:causal",
};

class InnerLoops : public testing::TestWithParam<Isa> {};

TEST_P(InnerLoops, KeepNothingInTheFrame) {
  const Isa isa = GetParam();
  const BlockingCaches caches{.l1d = 32 << 10, .l2 = 1 << 20, .l3_share = 16 << 20};
  for (const char* text : kProblems) {
    const op::Problem problem = op::parse_problem(text).value();
    const op::Program program = op::default_program(problem, {.isa = isa, .caches = caches, .threads = 1});
    const std::vector<ir::Kernel> kernels = op::lower(problem, program).value();
    for (jit::CodeGenerator* generator : jit::compiling_generators()) {
      if (!generator->emits(isa)) continue;
      for (const ir::Kernel& kernel : kernels) {
        const auto compiled = generator->compile(kernel, isa);
        ASSERT_TRUE(compiled.ok()) << text << ": " << compiled.status().to_string();
        const Result<jit::CodeFacts> facts = jit::inspect((*compiled)->code(), isa);
        if (!facts.ok()) GTEST_SKIP() << facts.status().message();
        for (const jit::Loop& loop : facts->loops) {
          if (!loop.innermost) continue;
          EXPECT_EQ(loop.counts.spills + loop.counts.reloads, 0)
              << generator->name() << " " << isa_info(isa).name << " " << text << "\n  " << op::to_string(program)
              << "\n  loop at " << loop.begin << " to " << loop.end;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, InnerLoops, testing::ValuesIn(all_isas().begin(), all_isas().end()),
                         [](const testing::TestParamInfo<Isa>& info) {
                           return std::string(isa_info(info.param).name);
                         });

}  // namespace
}  // namespace hone
