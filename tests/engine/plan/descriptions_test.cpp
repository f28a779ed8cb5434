// "What would you choose on that machine": every description of the library, with databases of every other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "tests/engine/plan/decision_util.h"

namespace hone::plan {
namespace {

std::vector<matmul::MatmulProblem> problems() {
  std::vector<matmul::MatmulProblem> all;
  for (const auto& [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{1, 4096, 4096},
                                {5, 96, 7},
                                {128, 2048, 2048},
                                {1000, 5632, 2048},
                                {64, 17, 1}})
    for (const matmul::BLayout b : {matmul::BLayout::kNn, matmul::BLayout::kNt, matmul::BLayout::kPacked})
      all.push_back({.m = m, .n = n, .k = k, .b = b, .epilogue = {}});
  return all;
}

// A code generator of a machine that has AVX2 at best.
class Avx2Here final : public jit::CodeGenerator {
 public:
  std::string_view name() const override { return "here"; }
  std::string version() const override { return "1"; }
  bool targets(Isa isa) const override { return isa == Isa::kAvx2; }
  Result<std::unique_ptr<jit::CompiledKernel>> compile(const ir::Kernel&, Isa, const jit::CompileOptions&) override {
    return unsupported("not asked for");
  }
};

// Case d1: whatever was measured elsewhere, on every pair of machines.
TEST(PlanDescriptions, d1_every_pair_of_machines_gives_legal_plans) {
  for (const CpuDescription& there : cpu_library()) {
    for (const CpuDescription& here : cpu_library()) {
      SCOPED_TRACE(std::string(there.name) + " asked from " + std::string(here.name));
      const Machine from = described(there.name), machine = described(here.name);
      const Target target = target_of(machine);
      for (const matmul::MatmulProblem& p : problems()) {
        const db::StoredDecision foreign = decided(p, from, 1000);
        const MatmulPlan plan = resolved(p, target, {foreign});
        ASSERT_TRUE(machine.supports(plan.program.isa)) << matmul::to_string(plan.program);
        ASSERT_TRUE(matmul::legal(p, plan.program).ok()) << matmul::to_string(plan.program);
        const bool same = from.key() == machine.key() && kind_of(from) == kind_of(machine);
        EXPECT_EQ(plan.reason == Reason::kExact, same) << reason_name(plan.reason);
        EXPECT_TRUE(plan.from || !plan.rejected.empty());
        // Merged with a database of its own, that one is used.
        const MatmulPlan own = resolved(p, target, {foreign, decided(p, machine, 1)});
        EXPECT_EQ(own.reason, Reason::kExact);
        EXPECT_EQ(own.from->decision, same ? own.from->decision : 1);
      }
    }
  }
}

TEST(PlanDescriptions, DefaultsAreLegalAndBlockForCachesThatExist) {
  for (const CpuDescription& cpu : cpu_library()) {
    const Machine machine = described(cpu.name);
    const Target target = target_of(machine);
    for (const matmul::MatmulProblem& p : problems()) {
      SCOPED_TRACE(std::string(cpu.name) + " " + matmul::to_string(p));
      const MatmulPlan plan = resolved(p, target, {});
      EXPECT_EQ(plan.program.isa, *machine.best_isa());
      EXPECT_TRUE(matmul::legal(p, plan.program).ok());
      EXPECT_GE(plan.threads, 1);
      EXPECT_LE(plan.threads, machine.cpus_usable);
      // One block of A, all that is read again and again, fits in the largest L2 that any core has.
      EXPECT_LE(plan.program.mc * plan.program.kc * 4, 4 << 20) << matmul::to_string(plan.program);
    }
  }
}

// Asking about a machine with AVX-512 from one without: the answer is that machine's, and nothing of it may be run.
TEST(PlanDescriptions, AskingIsNotLimitedByThisMachine) {
  Avx2Here generator;
  jit::CodeGenerator* const generators[] = {&generator};
  const Machine zen4 = described("zen4");
  const matmul::MatmulProblem p = problems().front();
  const Target asked = make_target(zen4, zen4.cpus_usable, generators, Purpose::kAsk);
  EXPECT_EQ(resolve_for<matmul::Op>(p, asked, {})->program.isa, Isa::kAvx512);
  const Target executed = make_target(zen4, zen4.cpus_usable, generators);
  EXPECT_EQ(resolve_for<matmul::Op>(p, executed, {})->program.isa, Isa::kAvx2);
  const Target masked = make_target(described("vm_masked_avx512"), 4, generators, Purpose::kAsk);
  EXPECT_EQ(resolve_for<matmul::Op>(p, masked, {})->program.isa, Isa::kAvx2);
}

}  // namespace
}  // namespace hone::plan
