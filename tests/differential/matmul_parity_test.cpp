// A scheduled run is bit-identical to a sequential one, whatever the schedule, and call 1 equals call N, also after the
// kernel was made again by another code generator. Odd shapes, programs of every way to cut, all code generators.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/matmul/guarded_operands.h"
#include "kernels/matmul/trial.h"
#include "tests/differential/parity.h"

namespace hone {
namespace {

using matmul::MatmulProblem;
using matmul::TransformProgram;
using runtime::Schedule;

constexpr const char* kShapes[] = {
    "matmul:f32:m=1,n=211,k=67,b=packed",       "matmul:f32:m=3,n=1,k=5",
    "matmul:f32:m=7,n=129,k=31,b=nt:+bias",     "matmul:f32:m=37,n=53,k=59:+silu",
    "matmul:f32:m=61,n=7,k=101:+residual",      "matmul:f32:m=33,n=257,k=13,batch=3,b=packed",
    "matmul:f32:m=13,n=96,k=31:+swiglu",        "matmul:f32:m=23,n=57,k=40,b=packed:*row_scale+bias",
    "matmul:bf16:m=9,n=75,k=41,b=packed:+gelu",
};
constexpr int kProgramsOfAShape = 6;
constexpr int kCalls = 3;

void run(const jit::Executable& executable, Schedule& on, matmul::Arguments args) {
  static jit::WorkspacePool workspaces;
  jit::Launch launch(executable, args.buffers.data(), args.params.data(), &workspaces);
  ASSERT_TRUE(parity::run(on, "matmul", launch));
}

void expect_parity(const MatmulProblem& problem, const TransformProgram& program) {
  const Result<ir::Kernel> kernel = matmul::lower(problem, program);
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  matmul::GuardedOperands operands(problem, program.panel, 5);
  auto check = [&](const jit::Executable& executable, Schedule& on, const std::string& what) {
    operands.reset_c();
    run(executable, on, operands.arguments());
    const matmul::Comparison comparison = operands.compare_with_reference();
    ASSERT_TRUE(comparison.ok()) << what << ": " << comparison.text;
  };
  for (jit::CodeGenerator* generator : parity::generators_for(program.isa)) {
    const Result<jit::Executable> executable = jit::make_executable(*kernel, *generator, program.isa);
    ASSERT_TRUE(executable.ok()) << executable.status().message();
    for (const parity::Named& on : parity::schedules())
      for (int call = 1; call <= kCalls; ++call)
        check(*executable, *on.schedule, fmt::format("{}, {}, call {}", generator->name(), on.name, call));
  }
}

// compare_with_reference() is bit for bit, so whatever equals the scalar chain equals each other.
TEST(MatmulParity, EveryScheduleGivesTheBitsOfTheSequentialRun) {
  uint64_t seed = 1;
  for (const char* text : kShapes) {
    const MatmulProblem problem = matmul::parse_problem(text).value();
    for (int i = 0; i < kProgramsOfAShape; ++i, ++seed) {
      const Isa isa = all_isas()[seed % all_isas().size()];
      const TransformProgram program = matmul::random_program(problem, seed, isa);
      SCOPED_TRACE(fmt::format("{} | {} | seed {}", text, matmul::to_string(program), seed));
      expect_parity(problem, program);
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace hone
