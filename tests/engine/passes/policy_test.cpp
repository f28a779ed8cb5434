// Policies as text, there and back, and what is refused.
#include "engine/passes/policy.h"

#include <gtest/gtest.h>

namespace hone::passes {
namespace {

TEST(PassesPolicy, TheDefaultHasAName) {
  EXPECT_EQ(to_string(PlanPolicy{}), "default");
  ASSERT_TRUE(parse_policy("default").ok());
  EXPECT_EQ(*parse_policy(""), PlanPolicy{});
}

TEST(PassesPolicy, EveryFieldIsInTheText) {
  PlanPolicy p;
  p.attention = "any";
  p.keys = KeyPolicy::kBlocked;
  p.layout = LayoutPolicy::kPadded;
  p.qkv = p.residual = BoundaryPolicy::kSeparate;
  p.norm = NormPolicy::kFolded;
  p.reuse = ReusePolicy::kApart;
  p.experts = ExpertsPolicy::kPerExpert;
  p.threads = 3;
  const std::string text = to_string(p);
  EXPECT_EQ(text,
            "attention=any keys=blocked layout=padded qkv=separate residual=separate norm=folded reuse=apart "
            "experts=per_expert threads=3");
  ASSERT_TRUE(parse_policy(text).ok());
  EXPECT_EQ(*parse_policy(text), p);
}

TEST(PassesPolicy, RefusalsNameTheWordAndTheChoices) {
  EXPECT_EQ(parse_policy("layout=wide").status().message(), "layout=wide is unknown; it is one of dense, padded");
  EXPECT_EQ(parse_policy("shape=dense").status().message(),
            "'shape' is no plan policy; there are attention, keys, layout, qkv, gate_up, residual, norm, reuse, "
            "experts, threads");
  EXPECT_FALSE(parse_policy("fused").ok());
  for (const char* wrong : {"threads=0", "threads=-1", "threads=3x", "threads=99999999999", "threads=", "attention="})
    EXPECT_FALSE(parse_policy(wrong).ok()) << wrong;
}

}  // namespace
}  // namespace hone::passes
