// All 2^32 arguments of every activation: minutes each.
#include <gtest/gtest.h>

#include "tests/kernels/math/bounds.h"

namespace hone::math {
namespace {

class VectorMathExhaustive : public testing::TestWithParam<Activation> {};

TEST_P(VectorMathExhaustive, HoldsItsBoundForEveryFloat) {
  const Worst worst = check_patterns(GetParam(), 1);
  RecordProperty("worst", std::to_string(worst.ratio));
  EXPECT_LE(worst.ratio, 1) << "x=" << worst.x << " got " << worst.got << " want " << worst.want;
}

INSTANTIATE_TEST_SUITE_P(All, VectorMathExhaustive, testing::ValuesIn(all_activations()),
                         [](const auto& tested) { return std::string(activation_name(tested.param)); });

}  // namespace
}  // namespace hone::math
