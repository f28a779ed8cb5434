// Ops on elements and ops that move them, against values worked out by hand or by libm in double.
#include <functional>
#include <limits>

#include "tests/engine/graph/evaluate_testing.h"

namespace hone::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

struct Function {
  std::string op;
  std::function<double(double)> exact;
  float lo, hi;
};
class ReferenceFunction : public ::testing::TestWithParam<Function> {};
TEST_P(ReferenceFunction, IsCloseToLibm) {
  Random random(7);
  Tensor x = Tensor::make(DType::kF32, {5, 40});
  std::vector<double> expected;
  for (float& v : x.as<float>()) {
    v = random.uniform(GetParam().lo, GetParam().hi);
    expected.push_back(GetParam().exact(v));
  }
  const Tensor y = run("input %x : f32[5, 40]\n%y = " + GetParam().op + " : f32[5, 40]", "%y", {x});
  ASSERT_EQ(y.shape, x.shape);
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(y.as<float>()[i], expected[i], 1e-6 * (1 + std::fabs(expected[i]))) << x.as<float>()[i];
}
INSTANTIATE_TEST_SUITE_P(
    All, ReferenceFunction,
    ::testing::Values(Function{"neg(%x)", [](double v) { return -v; }, -3, 3},
                      Function{"abs(%x)", [](double v) { return std::fabs(v); }, -3, 3},
                      Function{"exp(%x)", [](double v) { return std::exp(v); }, -20, 5},
                      Function{"log(%x)", [](double v) { return std::log(v); }, 0.001F, 30},
                      Function{"tanh(%x)", [](double v) { return std::tanh(v); }, -5, 5},
                      Function{"erf(%x)", [](double v) { return std::erf(v); }, -4, 4},
                      Function{"logistic(%x)", [](double v) { return 1 / (1 + std::exp(-v)); }, -9, 9},
                      Function{"sqrt(%x)", [](double v) { return std::sqrt(v); }, 0, 9},
                      Function{"rsqrt(%x)", [](double v) { return 1 / std::sqrt(v); }, 0.1F, 9},
                      Function{"sin(%x)", [](double v) { return std::sin(v); }, -9, 9},
                      Function{"cos(%x)", [](double v) { return std::cos(v); }, -9, 9},
                      Function{"silu(%x)", [](double v) { return v / (1 + std::exp(-v)); }, -9, 9},
                      Function{"gelu(%x) {approximate = \"erf\"}",
                               [](double v) { return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))); }, -5, 5},
                      Function{"gelu(%x) {approximate = \"tanh\"}",
                               [](double v) {
                                 return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
                               },
                               -5, 5},
                      Function{"swiglu(%x, %x)", [](double v) { return v * v / (1 + std::exp(-v)); }, -5, 5},
                      Function{"pow(%x, %x)", [](double v) { return std::pow(v, v); }, 0.1F, 3}));

Tensor binary(const std::string& op, const std::vector<float>& a, const std::vector<float>& b,
              const std::string& result = "f32[4]") {
  return run("input %a : f32[4]\ninput %b : f32[4]\n%y = " + op + " : " + result, "%y", {f32({4}, a), f32({4}, b)});
}

TEST(ReferenceElements, ArithmeticOfFloats) {
  EXPECT_THAT(floats(binary("add(%a, %b)", {1, 2, kInf, -0.0F}, {3, 0.5, 1, 0})), ElementsAre(4, 2.5, kInf, 0));
  EXPECT_THAT(floats(binary("sub(%a, %b)", {1, 2, 3, 4}, {3, 0.5, 1, 4})), ElementsAre(-2, 1.5, 2, 0));
  EXPECT_THAT(floats(binary("mul(%a, %b)", {1, 2, 3, 4}, {3, 0.5, -1, 0})), ElementsAre(3, 1, -3, 0));
  EXPECT_THAT(floats(binary("div(%a, %b)", {1, 2, 3, 4}, {2, 0.5, -1, 0})), ElementsAre(0.5, 4, -3, kInf));
  const auto larger = floats(binary("max(%a, %b)", {1, kNan, 3, -kInf}, {2, 5, kNan, 4}));
  EXPECT_EQ(larger[0], 2);
  EXPECT_TRUE(std::isnan(larger[1]) && std::isnan(larger[2]));
  EXPECT_EQ(larger[3], 4);
  const auto smaller = floats(binary("min(%a, %b)", {1, kNan, 3, -kInf}, {2, 5, kNan, 4}));
  EXPECT_EQ(smaller[0], 1);
  EXPECT_TRUE(std::isnan(smaller[1]) && std::isnan(smaller[2]));
}

TEST(ReferenceElements, Comparisons) {
  const std::vector<float> a = {1, 2, 3, kNan}, b = {1, 3, 2, kNan};
  const auto is = [&](const std::string& d) {
    return bytes(binary("compare(%a, %b) {direction = \"" + d + "\"}", a, b, "u8[4]"));
  };
  EXPECT_THAT(is("EQ"), ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(is("NE"), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(is("LT"), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(is("LE"), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(is("GT"), ElementsAre(0, 0, 1, 0));
  EXPECT_THAT(is("GE"), ElementsAre(1, 0, 1, 0));
}

TEST(ReferenceElements, IntegersWrapAndTruncate) {
  const auto of = [](const std::string& op) {
    return ints(run("input %a : s32[4]\ninput %b : s32[4]\n%y = " + op + " : s32[4]", "%y",
                    {s32({4}, {7, -7, INT32_MAX, INT32_MIN}), s32({4}, {2, 2, 1, -1})}));
  };
  EXPECT_THAT(of("add(%a, %b)"), ElementsAre(9, -5, INT32_MIN, INT32_MAX));
  EXPECT_THAT(of("sub(%a, %b)"), ElementsAre(5, -9, INT32_MAX - 1, INT32_MIN + 1));
  EXPECT_THAT(of("mul(%a, %b)"), ElementsAre(14, -14, INT32_MAX, INT32_MIN));
  EXPECT_THAT(of("div(%a, %b)"), ElementsAre(3, -3, INT32_MAX, INT32_MIN));
  EXPECT_THAT(of("max(%a, %b)"), ElementsAre(7, 2, INT32_MAX, -1));
  EXPECT_THAT(of("min(%a, %b)"), ElementsAre(2, -7, 1, INT32_MIN));
  EXPECT_THAT(of("abs(%a)"), ElementsAre(7, 7, INT32_MAX, INT32_MIN));
  EXPECT_THAT(of("neg(%a)"), ElementsAre(-7, 7, -INT32_MAX, INT32_MIN));
}

TEST(ReferenceElements, DivisionByZeroIsMinusOne) {
  EXPECT_THAT(ints(run("input %a : s32[2]\n%z = constant splat(0) : s32[2]\n%y = div(%a, %z) : s32[2]", "%y",
                       {s32({2}, {7, 0})})),
              ElementsAre(-1, -1));
}

TEST(ReferenceElements, Conversions) {
  const std::vector<float> x = {-1.9F, 2.9F, kNan, 1e20F, -1e20F, 0};
  const auto to = [&](const std::string& type) {
    return run("input %x : f32[6]\n%y = convert(%x) : " + type + "[6]", "%y", {f32({6}, x)});
  };
  EXPECT_THAT(ints(to("s32")), ElementsAre(-1, 2, 0, INT32_MAX, INT32_MIN, 0));
  EXPECT_THAT(bytes(to("u8")), ElementsAre(1, 1, 1, 1, 1, 0));
  EXPECT_THAT(floats(run("input %x : s32[2]\n%y = convert(%x) : f32[2]", "%y", {s32({2}, {-3, 16777217})})),
              ElementsAre(-3, 16777216));
}

TEST(ReferenceElements, TruthValues) {
  const std::string in = "%a = constant dense(0, 0, 1, 1) : u8[4]\n%b = constant dense(0, 1, 0, 1) : u8[4]\n";
  EXPECT_THAT(bytes(run(in + "%y = logical_and(%a, %b) : u8[4]", "%y", {})), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(bytes(run(in + "%y = logical_or(%a, %b) : u8[4]", "%y", {})), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(bytes(run(in + "%y = logical_not(%a) : u8[4]", "%y", {})), ElementsAre(1, 1, 0, 0));
  const std::string values = in + "%i = iota() {axis = 0} : s32[4]\n%n = neg(%i) : s32[4]\n";
  EXPECT_THAT(ints(run(values + "%y = select(%b, %i, %n) : s32[4]", "%y", {})), ElementsAre(0, 1, -2, 3));
  EXPECT_THAT(ints(run(values + "%c = constant dense(1) : u8[]\n%y = select(%c, %i, %n) : s32[4]", "%y", {})),
              ElementsAre(0, 1, 2, 3));
}

TEST(ReferenceElements, Iota) {
  EXPECT_THAT(ints(run("%y = iota() {axis = 0} : s32[2, 3]", "%y", {})), ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_THAT(floats(run("%y = iota() {axis = 1} : f32[2, 3]", "%y", {})), ElementsAre(0, 1, 2, 0, 1, 2));
}

// ---- shapes: x[i, j, k] = 100 i + 10 j + k tells where an element came from ----

Tensor places(int64_t a, int64_t b, int64_t c) {
  Tensor t = Tensor::make(DType::kF32, {a, b, c});
  for (int64_t i = 0; i < a * b * c; ++i)
    t.as<float>()[static_cast<size_t>(i)] = static_cast<float>(100 * (i / (b * c)) + 10 * (i / c % b) + i % c);
  return t;
}

TEST(ReferenceShapes, Transpose) {
  const Tensor y =
      run("input %x : f32[2, 3, 4]\n%y = transpose(%x) {perm = [2, 0, 1]} : f32[4, 2, 3]", "%y", {places(2, 3, 4)});
  for (size_t k = 0, at = 0; k < 4; ++k)
    for (size_t i = 0; i < 2; ++i)
      for (size_t j = 0; j < 3; ++j) EXPECT_EQ(y.as<float>()[at++], 100 * i + 10 * j + k);
}

TEST(ReferenceShapes, Broadcast) {
  EXPECT_THAT(
      floats(run("input %x : f32[2, 1]\n%y = broadcast(%x) {dims = [0, 1]} : f32[2, 3]", "%y", {f32({2, 1}, {1, 2})})),
      ElementsAre(1, 1, 1, 2, 2, 2));
  EXPECT_THAT(floats(run("input %x : f32[2, 3]\n%y = broadcast(%x) {dims = [1, 0]} : f32[3, 2]", "%y",
                         {f32({2, 3}, {1, 2, 3, 4, 5, 6})})),
              ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(floats(run("input %x : f32[s]\n%y = broadcast(%x) {dims = [0]} : f32[3]", "%y", {f32({1}, {7})})),
              ElementsAre(7, 7, 7));
}

TEST(ReferenceShapes, SliceAndConcatenate) {
  const Tensor y =
      run("input %x : f32[2, 3, s]\n%y = slice(%x) {start = [1, 0, 1], limit = [2, 3, -1], stride = [1, 2, 1]}"
          " : f32[1, 2, s - 1]",
          "%y", {places(2, 3, 4)});
  EXPECT_THAT(y.shape, ElementsAre(1, 2, 3));
  EXPECT_THAT(floats(y), ElementsAre(101, 102, 103, 121, 122, 123));
  EXPECT_THAT(floats(run("input %x : f32[2, 2]\ninput %z : f32[2, s]\n%y = concatenate(%x, %z, %x) {axis = 1} : "
                         "f32[2, s + 4]",
                         "%y", {f32({2, 2}, {1, 2, 3, 4}), f32({2, 1}, {8, 9})})),
              ElementsAre(1, 2, 8, 1, 2, 3, 4, 9, 3, 4));
  EXPECT_THAT(floats(run("input %x : f32[2]\n%y = concatenate(%x, %x) {axis = 0} : f32[4]", "%y", {f32({2}, {1, 2})})),
              ElementsAre(1, 2, 1, 2));
}

TEST(ReferenceShapes, ReshapeKeepsTheOrder) {
  const Tensor y = run("input %x : f32[s, 3, 4]\n%y = reshape(%x) : f32[2*s, ?]", "%y", {places(2, 3, 4)});
  EXPECT_THAT(y.shape, ElementsAre(4, 6));
  EXPECT_EQ(floats(y), floats(places(2, 3, 4)));
}

TEST(ReferenceShapes, Gather) {
  const std::string body = "input %x : f32[3, 2]\ninput %i : s32[2, 2]\n%y = gather(%x, %i) : f32[2, 2, 2]";
  const Tensor x = f32({3, 2}, {0, 1, 10, 11, 20, 21});
  EXPECT_THAT(floats(run(body, "%y", {x, s32({2, 2}, {2, 0, 1, 2})})), ElementsAre(20, 21, 0, 1, 10, 11, 20, 21));
  EXPECT_EQ(error_of(body, "%y", {x, s32({2, 2}, {2, 0, 3, 2})}),
            "gather y: index 3 at 2 is not in 0..2, the rows of operand 0 (x)");
  EXPECT_THAT(error_of(body, "%y", {x, s32({2, 2}, {-1, 0, 3, 2})}), HasSubstr("index -1 at 0"));
}

TEST(ReferenceShapes, DynamicSlicesAreClamped) {
  const std::string in = "input %x : f32[5]\ninput %i : s32[]\n";
  const Tensor x = f32({5}, {0, 1, 2, 3, 4});
  const auto slice = [&](int32_t at) {
    return floats(run(in + "%y = dynamic_slice(%x, %i) {sizes = [2]} : f32[2]", "%y", {x, s32({}, {at})}));
  };
  EXPECT_THAT(slice(1), ElementsAre(1, 2));
  EXPECT_THAT(slice(-9), ElementsAre(0, 1));
  EXPECT_THAT(slice(4), ElementsAre(3, 4));
  const auto update = [&](int32_t at) {
    return floats(run(in + "%u = constant dense(8, 9) : f32[2]\n%y = dynamic_update_slice(%x, %u, %i) : f32[5]", "%y",
                      {x, s32({}, {at})}));
  };
  EXPECT_THAT(update(2), ElementsAre(0, 1, 8, 9, 4));
  EXPECT_THAT(update(-1), ElementsAre(8, 9, 2, 3, 4));
  EXPECT_THAT(update(99), ElementsAre(0, 1, 2, 8, 9));
}

}  // namespace
}  // namespace hone::graph
