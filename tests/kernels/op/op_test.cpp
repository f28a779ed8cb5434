// What holds of any op: texts go round, ops do not mix, lists and errors name them.
#include "kernels/op/op.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hone::op {
namespace {

using testing::HasSubstr;

// One problem of each op.
constexpr std::string_view kProblems[] = {"matmul:f32:m=7,n=96,k=64,b=nt:+bias",
                                          "attention:f32:b=2,hq=4,hkv=2,q=5,kv=77,d=40:causal"};

TEST(Op, DefaultProgramsAreLegalAndTheirTextsGoRound) {
  for (const std::string_view text : kProblems) {
    const Result<Problem> problem = parse_problem(text);
    ASSERT_TRUE(problem.ok()) << problem.status().to_string();
    EXPECT_EQ(to_string(*problem), text);
    EXPECT_TRUE(validate(*problem).ok());
    EXPECT_TRUE(text.starts_with(name(*problem)));
    EXPECT_GT(flops(*problem), 0);
    EXPECT_GE(bytes(*problem), streamed_bytes(*problem));
    EXPECT_FALSE(empty(*problem));
    for (const Isa isa : all_isas()) {
      const Program program = default_program(*problem, {.isa = isa, .caches = {}, .numerics = ""});
      EXPECT_TRUE(legal(*problem, program).ok()) << legal(*problem, program).to_string();
      EXPECT_EQ(canonical(*problem, program), program);
      EXPECT_EQ(op::isa(program), isa);
      EXPECT_TRUE(numerics_allowed(*problem, "", numerics(program))) << numerics(program);
      EXPECT_TRUE(numerics_allowed(*problem, "any", numerics(program)));
      EXPECT_THAT(kernel_name(*problem, program), testing::StartsWith(std::string(name(*problem))));
      const Result<Program> again = parse_program(*problem, to_string(program));
      ASSERT_TRUE(again.ok()) << again.status().to_string();
      EXPECT_EQ(*again, program);
      const Result<std::vector<ir::Kernel>> kernels = lower(*problem, program);
      ASSERT_TRUE(kernels.ok()) << kernels.status().to_string();
      EXPECT_FALSE(kernels->empty());
    }
  }
}

TEST(Op, DistanceIsInDoublingsOfWhatAFamilyDiffersIn) {
  const Problem one = *parse_problem("matmul:f32:m=8,n=96,k=64"), other = *parse_problem("matmul:f32:m=32,n=96,k=64");
  EXPECT_EQ(family(one), family(other));
  EXPECT_EQ(distance(one, other), 2);
  EXPECT_EQ(distance(one, one), 0);
  EXPECT_EQ(sizes_text(other), "m=32");
  EXPECT_EQ(rows(other), 32);
}

TEST(Op, DistanceOfAttentionCountsBatchRowsAndKeys) {
  const Problem one = *parse_problem("attention:f32:b=1,hq=4,hkv=2,q=1,kv=512,d=64");
  const Problem other = *parse_problem("attention:f32:b=2,hq=4,hkv=2,q=1,kv=2048,d=64");
  EXPECT_EQ(family(one), family(other));
  EXPECT_EQ(distance(one, other), 3);
  EXPECT_EQ(sizes_text(other), "b=2,q=1,kv=2048");
  EXPECT_GT(distance(one, *parse_problem("matmul:f32:m=1,n=2,k=3")), 1e9);
}

TEST(Op, OpsDoNotMix) {
  const Problem matmul = *parse_problem(kProblems[0]), attention = *parse_problem(kProblems[1]);
  const Program program = default_program(matmul, {.isa = Isa::kAvx2, .caches = {}, .numerics = ""});
  EXPECT_EQ(legal(attention, program).code(), Code::kInvalidArgument);
  EXPECT_FALSE(lower(attention, program).ok());
  EXPECT_FALSE(parse_program(attention, to_string(program)).ok());
}

TEST(Op, DefaultProgramsHaveTheClassThatIsWanted) {
  const Problem problem = *parse_problem(kProblems[1]);
  for (const char* wanted : {"ordered", "online(64)", "split(256,4)"}) {
    ASSERT_TRUE(check_numerics(problem, wanted).ok()) << wanted;
    for (const Isa isa : all_isas()) {
      const Program program = default_program(problem, {.isa = isa, .caches = {}, .numerics = wanted});
      EXPECT_EQ(numerics(program), wanted);
      EXPECT_TRUE(legal(problem, program).ok()) << legal(problem, program).to_string();
      EXPECT_FALSE(numerics_allowed(problem, "default", wanted));
      EXPECT_TRUE(numerics_allowed(problem, "any", wanted));
    }
  }
  for (const char* wanted : {"online(100)", "online(256", "split(256)", "tuned"})
    EXPECT_EQ(check_numerics(problem, wanted).code(), Code::kInvalidArgument) << wanted;
}

TEST(Op, ErrorsNameTheOps) {
  const Result<Problem> none = parse_problem("conv:f32:n=1");
  EXPECT_EQ(none.status().code(), Code::kUnsupported);
  EXPECT_THAT(none.status().message(), HasSubstr("op 'conv' is not supported; ops: matmul, attention"));
  EXPECT_THAT(none.status().message(), HasSubstr("at column 1"));
  EXPECT_EQ(parse_problems("").status().code(), Code::kInvalidArgument);
  EXPECT_THAT(parse_problem("matmul:f32:m=1").status().message(), HasSubstr("key 'n' is missing"));
}

TEST(Op, ClassesThatNoOpHasAreRefused) {
  const Problem problem = *parse_problem(kProblems[0]);
  for (const char* wanted : {"", "default", "any", "ordered"}) EXPECT_TRUE(check_numerics(problem, wanted).ok());
  EXPECT_EQ(check_numerics(problem, "chaotic").code(), Code::kInvalidArgument);
  EXPECT_THAT(check_numerics(problem, "bf16").message(), HasSubstr("is for weights of bf16, not of f32"));
  EXPECT_TRUE(check_numerics(*parse_problem("matmul:bf16:m=1,n=2,k=3,b=packed"), "bf16").ok());
  for (const char* wanted : {"", "default", "ordered", "bf16"})
    EXPECT_FALSE(numerics_allowed(problem, wanted, "online(256)")) << wanted;
}

}  // namespace
}  // namespace hone::op
