// The arena: reuse, and the checker that proves it.
#include "tests/engine/passes/dispatch_testing.h"

namespace hone::passes {
namespace {

using graph::Dim;
using graph::ValueId;
using testing::HasSubstr;

class PlanMemory : public DispatchTest {
 protected:
  void chain() {
    ValueId v = rows("x", 32);
    for (int i = 0; i < 5; ++i) v = b.matmul(v, ones({32, 32}), "m" + std::to_string(i));
    b.output(v);
  }
};

TEST_F(PlanMemory, LifetimesThatDoNotMeetShareMemory) {
  chain();
  ASSERT_TRUE(all().ok());
  const int64_t one = 128 * 32 * 4;
  EXPECT_EQ(c.memory.without_reuse, 4 * one);  // the last is the output
  EXPECT_EQ(c.memory.arena_bytes, 2 * one);
}

TEST_F(PlanMemory, ThePolicyKeepsThemApart) {
  chain();
  c.policy.reuse = ReusePolicy::kApart;
  ASSERT_TRUE(all().ok());
  EXPECT_EQ(c.memory.arena_bytes, c.memory.without_reuse);
}

TEST_F(PlanMemory, TheCheckerSeesTwoThatOverlap) {
  chain();
  ASSERT_TRUE(all().ok());
  ASSERT_TRUE(check_memory(c).ok());
  for (const char* value : {"m0", "m1"}) c.buffers[static_cast<size_t>(place(value).buffer)].offset = 0;
  EXPECT_THAT(check_memory(c).message(), HasSubstr("m0 and m1 live at the same time and overlap"));
  c.buffers[static_cast<size_t>(place("m0").buffer)].offset = 8;
  EXPECT_THAT(check_memory(c).message(), HasSubstr("m0 at offset 8 is not inside the arena"));
}

TEST_F(PlanMemory, SizesBeyondAllMemoryAreNamed) {
  b.symbol({.name = "t", .min = 1, .max = int64_t{1} << 40});
  const ValueId x = b.input("x", {DType::kF32, {Dim::symbol("t"), 64}});
  b.output(b.matmul(b.matmul(x, ones({int64_t{1} << 22, 64}), "wide"), ones({8, int64_t{1} << 22})));
  EXPECT_THAT(all().message(), HasSubstr("wide is too large"));
}

}  // namespace
}  // namespace hone::passes
