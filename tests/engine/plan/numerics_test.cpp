// Which of the stored plans of attention a caller gets: those of the classes it allows, at the nearest sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/plan/resolver.h"

namespace hone::plan {
namespace {

using testing::HasSubstr;

constexpr char kHere[] = "x86-64:here";
constexpr char kProblem[] = "attention:f32:b=1,hq=8,hkv=2,q=1,kv=4096,d=64";

Target here() {
  return {.key = kHere,
          .caches = {},
          .threads = 2,
          .engine = "hone test",
          .codegens = {{"asmjit", "1", {Isa::kAvx2, Isa::kAvx512}}}};
}

op::Problem problem(std::string_view text) { return op::parse_problem(text).value(); }

// The default program of a class, as if it had been measured.
db::StoredDecision tuned(std::string_view text, const std::string& numerics, double ns, int64_t at) {
  const op::Problem p = problem(text);
  db::StoredDecision d;
  d.id = at;
  d.machine = {.key = kHere, .label = "{}"};
  d.build = {.engine = "hone test", .codegens = "asmjit=1"};
  d.decision.problem = {.text = op::to_string(p), .family = op::family(p), .m = op::rows(p)};
  const op::Program program = op::default_program(p, {.isa = Isa::kAvx512, .caches = {}, .numerics = numerics});
  d.decision.winner = {.program = op::to_string(program),
                       .codegen = "asmjit",
                       .codegen_version = "1",
                       .threads = 2,
                       .numerics = numerics};
  d.decision.ns = ns;
  d.decision.decided_at = at;
  return d;
}

Plan plan_of(std::string_view text, const std::vector<db::StoredDecision>& decisions, const std::string& numerics) {
  Result<Plan> plan = resolve(problem(text), here(), Decisions(decisions), {.codegen = "", .numerics = numerics});
  EXPECT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ(plan->numerics, op::numerics(plan->program));
  EXPECT_TRUE(op::numerics_allowed(problem(text), numerics, plan->numerics)) << plan->numerics;
  return *std::move(plan);
}

// A newer and faster plan of a class that was not asked for changes nothing for anybody else.
TEST(PlanNumerics, EachCallerGetsPlansOfItsClasses) {
  const std::vector<db::StoredDecision> all = {tuned(kProblem, "online(256)", 1000, 1),
                                               tuned(kProblem, "split(256,4)", 500, 2),
                                               tuned(kProblem, "ordered", 800, 3)};
  const std::pair<const char*, const char*> cases[] = {{"", "online(256)"},
                                                       {"default", "online(256)"},
                                                       {"any", "split(256,4)"},
                                                       {"ordered", "ordered"},
                                                       {"split(256,4)", "split(256,4)"}};
  for (const auto& [wanted, got] : cases) {
    const Plan plan = plan_of(kProblem, all, wanted);
    EXPECT_EQ(plan.numerics, got) << wanted;
    EXPECT_EQ(plan.reason, Reason::kExact) << wanted;
  }
}

TEST(PlanNumerics, WithoutAPlanOfTheClassTheDefaultHasIt) {
  const Plan plan = plan_of(kProblem, {tuned(kProblem, "split(256,4)", 500, 2)}, "");
  EXPECT_EQ(plan.reason, Reason::kDefault);
  EXPECT_EQ(plan.numerics, "online(256)");
  ASSERT_EQ(plan.rejected.size(), 1u);
  EXPECT_THAT(plan.rejected[0].why, HasSubstr("numerics class 'split(256,4)' was not asked for"));
  EXPECT_EQ(plan_of(kProblem, {}, "online(64)").numerics, "online(64)");
}

TEST(PlanNumerics, ALabelThatIsNotTheProgramsClassIsNoPlan) {
  db::StoredDecision d = tuned(kProblem, "split(256,4)", 500, 2);
  d.decision.winner.numerics = "online(256)";
  const Plan plan = plan_of(kProblem, {d}, "");
  EXPECT_EQ(plan.reason, Reason::kDefault);
  EXPECT_THAT(plan.rejected[0].why, HasSubstr("is of numerics class 'split(256,4)'"));
}

// A whole that ran in one class has seen nothing of the others.
TEST(PlanNumerics, AWholeWithdrawsDecisionsOfItsOwnClass) {
  db::StoredDecision whole = tuned(kProblem, "split(256,4)", 5000, 3);
  whole.whole = db::Whole{.why = "in the whole of m.gguf (tg128) the default plan is faster", .threads = 2};
  const std::vector<db::StoredDecision> all = {tuned(kProblem, "online(256)", 1000, 1),
                                               tuned(kProblem, "split(256,4)", 500, 2), whole};
  const Plan online = plan_of(kProblem, all, "");
  EXPECT_EQ(online.reason, Reason::kExact);
  ASSERT_TRUE(online.from.has_value());
  EXPECT_EQ(online.from->decision, 1);
  const Plan split = plan_of(kProblem, all, "split(256,4)");
  ASSERT_TRUE(split.from.has_value());
  EXPECT_EQ(split.from->decision, 3);
  EXPECT_NE(split.from->why, "");
}

TEST(PlanNumerics, NearShapesAreNearInBatchRowsAndKeys) {
  const char far[] = "attention:f32:b=1,hq=8,hkv=2,q=1,kv=512,d=64",
             near[] = "attention:f32:b=2,hq=8,hkv=2,q=1,kv=3000,d=64";
  const Plan plan = plan_of(kProblem, {tuned(far, "online(256)", 10, 2), tuned(near, "online(256)", 1000, 1)}, "");
  EXPECT_EQ(plan.reason, Reason::kNearShape);
  ASSERT_TRUE(plan.from);
  EXPECT_EQ(plan.from->decision, 1);
  EXPECT_THAT(plan.from->difference, HasSubstr("tuned for b=2,q=1,kv=3000, asked for b=1,q=1,kv=4096"));
  const Plan none = plan_of("attention:f32:b=64,hq=8,hkv=2,q=1,kv=4096,d=64", {tuned(far, "online(256)", 10, 2)}, "");
  EXPECT_EQ(none.reason, Reason::kDefault);
  EXPECT_THAT(none.rejected[0].why, HasSubstr("too far from b=64,q=1,kv=4096"));
}

TEST(PlanNumerics, UnknownClassesAreRefused) {
  const Status s = resolve(problem(kProblem), here(), {}, {.codegen = "", .numerics = "fast"}).status();
  EXPECT_EQ(s.code(), Code::kInvalidArgument);
  EXPECT_EQ(resolve(problem("matmul:f32:m=1,n=2,k=3"), here(), {}, {.codegen = "", .numerics = "online(256)"})
                .status()
                .code(),
            Code::kInvalidArgument);
}

// Where no program of the class is legal, a plan that the engine would refuse is none.
TEST(PlanNumerics, WhatOnlyGeneratedCodeCouldHaveIsUnsupported) {
  const op::Problem rows = problem("attention:f32:b=1,hq=32,hkv=8,q=512,kv=4096,d=128");
  const op::Program split =
      op::default_program(rows, {.isa = Isa::kAvx512, .caches = {}, .numerics = "split(256,256)"});
  const Status rule = op::legal(rows, split);
  ASSERT_FALSE(rule.ok());
  const Status s = resolve(rows, here(), {}, {.codegen = "", .numerics = "split(256,256)"}).status();
  EXPECT_EQ(s.code(), Code::kUnsupported);
  EXPECT_THAT(s.message(), HasSubstr("numerics 'split(256,256)' needs generated code"));
  Target none = here();
  none.codegens.clear();
  EXPECT_EQ(resolve(problem(kProblem), none, {}, {.codegen = "", .numerics = "online(64)"}).status().code(),
            Code::kUnsupported);
  for (const auto& [wanted, got] : {std::pair("", "online(256)"), {"any", "online(256)"}, {"ordered", "ordered"}}) {
    const Result<Plan> plan = resolve(problem(kProblem), none, {}, {.codegen = "", .numerics = wanted});
    ASSERT_TRUE(plan.ok()) << plan.status().to_string();
    EXPECT_EQ(plan->codegen, kFallbackCodegen);
    EXPECT_EQ(plan->numerics, got);
  }
}

// Class `bf16` of matmul needs more of a CPU than its ISA says.
TEST(PlanNumerics, DotProductsOfBf16NeedTheCpuAndTheCaller) {
  constexpr char kMatmul[] = "matmul:bf16:m=8,n=96,k=64,b=packed";
  const std::vector<db::StoredDecision> all = {tuned(kMatmul, "ordered", 1000, 1), tuned(kMatmul, "bf16", 500, 2)};
  Target able = here();
  able.features = {Feature::kAvx512Bf16};
  const auto plan = [&](const Target& target, const char* numerics, const std::vector<db::StoredDecision>& known) {
    return resolve(problem(kMatmul), target, Decisions(known), {.codegen = "", .numerics = numerics});
  };
  for (const char* numerics : {"", "default", "ordered"}) {
    const Plan ordered = plan(able, numerics, all).value();
    EXPECT_EQ(ordered.numerics, "ordered") << numerics;
    EXPECT_EQ(ordered.reason, Reason::kExact) << numerics;
    EXPECT_EQ(plan(able, numerics, {}).value().numerics, "ordered");
  }
  for (const char* numerics : {"any", "bf16"}) {
    EXPECT_EQ(plan(able, numerics, all).value().numerics, "bf16") << numerics;
    EXPECT_EQ(plan(able, numerics, all).value().reason, Reason::kExact) << numerics;
    EXPECT_EQ(plan(able, numerics, {}).value().numerics, "bf16") << numerics;
  }
  // Faster or not: the weights of a matmul lie in pairs for all m, or for none.
  const std::vector<db::StoredDecision> slow = {tuned(kMatmul, "ordered", 500, 1), tuned(kMatmul, "bf16", 1000, 2)};
  EXPECT_EQ(plan(able, "any", slow).value().from->decision, 2);
  EXPECT_EQ(plan(able, "any", {slow.front()}).value().numerics, "bf16");
  Target mute = able;  // no generator has the ISA: the class is what there is
  mute.codegens = {{"asmjit", "1", {Isa::kAvx2}}};
  EXPECT_EQ(plan(mute, "any", {}).value().numerics, "ordered");
  mute.codegens.clear();
  EXPECT_EQ(plan(mute, "any", {}).value().codegen, kFallbackCodegen);
  const Plan without = plan(here(), "any", all).value();
  EXPECT_EQ(without.numerics, "ordered");
  ASSERT_EQ(without.rejected.size(), 1u);
  EXPECT_EQ(without.rejected[0].why, "needs avx512bf16, which this CPU lacks");
  EXPECT_EQ(plan(here(), "any", {}).value().numerics, "ordered");
  const Status refused = plan(here(), "bf16", all).status();
  EXPECT_EQ(refused.code(), Code::kUnsupported);
  EXPECT_THAT(refused.message(), HasSubstr("needs avx512bf16, which this CPU lacks"));
  Target weak = here();
  weak.codegens = {{"asmjit", "1", {Isa::kAvx2}}};
  EXPECT_THAT(plan(weak, "bf16", all).status().message(), HasSubstr("needs AVX512_BF16"));
}

}  // namespace
}  // namespace hone::plan
