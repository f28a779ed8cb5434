// Every knob of a program reaches the machine code: two programs that differ in it have different instructions.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "engine/base/machine.h"
#include "jit/codegen.h"
#include "kernels/matmul/program.h"

namespace hone {
namespace {

using matmul::TransformProgram;

std::string code_of(const matmul::MatmulProblem& problem, const TransformProgram& program,
                    jit::CodeGenerator& generator) {
  const Result<ir::Kernel> kernel = matmul::lower(problem, program);
  EXPECT_TRUE(kernel.ok()) << kernel.status().message();
  if (!kernel.ok()) return "";
  const auto compiled = generator.compile(*kernel, program.isa);
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  if (!compiled.ok()) return "";
  const std::span<const std::byte> code = (*compiled)->code();
  return {reinterpret_cast<const char*>(code.data()), code.size()};
}

TEST(MatmulKnobs, EachChangesTheInstructions) {
  const Machine machine = detect_machine().value();
  if (!machine.supports(Isa::kAvx2)) GTEST_SKIP() << "this CPU has no AVX2 and FMA";
  const matmul::MatmulProblem problem = matmul::parse_problem("matmul:f32:m=500,n=1000,k=1000").value();
  TransformProgram base;
  base.mr = 6, base.nr = 16, base.mc = 72, base.nc = 128, base.kc = 256;
  base.pack_a = matmul::PackA::kRows, base.pack_b = matmul::PackB::kBlock, base.parallel = matmul::ParallelDim::kN;
  const std::map<std::string, void (*)(TransformProgram&)> knobs = {
      {"mr", [](TransformProgram& p) { p.mr = 4; }},
      {"nr", [](TransformProgram& p) { p.nr = 8; }},
      {"mc", [](TransformProgram& p) { p.mc = 144; }},
      {"nc", [](TransformProgram& p) { p.nc = 256; }},
      {"kc", [](TransformProgram& p) { p.kc = 128; }},
      {"order", [](TransformProgram& p) { p.order = matmul::TileOrder::kIj; }},
      {"pack_a", [](TransformProgram& p) { p.pack_a = matmul::PackA::kNone; }},
      {"pack_b none", [](TransformProgram& p) { p.pack_b = matmul::PackB::kNone; }},
      {"pack_b strip", [](TransformProgram& p) { p.pack_b = matmul::PackB::kStrip; }},
      {"unroll_k", [](TransformProgram& p) { p.unroll_k = 4; }},
      {"prefetch_b", [](TransformProgram& p) { p.prefetch_b = 8; }},
      {"prefetch_c", [](TransformProgram& p) { p.prefetch_c = true; }},
      {"parallel", [](TransformProgram& p) { p.parallel = matmul::ParallelDim::kM; }},
  };
  int generators = 0;
  for (jit::CodeGenerator* generator : jit::code_generators()) {
    if (generator->name() == "interp" || !generator->targets(Isa::kAvx2)) continue;
    ++generators;
    std::map<std::string, std::string> seen = {{code_of(problem, base, *generator), "base"}};
    EXPECT_EQ(code_of(problem, base, *generator), seen.begin()->first) << "compiling twice gives the same code";
    for (const auto& [name, change] : knobs) {
      TransformProgram changed = base;
      change(changed);
      const auto [at, fresh] = seen.emplace(code_of(problem, changed, *generator), name);
      EXPECT_TRUE(fresh) << generator->name() << ": " << name << " gives the code of " << at->second;
    }
  }
  if (generators == 0) GTEST_SKIP() << "this build has no code generator that emits AVX2";
}

}  // namespace
}  // namespace hone
