// Accuracy, special values, and agreement of the array version with the scalar one.
#include "kernels/math/vector_math.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/math/scalar_ops.h"
#include "tests/kernels/math/bounds.h"

namespace hone::math {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class VectorMath : public testing::TestWithParam<Activation> {};

TEST_P(VectorMath, HoldsItsBoundOnEvery97thFloat) {
  const Worst worst = check_patterns(GetParam(), 97);
  RecordProperty("worst", std::to_string(worst.ratio));
  EXPECT_LE(worst.ratio, 1) << "x=" << worst.x << " got " << worst.got << " want " << worst.want;
}

// Where a formula changes its behaviour: clamps, overflow, underflow, 0 and the ends of the number line.
TEST_P(VectorMath, HoldsItsBoundAroundBoundaries) {
  Worst worst;
  for (float centre : {0.0f,   0x1p-126f, 0.34657f, 1.0f,      3.92f, 5.54f,  9.02f,   10.07f, 12.0f, 86.99f, 87.34f,
                       87.68f, 88.0f,     88.376f,  88.72284f, 89.0f, 100.0f, 103.98f, 110.0f, 1e10f, 3e38f,  kInf}) {
    for (uint32_t sign : {0u, 0x80000000u}) {
      for (int64_t d = -3000; d <= 3000; ++d) {
        const int64_t bits = std::bit_cast<uint32_t>(centre) + d;
        if (bits < 0 || bits > 0x7fffffff) continue;
        const float x = std::bit_cast<float>(static_cast<uint32_t>(bits) | sign);
        check_one(GetParam(), x, scalar_activation(GetParam(), x), &worst);
      }
    }
  }
  EXPECT_LE(worst.ratio, 1) << "x=" << worst.x << " got " << worst.got << " want " << worst.want;
}

TEST_P(VectorMath, ArrayHasTheBitsOfScalar) {
  std::vector<float> x;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 49999) x.push_back(std::bit_cast<float>(uint32_t(bits)));
  std::vector<float> y(x.size());
  for (bool portable : {false, true}) {
    pretend_no_avx2_for_testing(portable);
    activate_array(GetParam(), x.data(), y.data(), static_cast<int64_t>(x.size()));
    pretend_no_avx2_for_testing(false);
    for (size_t i = 0; i < x.size(); ++i) {
      const float want = scalar_activation(GetParam(), x[i]);
      if (std::isnan(want) && std::isnan(y[i])) continue;
      ASSERT_EQ(std::bit_cast<uint32_t>(y[i]), std::bit_cast<uint32_t>(want))
          << "x=" << x[i] << " portable=" << portable;
    }
  }
}

TEST_P(VectorMath, NanGivesNan) {
  for (uint32_t bits : {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xffffffffu}) {
    EXPECT_TRUE(std::isnan(scalar_activation(GetParam(), std::bit_cast<float>(bits)))) << bits;
  }
}

INSTANTIATE_TEST_SUITE_P(All, VectorMath, testing::ValuesIn(all_activations()),
                         [](const auto& tested) { return std::string(activation_name(tested.param)); });

struct Special {
  Activation activation;
  float x, want;
};

TEST(VectorMathSpecial, ValuesAtTheEdges) {
  const Special cases[] = {
      {Activation::kExp, 0, 1},
      {Activation::kExp, -0.0f, 1},
      {Activation::kExp, kInf, kInf},
      {Activation::kExp, -kInf, 0},
      {Activation::kExp, 88.8f, kInf},
      {Activation::kExp, 3e38f, kInf},
      {Activation::kExp, -88.1f, 0},
      {Activation::kExp, -3e38f, 0},
      {Activation::kExpNonPositive, 0, 1},
      {Activation::kExpNonPositive, -0.0f, 1},
      {Activation::kExpNonPositive, -kInf, 0},
      {Activation::kExpNonPositive, -3.4e38f, 0},
      {Activation::kTanh, kInf, 1},
      {Activation::kTanh, -kInf, -1},
      {Activation::kTanh, 9.1f, 1},
      {Activation::kTanh, 1e-40f, 1e-40f},
      {Activation::kTanh, 0, 0},
      {Activation::kErf, kInf, 1},
      {Activation::kErf, -kInf, -1},
      {Activation::kErf, 4, 1},
      {Activation::kErf, -0.0f, -0.0f},
      {Activation::kSilu, kInf, kInf},
      {Activation::kSilu, -kInf, -0.0f},
      {Activation::kSilu, 0, 0},
      {Activation::kSilu, 3e38f, 3e38f},
      {Activation::kGeluTanh, kInf, kInf},
      {Activation::kGeluTanh, -kInf, -0.0f},
      {Activation::kGeluTanh, 1e30f, 1e30f},
      {Activation::kGeluErf, kInf, kInf},
      {Activation::kGeluErf, -kInf, 0},
      {Activation::kGeluErf, 1e30f, 1e30f},
      {Activation::kRelu, kInf, kInf},
      {Activation::kRelu, -kInf, 0},
      {Activation::kRelu, -0.0f, -0.0f},
  };
  for (const Special& c : cases) {
    const float got = scalar_activation(c.activation, c.x);
    EXPECT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(c.want))
        << activation_name(c.activation) << "(" << c.x << ") = " << got << ", want " << c.want;
  }
}

// What a softmax takes its weights from, for every float that it may meet: all 2^31 with a sign. Those above -2^-25
// round to 1 and those below -104 to 0, so only the 2.6 * 10^8 between are compared with libm.
TEST(VectorMathSpecial, ExpNonPositiveHoldsItsBoundForEveryFloat) {
  std::vector<float> x(1 << 16), y(x.size());
  Worst worst;
  for (uint32_t first = 0x80000000u; first != 0; first += static_cast<uint32_t>(x.size())) {
    for (size_t i = 0; i < x.size(); ++i) x[i] = std::bit_cast<float>(first + static_cast<uint32_t>(i));
    activate_array(Activation::kExpNonPositive, x.data(), y.data(), static_cast<int64_t>(x.size()));
    const float largest = x.front(), smallest = x.back();
    if (!std::isnan(smallest) && (largest < -104 || smallest > -0x1p-25f)) {
      const float want = largest < -104 ? 0.0f : 1.0f;
      for (float got : y) ASSERT_EQ(got, want) << "near x=" << largest;
    } else {
      for (size_t i = 0; i < x.size(); ++i) check_one(Activation::kExpNonPositive, x[i], y[i], &worst);
    }
  }
  EXPECT_LE(worst.ratio, 1) << "x=" << worst.x << " got " << worst.got << " want " << worst.want;
}

TEST(VectorMathSpecial, ErfIsOdd) {
  for (uint32_t bits = 0; bits < 0x7f800000u; bits += 9973) {
    const float x = std::bit_cast<float>(bits);
    ASSERT_EQ(scalar_activation(Activation::kErf, -x), -scalar_activation(Activation::kErf, x)) << x;
  }
}

// The check itself must be able to fail.
TEST(VectorMathSpecial, CheckRejectsNanAndInfinityAndNearMisses) {
  for (float bad : {kNan, kInf, -kInf, 1.0000005f}) {
    Worst worst;
    check_one(Activation::kExp, 0.0f, bad, &worst);
    EXPECT_GT(worst.ratio, 1) << bad;
  }
}

}  // namespace
}  // namespace hone::math
