#include <gmock/gmock.h>

#include "kernels/attention/blocking.h"

namespace hone::attention {
namespace {

using ::testing::HasSubstr;

TEST(AttentionNumerics, ClassesAreThoseThatProgramsHave) {
  const AttentionProblem problem = parse_problem("attention:f32:b=1,hq=8,hkv=2,q=33,kv=700,d=64:causal").value();
  for (const char* name : {"ordered", "online(16)", "online(256)", "online(4096)", "split(64,4)", "split(256,200)"}) {
    EXPECT_TRUE(check_numerics(name).ok()) << name;
    for (Isa isa : all_isas()) {
      const AttentionProgram program = default_program(problem, isa, {}, name);
      EXPECT_EQ(numerics(program), name);
      const Status status = legal(problem, program);
      EXPECT_TRUE(status.ok()) << to_string(program) << ": " << status.message();
    }
  }
  for (const char* any : {"", "default", "any"}) {
    EXPECT_TRUE(check_numerics(any).ok());
    EXPECT_EQ(numerics(default_program(problem, all_isas().back(), {}, any)), "online(256)");
  }
}

TEST(AttentionNumerics, OthersAreRefusedWithTheForms) {
  for (const char* name :
       {"fastest", "online", "online()", "online(0)", "online(17)", "online(-16)", "online(256", "split(64)",
        "split(64,1)", "split(64,257)", "split(64,4,2)", "split(64;4)", "ordered()", "online(99999999999999999999)",
        "online(9223372036854775792)", "online(0256)", "split(64,04)"}) {
    const Status status = check_numerics(name);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << name;
    EXPECT_THAT(status.message(), HasSubstr(name));
    EXPECT_THAT(status.message(), HasSubstr("split(KEYS,SPLITS)"));
  }
}

TEST(AttentionNumerics, OnlyTheDefaultClassUnlessOthersAreAllowed) {
  EXPECT_TRUE(numerics_allowed("", "online(256)"));
  EXPECT_TRUE(numerics_allowed("default", "online(256)"));
  EXPECT_FALSE(numerics_allowed("", "ordered"));
  EXPECT_TRUE(numerics_allowed("any", "split(64,4)"));
  EXPECT_TRUE(numerics_allowed("split(64,4)", "split(64,4)"));
  EXPECT_FALSE(numerics_allowed("split(64,4)", "split(64,5)"));
}

}  // namespace
}  // namespace hone::attention
