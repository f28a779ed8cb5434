// The prover alone: what follows, what does not, and that hard arithmetic is "cannot prove" instead of wrong.
#include "kernels/ir/facts_internal.h"

#include <gtest/gtest.h>

namespace hone::ir {
namespace {

Linear operator+(const Linear& a, const Linear& b) { return combine(a, 1, b, 1); }
Linear operator-(const Linear& a, const Linear& b) { return combine(a, 1, b, -1); }
Linear operator*(int64_t f, const Linear& a) { return combine(a, f, linear_constant(0), 0); }
Linear num(int64_t c) { return linear_constant(c); }

TEST(IrFacts, FollowsChainsOfBounds) {
  Facts f;
  const Linear n = linear_var(f.add_var()), i = linear_var(f.add_var());
  f.assume(n);
  f.assume(i);
  f.assume(n - i - num(8));  // i <= n - 8
  EXPECT_TRUE(f.proves(n - i - num(8)));
  EXPECT_TRUE(f.proves(n - num(8)));  // only the two facts on i together say this
  EXPECT_FALSE(f.proves(n - i - num(9)));
  EXPECT_FALSE(f.proves(i - num(1)));
}

TEST(IrFacts, VariablesAreIntegers) {
  Facts f;
  const Linear n = linear_var(f.add_var()), q = linear_var(f.add_var());
  f.assume(num(47) - n);
  f.assume(n - 16 * q - num(1));  // 16 q <= n - 1 <= 46
  EXPECT_TRUE(f.proves(num(2) - q));
  EXPECT_TRUE(f.proves(num(47) - 16 * q - num(15)));
  EXPECT_FALSE(f.proves(num(1) - q));
}

TEST(IrFacts, MinimumIsOneOfItsArguments) {
  Facts f;
  const Linear n = linear_var(f.add_var());
  f.assume(n - num(3));
  const int v = f.add_var();
  f.assume_min(v, {num(8), n});
  const Linear least = linear_var(v);
  EXPECT_TRUE(f.proves(n - least));
  EXPECT_TRUE(f.proves(num(8) - least));
  EXPECT_TRUE(f.proves(least - num(3)));
  EXPECT_FALSE(f.proves(least - num(4)));
  const int w = f.add_var();
  f.assume_max(w, {num(8), n});
  EXPECT_TRUE(f.proves(linear_var(w) - least));
  EXPECT_TRUE(f.proves(n + num(5) - linear_var(w)));
  EXPECT_FALSE(f.proves(n + num(4) - linear_var(w)));
}

TEST(IrFacts, CasesOfAClause) {
  Facts f;
  const Linear e = linear_var(f.add_var()), n = linear_var(f.add_var());
  f.assume_any({e - num(1), num(-1) - e});  // e != 0
  f.assume(n - e);
  f.assume(n + e);  // n >= |e|
  EXPECT_TRUE(f.proves(n - num(1)));
  EXPECT_FALSE(f.proves(n - num(2)));
}

// A condition on a count of groups bounds the strip that it counts, through a minimum and a division.
TEST(IrFacts, ConditionsReachOuterVariables) {
  Facts f;
  const Linear n = linear_var(f.add_var()), strip = linear_var(f.add_var());
  f.assume(n);
  f.assume(strip);
  const int left = f.add_var();
  f.assume_max(left, {num(0), n - 48 * strip});
  const Linear groups = linear_var(f.add_var());
  f.assume(linear_var(left) + num(15) - 16 * groups);
  f.assume(16 * groups - linear_var(left));
  const Facts::Mark mark = f.mark();
  f.assume_condition(groups - num(3));
  EXPECT_TRUE(f.proves(n - 48 * strip - num(33)));
  EXPECT_FALSE(f.proves(n - 48 * strip - num(34)));
  f.forget(mark);
  EXPECT_FALSE(f.proves(n - 48 * strip - num(33)));
}

// Neither argument of a maximum allows the condition: what follows is never reached.
TEST(IrFacts, ConditionsThatCannotHoldProveAnything) {
  Facts f;
  const Linear n = linear_var(f.add_var());
  f.assume(num(64) - n);
  const int left = f.add_var();
  f.assume_max(left, {num(0), n});
  const Facts::Mark mark = f.mark();
  f.assume_condition(linear_var(left) - num(65));
  EXPECT_TRUE(f.proves_quickly(num(-1)));
  f.forget(mark);
  EXPECT_FALSE(f.proves(num(-1)));
}

TEST(IrFacts, ForgetsWhatEnds) {
  Facts f;
  const Linear n = linear_var(f.add_var());
  const Facts::Mark mark = f.mark();
  f.assume(n - num(5));
  const int inner = f.add_var();
  f.assume(n - linear_var(inner));
  f.assume_any({n - num(9)});
  EXPECT_TRUE(f.proves(n - num(9)));
  f.forget(mark);
  EXPECT_FALSE(f.proves(n - num(5)));
  EXPECT_EQ(f.add_var(), inner);
}

TEST(IrFacts, OverflowIsNotAProof) {
  Facts f;
  const Linear a = linear_var(f.add_var()), b = linear_var(f.add_var());
  const int64_t big = (int64_t{1} << 60) + 7;
  f.assume(a - num(1));
  f.assume(b - num(1));
  EXPECT_FALSE((8 * (big * a)).valid);
  EXPECT_FALSE(f.proves(8 * (big * a)));  // true, but beyond 64 bits
  EXPECT_TRUE(f.proves(big * a + big * b - num(2 * big)));
}

TEST(IrFacts, ContradictoryFactsProveAnything) {
  Facts f;
  const Linear n = linear_var(f.add_var());
  f.assume(n - num(5));
  f.assume(num(4) - n);
  EXPECT_TRUE(f.proves(num(-1)));
}

}  // namespace
}  // namespace hone::ir
