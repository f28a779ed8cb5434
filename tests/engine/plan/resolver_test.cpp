// The Resolver is a function of values: machines that are not here, databases that do not exist.
#include "engine/plan/resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <limits>

#include "kernels/matmul/blocking.h"

namespace hone::plan {
namespace {

using MatmulPlan = PlanOf<matmul::TransformProgram>;

using ::testing::HasSubstr;

constexpr char kHere[] = "x86-64:here";
constexpr char kAvx512Program[] =
    "vectorize(avx512,16) register_tile(12,32) tile(96,512,256) order(ji) pack_a(rows) pack_b(none) panel(16) "
    "unroll_k(2) "
    "prefetch_b(0) parallel(mn)";
constexpr char kAvx2Program[] =
    "vectorize(avx2,8) register_tile(4,16) tile(96,512,256) order(ji) pack_a(none) pack_b(none) panel(16) unroll_k(2) "
    "prefetch_b(0) parallel(mn)";

Target avx512_target() {
  return {.key = kHere,
          .caches = {},
          .threads = 2,
          .engine = "hone test",
          .codegens = {{"asmjit", "1", {Isa::kAvx2, Isa::kAvx512}}, {"llvm", "19", {Isa::kAvx2, Isa::kAvx512}}}};
}

Target avx2_target() {
  Target t = avx512_target();
  for (CodegenLabel& c : t.codegens) c.isas = {Isa::kAvx2};
  return t;
}

matmul::MatmulProblem problem(int64_t m, matmul::BLayout b = matmul::BLayout::kPacked) {
  return {.m = m, .n = 1024, .k = 512, .b = b, .epilogue = {}};
}

// A decision as the tuner of this machine and build would have stored it.
db::StoredDecision tuned(const matmul::MatmulProblem& p, const std::string& program, int64_t at) {
  db::StoredDecision d;
  d.id = at;
  d.machine = {.key = kHere, .label = "{}"};
  d.build = {.engine = "hone test", .codegens = "asmjit=1;llvm=19"};
  d.decision.problem = {.text = matmul::to_string(p), .family = matmul::family(p), .m = p.m};
  d.decision.winner = {
      .program = program, .codegen = "asmjit", .codegen_version = "1", .threads = 2, .numerics = "ordered"};
  d.decision.ns = 1000;
  d.decision.decided_at = at;
  return d;
}

MatmulPlan plan_of(const matmul::MatmulProblem& p, const Target& target, std::vector<db::StoredDecision> decisions,
                   const Constraints& constraints = {}) {
  Result<MatmulPlan> plan = resolve_for<matmul::Op>(p, target, Decisions(std::move(decisions)), constraints);
  EXPECT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_TRUE(matmul::legal(p, plan->program).ok());
  return *std::move(plan);
}

TEST(PlanResolver, NothingMeasuredGivesTheDefaultProgram) {
  const MatmulPlan plan = plan_of(problem(128), avx512_target(), {});
  EXPECT_EQ(plan.reason, Reason::kDefault);
  EXPECT_EQ(plan.codegen, "asmjit");
  EXPECT_FALSE(plan.from);
  EXPECT_EQ(plan.program, matmul::default_program(problem(128), {.isa = Isa::kAvx512, .threads = plan.threads}));
}

TEST(PlanResolver, ExactGivesWhatWasMeasured) {
  const MatmulPlan plan = plan_of(problem(128), avx512_target(), {tuned(problem(128), kAvx512Program, 1)});
  EXPECT_EQ(plan.reason, Reason::kExact);
  EXPECT_EQ(matmul::to_string(plan.program), kAvx512Program);
  EXPECT_EQ(plan.threads, 2);
  ASSERT_TRUE(plan.from);
  EXPECT_EQ(plan.from->decision, 1);
  EXPECT_EQ(plan.from->difference, "");
}

TEST(PlanResolver, WeightsOfAnotherTypeAreNoNearShape) {
  matmul::MatmulProblem bf16 = problem(128);
  bf16.dtype = DType::kBf16;
  EXPECT_EQ(plan_of(problem(128), avx512_target(), {tuned(bf16, kAvx512Program, 1)}).reason, Reason::kDefault);
  EXPECT_EQ(plan_of(bf16, avx512_target(), {tuned(problem(128), kAvx512Program, 1)}).reason, Reason::kDefault);
  EXPECT_EQ(plan_of(bf16, avx512_target(), {tuned(bf16, kAvx512Program, 1)}).reason, Reason::kExact);
}

TEST(PlanResolver, TheNewestDecisionWins) {
  std::string newer = kAvx512Program;
  newer.replace(newer.find("unroll_k(2)"), 11, "unroll_k(4)");
  const MatmulPlan plan =
      plan_of(problem(128), avx512_target(), {tuned(problem(128), kAvx512Program, 1), tuned(problem(128), newer, 2)});
  EXPECT_EQ(plan.from->decision, 2);
  EXPECT_EQ(plan.program.unroll_k, 4);
}

// A run that may use one thread only answers another question than the run before it, which found two to be faster.
// A date that cannot be negated, as a file that is not checked may hold.
TEST(PlanResolver, AnyDateOfADecisionIsOrdered) {
  const auto p = problem(128);
  const MatmulPlan plan = plan_of(p, avx512_target(),
                                  {tuned(p, kAvx2Program, std::numeric_limits<int64_t>::min()),
                                   tuned(p, kAvx512Program, std::numeric_limits<int64_t>::max())});
  ASSERT_TRUE(plan.from.has_value());
  EXPECT_EQ(plan.from->decision, std::numeric_limits<int64_t>::max());
}

TEST(PlanResolver, ALaterRunWithFewerThreadsDoesNotHideAFasterPlan) {
  db::StoredDecision both = tuned(problem(1), kAvx512Program, 1), one = tuned(problem(1), kAvx2Program, 2);
  both.decision.ns = 500;
  one.decision.winner.threads = 1;
  one.decision.ns = 900;
  EXPECT_EQ(plan_of(problem(1), avx512_target(), {both, one}).threads, 2);
  // Where there is one thread, the two-thread plan is a near miss and the other one exact.
  const MatmulPlan alone = plan_of(problem(1), avx512_target(), {both, one}, {.threads = 1});
  EXPECT_EQ(alone.threads, 1);
  EXPECT_EQ(matmul::to_string(alone.program), kAvx2Program);
}

// A decision that was made while a model ran, for the plan that the default is.
db::StoredDecision taken_back(const matmul::MatmulProblem& p, const std::string& program, int64_t at, int threads) {
  db::StoredDecision d = tuned(p, program, at);
  d.decision.ns = 5000;  // of other rounds than those of a tune: no match for them
  d.whole = db::Whole{.why = "in the whole of m.gguf (pp512) the default plan is faster", .threads = threads};
  return d;
}

TEST(PlanResolver, WhatAWholeFoundWithdrawsOlderDecisions) {
  db::StoredDecision one_thread = tuned(problem(128), kAvx2Program, 2);
  one_thread.decision.winner.threads = 1;
  const MatmulPlan plan =
      plan_of(problem(128), avx512_target(),
              {tuned(problem(128), kAvx2Program, 1), one_thread, taken_back(problem(128), kAvx512Program, 3, 2)});
  EXPECT_EQ(plan.reason, Reason::kExact);
  EXPECT_EQ(matmul::to_string(plan.program), kAvx512Program);
  ASSERT_TRUE(plan.from);
  EXPECT_EQ(plan.from->decision, 3);
  EXPECT_THAT(plan.from->why, HasSubstr("m.gguf"));
  EXPECT_EQ(plan.from->difference, "");
}

TEST(PlanResolver, ATuneAfterAWholeDecidesAnew) {
  const MatmulPlan plan =
      plan_of(problem(128), avx512_target(),
              {tuned(problem(128), kAvx512Program, 1), taken_back(problem(128), kAvx512Program, 2, 2),
               tuned(problem(128), kAvx2Program, 3)});
  EXPECT_EQ(matmul::to_string(plan.program), kAvx2Program);
  EXPECT_EQ(plan.from->why, "");
}

// Its time was taken in other rounds, so it is no match for the whole's: a later tune counts however it compares.
TEST(PlanResolver, ATuneAfterAWholeCountsWhateverItsCodeGeneratorAndTime) {
  const db::StoredDecision whole = taken_back(problem(128), kAvx512Program, 2, 2);
  db::StoredDecision later = tuned(problem(128), kAvx2Program, 3);
  later.decision.winner.codegen = "llvm";
  later.decision.winner.codegen_version = "19";
  for (const double ns : {whole.decision.ns / 2, whole.decision.ns * 2}) {
    later.decision.ns = ns;
    EXPECT_EQ(plan_of(problem(128), avx512_target(), {whole, later}).from->decision, 3) << ns;
  }
  later.decision.winner.program = "not a program";
  EXPECT_EQ(plan_of(problem(128), avx512_target(), {whole, later}).from->decision, 2);
}

TEST(PlanResolver, ATuneOfFewerThreadsThanTheWholesPlanStaysBehindIt) {
  const db::StoredDecision whole = taken_back(problem(128), kAvx512Program, 2, 2);
  db::StoredDecision later = tuned(problem(128), kAvx2Program, 3);
  later.decision.winner.threads = later.decision.fallback.threads = 1;
  EXPECT_EQ(plan_of(problem(128), avx512_target(), {whole, later}).from->decision, 2);
  later.decision.fallback.threads = 2;  // it could have had two and chose one
  EXPECT_EQ(plan_of(problem(128), avx512_target(), {whole, later}).from->decision, 3);
}

TEST(PlanOutranks, AWholeIsComparedByAgeAndOthersByTime) {
  const auto decided = [](int64_t at, double ns, const std::string& why) {
    PlanFacts p;
    p.reason = Reason::kExact;
    p.from = Origin{.decision = at, .decided_at = at, .ns = ns, .why = why};
    return p;
  };
  const PlanFacts guess;
  PlanFacts package = decided(0, 0, "");
  package.reason = Reason::kPackage;
  const auto first_is_better = [](const PlanFacts& a, const PlanFacts& b) { return outranks(a, b) && !outranks(b, a); };
  EXPECT_TRUE(first_is_better(decided(1, 100, ""), decided(2, 200, "")));
  EXPECT_TRUE(first_is_better(decided(2, 500, "in the whole"), decided(1, 100, "")));
  EXPECT_TRUE(first_is_better(decided(3, 900, ""), decided(2, 500, "in the whole")));
  EXPECT_TRUE(first_is_better(decided(1, 100, ""), guess));
  EXPECT_TRUE(first_is_better(package, decided(2, 500, "in the whole")));
  EXPECT_FALSE(outranks(guess, guess));
  EXPECT_FALSE(outranks(package, package));
}

TEST(PlanResolver, AWholeOfOtherThreadsSaysNothing) {
  const MatmulPlan plan =
      plan_of(problem(128), avx512_target(),
              {tuned(problem(128), kAvx2Program, 1), taken_back(problem(128), kAvx512Program, 2, 1)});
  EXPECT_EQ(plan.reason, Reason::kExact);
  EXPECT_EQ(matmul::to_string(plan.program), kAvx2Program);
}

TEST(PlanResolver, AWithdrawnDecisionIsRejectedWithTheReason) {
  db::StoredDecision whole = taken_back(problem(128), kAvx512Program, 2, 2);
  whole.decision.winner.program = "not a program";
  const MatmulPlan plan = plan_of(problem(128), avx512_target(), {tuned(problem(128), kAvx2Program, 1), whole});
  EXPECT_EQ(plan.reason, Reason::kDefault);
  ASSERT_EQ(plan.rejected.size(), 2u);
  EXPECT_THAT(plan.rejected[1].why, HasSubstr("taken back: in the whole of m.gguf"));
}

TEST(PlanResolver, OfDecisionsThatWereMeasuredOnThesePanelsTheFastestCounts) {
  const std::string wide =
      "vectorize(avx512,16) register_tile(12,32) tile(96,512,256) order(ji) pack_a(rows) "
      "pack_b(none) panel(32) unroll_k(2) prefetch_b(0) parallel(mn)";
  db::StoredDecision fast = tuned(problem(128), wide, 2);  // newer and faster, but of other panels
  fast.decision.ns = 500;
  const std::vector<db::StoredDecision> both = {tuned(problem(128), kAvx512Program, 1), fast};
  EXPECT_EQ(plan_of(problem(128), avx512_target(), both, {.panel = 16}).from->decision, 1);
  EXPECT_EQ(plan_of(problem(128), avx512_target(), both, {.panel = 32}).from->decision, 2);
  EXPECT_EQ(plan_of(problem(128), avx512_target(), both).from->decision, 2);
}

TEST(PlanResolver, NearestMOfTheFamilyIsANearShape) {
  const MatmulPlan plan = plan_of(problem(100), avx512_target(),
                                  {tuned(problem(32), kAvx512Program, 9), tuned(problem(128), kAvx512Program, 1),
                                   tuned(problem(512), kAvx512Program, 9)});
  EXPECT_EQ(plan.reason, Reason::kNearShape);
  EXPECT_EQ(plan.from->m, 128);
  EXPECT_THAT(plan.from->difference, HasSubstr("tuned for m=128, asked for m=100"));
}

TEST(PlanResolver, AnotherFamilyIsNoNeighbour) {
  matmul::MatmulProblem other = problem(128);
  other.n = 2048;
  EXPECT_EQ(plan_of(problem(128), avx512_target(), {tuned(other, kAvx512Program, 1)}).reason, Reason::kDefault);
  EXPECT_EQ(
      plan_of(problem(128, matmul::BLayout::kNn), avx512_target(), {tuned(problem(128), kAvx512Program, 1)}).reason,
      Reason::kDefault);
}

TEST(PlanResolver, FarAwayMIsRefusedWithTheReason) {
  const MatmulPlan plan = plan_of(problem(1), avx512_target(), {tuned(problem(128), kAvx512Program, 1)});
  EXPECT_EQ(plan.reason, Reason::kDefault);
  ASSERT_EQ(plan.rejected.size(), 1u);
  EXPECT_THAT(plan.rejected[0].why, HasSubstr("too far from m=1"));
}

TEST(PlanResolver, ANearShapeWithFewerRowsGetsATileOfItsOwnRows) {
  const std::string one_row =
      "vectorize(avx512,16) register_tile(1,128) tile(1,128,512) order(ji) pack_a(none) pack_b(none) panel(16) "
      "unroll_k(4) "
      "prefetch_b(8) parallel(mn)";
  const MatmulPlan plan = plan_of(problem(4), avx512_target(), {tuned(problem(1), one_row, 1)});
  EXPECT_EQ(plan.reason, Reason::kNearShape);
  EXPECT_EQ(plan.program.mr, 4);
  EXPECT_EQ(plan.program.unroll_k, 4);
  EXPECT_THAT(plan.from->difference, HasSubstr("mr 1 -> 4"));
}

TEST(PlanResolver, AnotherMachineIsALabelledNearMiss) {
  db::StoredDecision d = tuned(problem(128), kAvx2Program, 1);
  d.machine.key = "x86-64:elsewhere";
  const MatmulPlan plan = plan_of(problem(128), avx512_target(), {d});
  EXPECT_EQ(plan.reason, Reason::kNearMachine);
  EXPECT_EQ(plan.from->machine, "x86-64:elsewhere");
  EXPECT_THAT(plan.from->difference, HasSubstr("measured on a CPU with other features"));
}

TEST(PlanResolver, d1_never_an_illegal_plan_from_a_merged_database) {
  db::StoredDecision other = tuned(problem(128), kAvx512Program, 2);
  other.machine.key = "x86-64:avx512";
  const MatmulPlan fallen = plan_of(problem(128), avx2_target(), {other});
  EXPECT_EQ(fallen.reason, Reason::kDefault);
  EXPECT_EQ(fallen.program.isa, Isa::kAvx2);
  ASSERT_FALSE(fallen.rejected.empty());
  EXPECT_THAT(fallen.rejected[0].why, HasSubstr("avx512"));
  // With a plan of its own beside it, that one.
  const MatmulPlan own = plan_of(problem(128), avx2_target(), {other, tuned(problem(128), kAvx2Program, 1)});
  EXPECT_EQ(own.reason, Reason::kExact);
  EXPECT_EQ(own.program.isa, Isa::kAvx2);
}

TEST(PlanResolver, d2_preferences_are_not_part_of_the_key) {
  db::StoredDecision d = tuned(problem(128), kAvx512Program, 1);
  d.machine.label = R"({"l2": 1})";
  Target target = avx512_target();
  target.caches.l2 = 2 << 20;
  EXPECT_EQ(plan_of(problem(128), target, {d}).reason, Reason::kExact);
}

TEST(PlanResolver, d6_a_winner_that_this_build_cannot_read_is_passed_over) {
  db::StoredDecision gone = tuned(problem(128), "vectorize(avx512,16) swizzle(3)", 3);
  db::StoredDecision illegal = tuned(problem(128), kAvx512Program, 2);
  illegal.decision.winner.program.replace(illegal.decision.winner.program.find("(12,32)"), 7, "(28,32)");
  const MatmulPlan plan =
      plan_of(problem(128), avx512_target(), {tuned(problem(128), kAvx512Program, 1), gone, illegal});
  EXPECT_EQ(plan.reason, Reason::kExact);
  EXPECT_EQ(plan.from->decision, 1);
  ASSERT_EQ(plan.rejected.size(), 2u);
  EXPECT_THAT(plan.rejected[0].why, HasSubstr("not a program of this build"));
  EXPECT_THAT(plan.rejected[1].why, HasSubstr("mc=96 is not a multiple of mr=28"));
}

TEST(PlanResolver, m13_bounded_code_falls_back_to_a_legal_program) {
  matmul::MatmulProblem p = problem(100);
  p.k = 1000;
  std::string unrolled = kAvx512Program;
  unrolled.replace(unrolled.find("unroll_k(2)"), 11, "unroll_k(1000)");
  const MatmulPlan plan = plan_of(p, avx512_target(), {tuned(p, unrolled, 1)});
  EXPECT_EQ(plan.reason, Reason::kDefault);
  ASSERT_EQ(plan.rejected.size(), 1u);
  EXPECT_THAT(plan.rejected[0].why, HasSubstr("unroll_k=1000"));
}

TEST(PlanResolver, AnotherBuildOrCodegenVersionIsNotExact) {
  db::StoredDecision build = tuned(problem(128), kAvx512Program, 1);
  build.build.engine = "hone 0.0.1";
  MatmulPlan plan = plan_of(problem(128), avx512_target(), {build});
  EXPECT_EQ(plan.reason, Reason::kNearMachine);
  EXPECT_THAT(plan.from->difference, HasSubstr("measured by hone 0.0.1"));

  db::StoredDecision version = tuned(problem(128), kAvx512Program, 1);
  version.decision.winner.codegen_version = "0";
  plan = plan_of(problem(128), avx512_target(), {version});
  EXPECT_EQ(plan.reason, Reason::kNearMachine);
  EXPECT_THAT(plan.from->difference, HasSubstr("asmjit 0, this is 1"));

  // A neighbour of this build is better than the same problem of another.
  plan = plan_of(problem(128), avx512_target(), {version, tuned(problem(100), kAvx512Program, 1)});
  EXPECT_EQ(plan.reason, Reason::kNearShape);
}

TEST(PlanResolver, MoreThreadsThanHereAreClampedAndLabelled) {
  db::StoredDecision d = tuned(problem(128), kAvx512Program, 1);
  d.decision.winner.threads = 64;
  const MatmulPlan plan = plan_of(problem(128), avx512_target(), {d});
  EXPECT_EQ(plan.reason, Reason::kNearMachine);
  EXPECT_EQ(plan.threads, 2);
  EXPECT_THAT(plan.from->difference, HasSubstr("64 threads"));
  EXPECT_EQ(plan_of(problem(128), avx512_target(), {d}, {.threads = 1}).threads, 1);
}

TEST(PlanResolver, AMissingCodeGeneratorIsReplaced) {
  Target target = avx512_target();
  target.codegens.erase(target.codegens.begin());
  const MatmulPlan plan = plan_of(problem(128), target, {tuned(problem(128), kAvx512Program, 1)});
  EXPECT_EQ(plan.codegen, "llvm");
  EXPECT_EQ(plan.reason, Reason::kNearMachine);
  EXPECT_THAT(plan.from->difference, HasSubstr("measured with asmjit"));
}

TEST(PlanResolver, PanelsThatArePackedAlreadyConstrainThePlan) {
  // 12x32 reads panels of 16 as well as of 32, but not of 48.
  MatmulPlan plan = plan_of(problem(128), avx512_target(), {tuned(problem(128), kAvx512Program, 1)}, {.panel = 32});
  EXPECT_EQ(plan.program.panel, 32);
  EXPECT_EQ(plan.reason, Reason::kNearShape);
  EXPECT_THAT(plan.from->difference, HasSubstr("panel 16 -> 32"));
  plan = plan_of(problem(128), avx512_target(), {tuned(problem(128), kAvx512Program, 1)}, {.panel = 48});
  EXPECT_EQ(plan.program.panel, 48);
  EXPECT_EQ(plan.reason, Reason::kDefault);
  EXPECT_THAT(plan.rejected[0].why, HasSubstr("not a multiple of panel=48"));
}

TEST(PlanResolver, EveryWidthOfPanelHasALegalDefaultForEveryM) {
  // Up to the widest panel that one row can use: 14 vectors on AVX2, 16 on AVX-512.
  const struct {
    Target target;
    std::vector<int64_t> panels;
  } cases[] = {{avx512_target(), {8, 16, 24, 32, 48, 64, 96, 128, 256}},
               {avx2_target(), {8, 16, 24, 32, 48, 64, 96, 112}}};
  for (const auto& [target, panels] : cases) {
    for (int64_t panel : panels) {
      for (int64_t m : {1, 2, 3, 5, 8, 9, 31, 128, 5000}) {
        const MatmulPlan plan = plan_of(problem(m), target, {}, {.panel = panel});
        EXPECT_EQ(plan.program.panel, panel) << "m=" << m;
        EXPECT_NE(plan.codegen, kFallbackCodegen) << "m=" << m << " panel=" << panel;
      }
    }
  }
}

TEST(PlanResolver, OtherNumericsAreNotTakenUnasked) {
  db::StoredDecision d = tuned(problem(128), kAvx512Program, 1);
  d.decision.winner.numerics = "split_k(4)";
  const MatmulPlan plan = plan_of(problem(128), avx512_target(), {d});
  EXPECT_EQ(plan.reason, Reason::kDefault);
  EXPECT_THAT(plan.rejected[0].why, HasSubstr("split_k(4)"));
}

TEST(PlanResolver, WithoutACodeGeneratorThePrecompiledKernelRemains) {
  Target target = avx512_target();
  target.codegens.clear();
  EXPECT_EQ(plan_of(problem(128), target, {}).codegen, kFallbackCodegen);
}

TEST(PlanResolver, BadInputIsNamed) {
  EXPECT_EQ(resolve_for<matmul::Op>(problem(-1), avx512_target(), {}).status().code(), Code::kInvalidArgument);
  const Status s = resolve_for<matmul::Op>(problem(1), avx512_target(), {}, {.codegen = "gcc"}).status();
  EXPECT_EQ(s.code(), Code::kNotFound);
  EXPECT_THAT(s.message(), HasSubstr("'gcc' cannot be used here; usable: asmjit, llvm"));
}

TEST(PlanResolver, AThousandPlansFromAColdDatabase) {
  const std::string path = ::testing::TempDir() + "hone_cold_" + std::to_string(getpid()) + ".db";
  {
    Result<std::unique_ptr<db::Store>> store = db::open({.path = path});
    ASSERT_TRUE(store.ok()) << store.status().to_string();
    Result<int64_t> run = (*store)->begin_run({.key = kHere, .label = "{}"}, {.engine = "hone test", .codegens = "x"},
                                              {.seed = 1, .cache_mode = "warm", .noise_bound = 0, .settings = "{}"});
    ASSERT_TRUE(run.ok()) << run.status().to_string();
    for (int64_t i = 0; i < 1000; ++i) {
      matmul::MatmulProblem p = problem(1 + i % 10);
      p.n = 64 * (1 + i / 10);
      db::Decision d = tuned(p, kAvx512Program, 1).decision;
      d.fallback = d.winner;
      d.default_ns = d.ns;
      ASSERT_TRUE((*store)->add_decision(*run, d).ok());
    }
  }
  const auto start = std::chrono::steady_clock::now();
  Result<std::unique_ptr<db::Store>> store = db::open({.path = path, .mode = db::OpenMode::kReadOnly});
  ASSERT_TRUE(store.ok());
  Result<Decisions> decisions = Decisions::load(**store);
  ASSERT_TRUE(decisions.ok()) << decisions.status().to_string();
  const Target target = avx512_target();
  int exact = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    matmul::MatmulProblem p = problem(1 + i % 10);
    p.n = 64 * (1 + i / 10);
    Result<MatmulPlan> plan = resolve_for<matmul::Op>(p, target, *decisions);
    ASSERT_TRUE(plan.ok());
    exact += plan->reason == Reason::kExact;
  }
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  RecordProperty("milliseconds", std::to_string(ms));
  EXPECT_EQ(exact, 1000);
  // The figure itself is bench/engine/plan/lookup_bench's business.
  for (const char* suffix : {"", "-wal", "-shm"}) std::remove((path + suffix).c_str());
}

}  // namespace
}  // namespace hone::plan
