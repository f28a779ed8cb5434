// A kernel that shows a planted fault shrinks to little more than the fault, and stays valid on the way.
#include "kernels/ir/shrink.h"

#include <gtest/gtest.h>

#include <functional>

#include "kernels/ir/edit.h"
#include "kernels/ir/random.h"
#include "kernels/ir/text.h"
#include "kernels/ir/verify.h"

namespace hone::ir {
namespace {

bool contains(const Kernel& kernel, const std::function<bool(const Stmt&)>& wanted) {
  bool found = false;
  each_statement(const_cast<Kernel&>(kernel).body, [&](Stmt& s) { found = found || wanted(s); });
  return found;
}

bool divides(const Stmt& s) {
  const Binary* b = std::get_if<Binary>(&s.node);
  return b != nullptr && b->op == BinaryOp::kDiv;
}

// The first random kernel that verifies and has such a statement.
Specimen find(const std::function<bool(const Stmt&)>& wanted, uint64_t seed) {
  for (;; ++seed) {
    RandomKernel random = random_kernel(seed);
    if (verify(random.kernel).ok() && contains(random.kernel, wanted)) return {random.kernel, random.runs};
  }
}

TEST(IrShrink, WhatIsLeftIsTheFaultAndItsOperands) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Specimen large = find(divides, 1000 * seed);
    int asked = 0;
    const Specimen small = shrink(large, [&](const Specimen& s) {
      ++asked;
      EXPECT_TRUE(verify(s.kernel).ok());
      EXPECT_EQ(s.runs.front().size(), s.kernel.params().size());
      return contains(s.kernel, divides);
    });
    SCOPED_TRACE(print(small.kernel));
    EXPECT_TRUE(contains(small.kernel, divides));
    EXPECT_LE(count_statements(small.kernel), 2) << "the division, and what gives its operand";
    EXPECT_EQ(small.kernel.buffers.size(), 0U);
    EXPECT_EQ(small.kernel.registers.size(), 1U);
    EXPECT_EQ(small.kernel.params().size(), 0U);
    EXPECT_EQ(small.runs.size(), 1U);
    EXPECT_LT(asked, 600);
    EXPECT_GT(count_statements(large.kernel), 5);
  }
}

// A fault that needs a loop, a value of a parameter and a store keeps them, and nothing else.
TEST(IrShrink, WhatTheFaultNeedsStays) {
  auto stores_in_loop = [](const Stmt& s) {
    const For* loop = std::get_if<For>(&s.node);
    if (loop == nullptr) return false;
    for (const Stmt& inner : loop->body)
      if (const Store* store = std::get_if<Store>(&inner.node); store != nullptr && store->mask.valid()) return true;
    return false;
  };
  const Specimen large = find(stores_in_loop, 5);
  const Specimen small = shrink(large, [&](const Specimen& s) {
    return contains(s.kernel, stores_in_loop) && !s.runs.front().empty() && s.runs.front()[0] >= 2;
  });
  SCOPED_TRACE(print(small.kernel));
  EXPECT_TRUE(contains(small.kernel, stores_in_loop));
  EXPECT_LE(count_statements(small.kernel), 6);
  EXPECT_EQ(small.kernel.params().size(), 1U);
  EXPECT_EQ(small.runs.front().front(), 2);
}

// Who says no to everything gets back what it gave.
TEST(IrShrink, NothingChangesWithoutConsent) {
  const Specimen large = find(divides, 77);
  EXPECT_EQ(print(shrink(large, [](const Specimen&) { return false; }).kernel), print(large.kernel));
}

// Taking away what nothing uses leaves the text of the rest as it is.
TEST(IrShrink, KeepingWhatIsUsedKeepsTheProgram) {
  Kernel kernel = parse(R"(kernel k {
  param unused
  param n
  in nothing: f32[4] stride [1] align 4
  inout x: f32[n] stride [1] align 4
  reg no: f32x4
  reg a: f32x1
  for i in 0..n {
    a = load x[i]
    store x[i] = a
  }
}
)")
                      .value();
  keep_only(kernel, used(kernel));
  EXPECT_EQ(print(kernel), R"(kernel k {
  param n
  inout x: f32[n] stride [1] align 4
  reg a: f32x1
  for i in 0..n step 1 {
    a = load x[i]
    store x[i] = a
  }
}
)");
  EXPECT_TRUE(verify(kernel).ok());
}

}  // namespace
}  // namespace hone::ir
