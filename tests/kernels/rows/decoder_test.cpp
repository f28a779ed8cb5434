// The programs of decoder.h: every kernel of each against the reference, over the lengths where tails begin and end.
#include "kernels/rows/decoder.h"

#include <gmock/gmock.h>

#include <cmath>

#include "engine/base/random.h"
#include "kernels/rows/reference.h"
#include "tests/kernels/rows/rows_testing.h"

namespace hone::rows {
namespace {

using Extents = std::array<int64_t, kMaxOuter>;

// Lengths around a vector and a group of columns, and two that a decoder has.
const std::vector<int64_t>& lengths() {
  static const std::vector<int64_t> kLengths = {1, 3, 4, 7, 8, 15, 16, 17, 31, 33, 100, 2048, 4099};
  return kLengths;
}

// One row count a length, all of them over all lengths.
int64_t rows_for(size_t i) {
  constexpr int64_t kRows[] = {3, 1, 17, 2};
  return kRows[i % std::size(kRows)];
}

template <typename Make>
void over_lengths(const Make& make, std::vector<Style> styles = {}) {
  for (size_t i = 0; i < lengths().size(); ++i) {
    if (styles.empty() && i % 2 == 1) styles.resize(1, Style{.pad = 5});
    expect_like_reference(
        {.program = make(RowShape{.outer = 1, .n = lengths()[i]}), .extents = {rows_for(i)}, .styles = styles}, i + 1);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(RowsDecoder, RmsNorm) {
  over_lengths([](RowShape s) { return rms_norm(s, 1e-5F); }, {{.pad = 3}, {.shared_rows = 1}, {.pad = 1}});
}

TEST(RowsDecoder, RmsScale) {
  over_lengths([](RowShape s) { return rms_scale(s, 1e-5F); }, {{.pad = 3}});
}

TEST(RowsDecoder, AddRmsNorm) {
  over_lengths([](RowShape s) { return add_rms_norm(s, 1e-6F); }, {{}, {}, {.shared_rows = 1}});
}

TEST(RowsDecoder, LayerNorm) {
  over_lengths([](RowShape s) { return layer_norm(s, 1e-5F, s.n % 2 == 1); }, {{.pad = 2}, {.shared_rows = 1}});
}

TEST(RowsDecoder, Softmax) {
  over_lengths([](RowShape s) { return softmax(s, s.n % 2 == 1 ? 1.0F : 0.125F); });
}

TEST(RowsDecoder, SiluMul) {
  over_lengths([](RowShape s) { return silu_mul(s); });
}

TEST(RowsDecoder, AddWithABroadcastRow) {
  over_lengths([](RowShape s) { return binary_map(s, StepOp::kAdd); }, {{.pad = 1}, {.shared_rows = 1}, {.pad = 4}});
}

TEST(RowsDecoder, RuntimeLengths) {
  for (const int64_t n : {0, 1, 15, 16, 17, 40, 4099}) {
    const RowShape shape{.outer = 2};
    const Extents extents{2, 5};
    expect_like_reference({.program = softmax(shape, 2.0F), .extents = extents, .n = n}, 7);
    expect_like_reference({.program = silu_mul(shape), .extents = extents, .n = n, .styles = {{.pad = 1}}}, 8);
    expect_like_reference({.program = reduce_columns(shape, StepOp::kReduceSum), .extents = extents, .n = n}, 9);
  }
}

TEST(RowsDecoder, RopeHalf) {
  for (const int64_t d : {2, 6, 30, 32, 64, 80, 128})
    expect_like_reference({.program = rope_half(2, d),
                           .extents = {5, 3},
                           .styles = {{.pad = 1}, {.shared_rows = 2}, {.shared_rows = 2}, {.pad = 2}}},
                          static_cast<uint64_t>(d));
}

TEST(RowsDecoder, RopeInterleaved) {
  for (const int64_t d : {2, 6, 30, 32, 64, 66, 128})
    expect_like_reference({.program = rope_interleaved(2, d, d == 66),
                           .extents = {5, 3},
                           .styles = {{.pad = 1}, {.shared_rows = 2}, {.shared_rows = 2}, {.pad = 2}}},
                          static_cast<uint64_t>(d));
}

// ---- the reference against double ----

std::vector<float> numbers(int64_t n, uint64_t seed) {
  Random random(seed);
  std::vector<float> all;
  for (int64_t i = 0; i < n; ++i) all.push_back(random.uniform(-3, 3));
  return all;
}

// The last operand of one row, the others being `inputs`.
std::vector<float> run_reference(const RowProgram& program, std::vector<std::vector<float>> inputs) {
  inputs.emplace_back(inputs[0].size());
  RowArgs args{.extents = {1}};
  for (size_t i = 0; i < inputs.size(); ++i) args.operands[i].data = inputs[i].data();
  const Status ran = reference(program, args);
  EXPECT_TRUE(ran.ok()) << ran.message();
  return inputs.back();
}

TEST(RowsDecoder, NormsAreNearThoseOfDouble) {
  constexpr double kEps = 1e-5;
  for (const int64_t n : {1, 100, 4099}) {
    const std::vector<float> x = numbers(n, 1), w = numbers(n, 2), bias = numbers(n, 3);
    double sum = 0, squares = 0, variance = 0;
    for (const float v : x) sum += v, squares += double{v} * v;
    const double mean = sum / static_cast<double>(n);
    for (const float v : x) variance += (v - mean) * (v - mean) / static_cast<double>(n);
    const double rms = std::sqrt(squares / static_cast<double>(n) + kEps), deviation = std::sqrt(variance + kEps);
    const auto y = run_reference(rms_norm({.n = n}, kEps), {x, w});
    EXPECT_NEAR(run_reference(rms_scale({.n = n}, kEps), {x})[0], 1 / rms, 2e-6 / rms) << n;
    const auto z = run_reference(layer_norm({.n = n}, kEps, true), {x, w, bias});
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(y[i], x[i] / rms * w[i], 4e-6 * std::fabs(x[i] / rms * w[i])) << n << ", " << i;
      // Cancellation of x - mean, blown up where nothing deviates from it (n = 1).
      EXPECT_NEAR(z[i], (x[i] - mean) / deviation * w[i] + bias[i], 2e-6 * (1 + 6 * std::fabs(w[i]))) << n << ", " << i;
    }
  }
}

TEST(RowsDecoder, SoftmaxIsNearThatOfDouble) {
  const std::vector<float> x = numbers(1000, 4);
  const auto y = run_reference(softmax({.n = 1000}, 0.5F), {x});
  double sum = 0, total = 0;
  for (const float v : x) sum += std::exp(0.5 * v);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(y[i], std::exp(0.5 * x[i]) / sum, 1e-6 * y[i]);
    total += y[i];
  }
  EXPECT_NEAR(total, 1, 1e-5);
}

TEST(RowsDecoder, RopeTurnsItsPairs) {
  const std::vector<float> x = numbers(64, 5), angle = numbers(32, 6);
  std::vector<float> cos, sin;
  for (const float a : angle) cos.push_back(std::cos(a)), sin.push_back(std::sin(a));
  const auto half = run_reference(rope_half(1, 64), {x, cos, sin});
  const auto pairs = run_reference(rope_interleaved(1, 64), {x, cos, sin});
  for (size_t i = 0; i < 32; ++i) {
    const double c = cos[i], s = sin[i];
    EXPECT_NEAR(half[i], x[i] * c - x[i + 32] * s, 1e-6);
    EXPECT_NEAR(half[i + 32], x[i + 32] * c + x[i] * s, 1e-6);
    EXPECT_NEAR(pairs[2 * i], x[2 * i] * c - x[2 * i + 1] * s, 1e-6);
    EXPECT_NEAR(pairs[2 * i + 1], x[2 * i + 1] * c + x[2 * i] * s, 1e-6);
  }
}

TEST(RowsDecoder, InPlace) {
  const Style same{.same_as = 0};
  for (const int64_t d : {10, 64}) {
    expect_like_reference({.program = rope_half(2, d), .extents = {3, 2}, .styles = {{}, {}, {}, same}}, 1);
    expect_like_reference({.program = rope_interleaved(2, d), .extents = {3, 2}, .styles = {{}, {}, {}, same}}, 2);
  }
  for (const int64_t n : {7, 48, 100}) {
    const RowShape shape{.n = n};
    expect_like_reference({.program = silu_mul(shape), .extents = {3}, .styles = {{}, {}, same}}, 3);
    expect_like_reference({.program = rms_norm(shape, 0), .extents = {3}, .styles = {{}, {}, same}}, 4);
    expect_like_reference({.program = softmax(shape, 1), .extents = {3}, .styles = {{}, same}}, 5);
    expect_like_reference({.program = add_rms_norm(shape, 0), .extents = {3}, .styles = {{}, {}, {}, same}}, 6);
  }
}

TEST(RowsDecoder, SharesMemoryWhereWhatIsReadIsStoredLater) {
  const RowShape shape{.n = 32};
  EXPECT_TRUE(may_share(silu_mul(shape), 0, 2));
  EXPECT_TRUE(may_share(silu_mul(shape), 1, 2));
  EXPECT_TRUE(may_share(rms_norm(shape, 0), 0, 2));
  EXPECT_TRUE(may_share(softmax(shape, 1), 0, 1));
  EXPECT_TRUE(may_share(rope_half(1, 64), 0, 3));
  EXPECT_FALSE(may_share(rope_half(1, 64), 1, 3));       // cos has other columns
  EXPECT_TRUE(may_share(add_rms_norm(shape, 0), 0, 3));  // h
  EXPECT_TRUE(may_share(add_rms_norm(shape, 0), 0, 4));  // a is not needed after the first pass
  EXPECT_FALSE(may_share(gather_rows(shape), 0, 1));
  ProgramBuilder b("twice", 1, 32);
  const int x = b.in(), y = b.out();
  const int v = b.load(x);
  b.store(y, v);
  b.store(y, b.apply(StepOp::kAdd, v, b.apply(StepOp::kReduceSum, v)));
  EXPECT_FALSE(may_share(b.finish(), 0, 1));  // the second pass reads x again
}

TEST(RowsDecoder, CopiesAndTransposes) {
  for (const int64_t n : {1, 5, 16, 50}) {
    const RowShape shape{.outer = 3, .n = n};
    const Extents extents{2, 3, 4};
    expect_like_reference({.program = copy(shape), .extents = extents, .styles = {{.pad = 3}, {.pad = 1}}}, 1);
    expect_like_reference({.program = copy(shape, DType::kS32, Columns::kStrided), .extents = extents}, 2);
    expect_like_reference({.program = copy(shape, DType::kF32, Columns::kDense, Columns::kStrided),
                           .extents = extents,
                           .styles = {{.pad = 3}, {.column_stride = 2}}},
                          3);
    expect_like_reference({.program = copy({.outer = 1}, DType::kF32, Columns::kStrided), .extents = {3}, .n = n}, 4);
  }
}

TEST(RowsDecoder, GathersRows) {
  for (const int64_t n : {1, 17, 64}) {
    expect_like_reference({.program = gather_rows({.n = n}), .extents = {9}, .styles = {{.pad = 2, .table_rows = 4}}},
                          5);
    for (const DType dtype : {DType::kBf16, DType::kF16}) {
      expect_like_reference({.program = gather_rows({.n = n}, dtype), .extents = {9}, .styles = {{.pad = 1}}}, 7);
      expect_like_reference({.program = gather_rows({}, dtype), .extents = {5}, .n = n}, 8);
    }
    expect_like_reference({.program = gather_rows({.outer = 2}, DType::kS32), .extents = {4, 3}, .n = n}, 6);
  }
}

TEST(RowsDecoder, ReducesColumns) {
  for (const StepOp op : {StepOp::kReduceSum, StepOp::kReduceMax, StepOp::kReduceMin, StepOp::kReduceMaxNumber})
    for (const int specials : {0, 150})
      for (const int64_t n : {1, 9, 16, 47})
        expect_like_reference({.program = reduce_columns({.n = n}, op), .extents = {17}, .specials = specials},
                              static_cast<uint64_t>(n));
}

TEST(RowsDecoder, NoRows) {
  expect_like_reference({.program = rms_norm({.outer = 2, .n = 64}, 0), .extents = {3, 0}}, 1);
  expect_like_reference({.program = softmax({.outer = 1}, 1), .extents = {0}, .n = 9}, 1);
  expect_like_reference({.program = softmax({.outer = 0, .n = 20}, 1)}, 1);  // one row
}

}  // namespace
}  // namespace hone::rows
