// Every step, alone and in random programs, on every generator and instruction set: the bits of reference.cpp. And the
// reference itself against double.
#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "engine/base/random.h"
#include "kernels/rows/lower.h"
#include "kernels/rows/reference.h"
#include "tests/kernels/rows/rows_testing.h"

namespace hone::rows {
namespace {

// ---- random programs ----

class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed) : random_(seed) {}

  RowCase make() {
    const int outer = static_cast<int>(random_.below(4));
    const int64_t n = random_.one_of<int64_t>({1, 5, 16, 19, 33, 64, 70});
    runtime_ = random_.chance(30);
    ProgramBuilder b("random", outer, runtime_ ? kRuntime : n);
    RowCase test{.n = n, .specials = static_cast<int>(random_.one_of({0, 30, 200}))};
    for (int d = 0; d < outer; ++d) test.extents[static_cast<size_t>(d)] = random_.between(1, 3);
    for (int64_t i = random_.between(1, 4); i > 0; --i) input(b, outer);
    floats_.push_back(b.constant(random_.uniform(-2, 2)));
    integers_.push_back(b.constant_s32(static_cast<int32_t>(random_.next())));
    for (int64_t i = random_.between(3, 14); i > 0; --i) step(b);
    for (int64_t i = random_.between(1, 2); i > 0; --i) output(b);
    test.program = b.finish();
    for (const Operand& o : test.program.operands) {
      Style s{.pad = random_.below(3), .column_stride = random_.between(1, 4)};
      if (o.role == Role::kIn && outer > 0 && random_.chance(30)) s.shared_rows = 1U << random_.below(outer);
      test.styles.push_back(s);
    }
    if (random_.chance(50)) share(test);
    return test;
  }

 private:
  void input(ProgramBuilder& b, int outer) {
    const int gather = outer > 0 && random_.chance(25) ? static_cast<int>(random_.below(outer)) : -1;
    const DType dtype =
        random_.one_of({DType::kF32, DType::kF32, DType::kF32, DType::kS32, DType::kU8, DType::kBf16, DType::kF16});
    Columns columns = random_.one_of(
        {Columns::kDense, Columns::kDense, Columns::kOne, Columns::kStrided, Columns::kHalves, Columns::kPairs});
    const bool two = columns == Columns::kHalves || columns == Columns::kPairs;
    if ((two && runtime_) || (dtype_bytes(dtype) != 4 && columns != Columns::kStrided)) columns = Columns::kDense;
    const int x = b.in(columns, dtype, gather);
    const bool parts = columns == Columns::kHalves || columns == Columns::kPairs;
    for (int part = 0; part <= (parts ? 1 : 0); ++part)
      (ir::register_dtype(dtype) == DType::kF32 ? floats_ : integers_).push_back(b.load(x, part));
  }

  // The first output that may be the memory of an input.
  static void share(RowCase& test) {
    for (size_t in = 0; in < test.styles.size(); ++in)
      for (size_t out = in + 1; out < test.styles.size(); ++out) {
        if (!may_share(test.program, in, out)) continue;
        if (test.program.operands[in].dtype != test.program.operands[out].dtype) continue;  // how NaN compare
        test.styles[in].shared_rows = 0;
        test.styles[out] = test.styles[in];
        test.styles[out].same_as = static_cast<int>(in);
        return;
      }
  }

  int f() { return random_.element(floats_); }
  int i() { return random_.element(integers_); }

  void step(ProgramBuilder& b) {
    const auto op = static_cast<StepOp>(random_.below(static_cast<int64_t>(StepOp::kStore)));
    switch (step_info(op).family) {
      case StepFamily::kUnary:
        floats_.push_back(b.apply(op, f()));
        break;
      case StepFamily::kToFloat:
        floats_.push_back(b.apply(op, !masks_.empty() && random_.chance(40) ? random_.element(masks_) : i()));
        break;
      case StepFamily::kToInt:
        integers_.push_back(b.apply(op, f()));
        break;
      case StepFamily::kBinary: {
        const bool whole = (op == StepOp::kAdd || op == StepOp::kSub) && random_.chance(30);
        const int left = whole ? i() : f(), right = whole ? i() : f();
        (whole ? integers_ : floats_).push_back(b.apply(op, left, right));
        break;
      }
      case StepFamily::kTernary: {
        const int x = f(), y = f(), z = f();
        floats_.push_back(b.apply(op, x, y, z));
        break;
      }
      case StepFamily::kCompare: {
        const bool whole = random_.chance(30);
        const int x = whole ? i() : f(), y = whole ? i() : f();
        masks_.push_back(b.apply(op, x, y));
        break;
      }
      case StepFamily::kLogic:
        if (masks_.empty()) return;
        masks_.push_back(b.apply(op, random_.element(masks_), op == StepOp::kNot ? -1 : random_.element(masks_)));
        break;
      case StepFamily::kSelect: {
        if (masks_.empty()) return;
        const bool whole = random_.chance(20);
        const int x = whole ? i() : f(), y = whole ? i() : f();
        (whole ? integers_ : floats_).push_back(b.apply(op, random_.element(masks_), x, y));
        break;
      }
      case StepFamily::kReduce: {
        const int x = f(), y = op == StepOp::kReduceDot ? f() : -1;
        floats_.push_back(b.apply(op, x, y));
        break;
      }
      default:
        kept(b);
        break;
    }
  }

  // A value that waits in scratch.
  void kept(ProgramBuilder& b) {
    if (runtime_ || scratches_++ > 2) return;
    const int keep = b.scratch();
    b.store(keep, f());
    floats_.push_back(b.load(keep));
  }

  void output(ProgramBuilder& b) {
    const bool whole = random_.chance(20);
    Columns columns =
        random_.one_of({Columns::kDense, Columns::kDense, Columns::kStrided, Columns::kHalves, Columns::kPairs});
    const bool two = !runtime_ && (columns == Columns::kHalves || columns == Columns::kPairs);
    if (!two && columns != Columns::kStrided) columns = Columns::kDense;
    const int y = b.out(columns, whole ? DType::kS32 : DType::kF32);
    const int first = whole ? i() : f(), second = !two ? -1 : whole ? i() : f();
    b.store(y, first, second);
    if (random_.chance(70)) return;
    // One of what a reduction gave, and a second store.
    b.store(b.out(Columns::kOne), b.apply(StepOp::kReduceSum, f()));
    if (!whole && !two) b.store(y, b.apply(StepOp::kAdd, b.load(y), b.apply(StepOp::kReduceMax, first)));
  }

  Random random_;
  bool runtime_ = false;
  int scratches_ = 0;
  std::vector<int> floats_, integers_, masks_;
};

TEST(RowsSteps, RandomPrograms) {
  for (uint64_t seed = 1; seed <= 200 && !HasFailure(); ++seed) {
    SCOPED_TRACE("program of seed " + std::to_string(seed));
    expect_like_reference(RandomProgram(seed).make(), seed);
  }
}

// ---- each step on what is hard for it ----

const std::vector<float>& hard_values() {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  static const std::vector<float> kValues = {
      0.0F,    -0.0F, 1.0F,          -1.0F,      0.5F,        -0.5F,      1.5F,        2.5F,       -2.5F,
      3e9F,    -3e9F, 2147483520.0F, -0x1p31F,   0x1p31F,     0x1p-126F,  0x1p126F,    0x1.8p127F, 1e-45F,
      -1e-40F, 88.8F, -88.8F,        100.0F,     -104.0F,     0.9999999F, -0.9999999F, 1e-8F,      123456.789F,
      kInf,    -kInf, kNan,          8388609.5F, -8388607.5F, 2.0F};
  return kValues;
}

// y[j] of one row of x.
std::vector<float> run_unary(StepOp op, const std::vector<float>& x) {
  ProgramBuilder b("unary", 0, static_cast<int64_t>(x.size()));
  const int in = b.in(), out = b.out();
  b.store(out, b.apply(op, b.load(in)));
  std::vector<float> y(x.size());
  RowArgs args;
  args.operands[0].data = const_cast<float*>(x.data());
  args.operands[1].data = y.data();
  const Status ran = reference(b.finish(), args);
  EXPECT_TRUE(ran.ok()) << ran.message();
  return y;
}

TEST(RowsSteps, SpecialsOnEveryGenerator) {
  for (int op = 0; op < static_cast<int>(StepOp::kStore); ++op) {
    const StepFamily family = step_info(static_cast<StepOp>(op)).family;
    if (family != StepFamily::kUnary && family != StepFamily::kBinary && family != StepFamily::kToInt) continue;
    ProgramBuilder b("hard", 1, 40);
    const int table = b.in(), other = b.in(Columns::kOne);
    const int out = b.out(Columns::kDense, family == StepFamily::kToInt ? DType::kS32 : DType::kF32);
    const int v = b.load(table), w = family == StepFamily::kBinary ? b.load(other) : -1;
    b.store(out, b.apply(static_cast<StepOp>(op), v, w));
    RowCase test{.program = b.finish(), .extents = {64}, .specials = 500};
    expect_like_reference(test, static_cast<uint64_t>(op) + 1);
  }
}

// ---- the reference against double ----

struct Bound {
  StepOp op;
  double (*exact)(double);
  double relative, absolute;
};

TEST(RowsSteps, ReferenceIsWithinItsBounds) {
  constexpr double kUlp = 0x1p-23;
  const std::vector<Bound> bounds = {
      {StepOp::kSqrt, [](double x) { return std::sqrt(x); }, kUlp / 2, 0},
      {StepOp::kRsqrt, [](double x) { return 1 / std::sqrt(x); }, 1.5 * kUlp, 0},
      {StepOp::kReciprocal, [](double x) { return 1 / x; }, kUlp / 2, 1e-45},
      {StepOp::kLogistic, [](double x) { return 1 / (1 + std::exp(-x)); }, 4 * kUlp, 1e-38},
      {StepOp::kLog, [](double x) { return std::log(x); }, kUlp, 1.25 * kUlp},
      {StepOp::kExp, [](double x) { return std::exp(x); }, kUlp, 1e-38},
  };
  std::vector<float> x = hard_values();
  Random random(5);
  for (int i = 0; i < 3000; ++i) x.push_back(random.uniform(-20, 20));
  for (int i = 0; i < 3000; ++i) x.push_back(std::bit_cast<float>(static_cast<uint32_t>(random.next()) & 0x7fffffffU));
  for (const Bound& bound : bounds) {
    const std::vector<float> y = run_unary(bound.op, x);
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = bound.exact(x[i]);
      if (std::isnan(want) || std::isinf(want) || std::fabs(want) > std::numeric_limits<float>::max()) {
        EXPECT_TRUE(std::isnan(want) ? std::isnan(y[i]) : y[i] == static_cast<float>(want) || std::fabs(want) < 4e38)
            << step_info(bound.op).name << "(" << x[i] << ") = " << y[i] << ", exactly " << want;
        continue;
      }
      EXPECT_LE(std::fabs(y[i] - want), bound.relative * std::fabs(want) + bound.absolute)
          << step_info(bound.op).name << "(" << x[i] << ") = " << y[i] << ", exactly " << want;
    }
  }
}

// Differences that wrap, and numbers that are one as f32.
TEST(RowsSteps, IntegersAreComparedExactly) {
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max(), kLeast = std::numeric_limits<int32_t>::min();
  const std::vector<int32_t> hard = {0,       1,          -1,       kMost,    kLeast,        kMost - 1,     kLeast + 1,
                                     1 << 30, -(1 << 30), 16777217, 16777216, (1 << 30) + 1, -(1 << 30) - 1};
  for (const StepOp op : {StepOp::kLt, StepOp::kLe, StepOp::kEq}) {
    for (const int32_t right : hard) {
      ProgramBuilder b("integers", 0, static_cast<int64_t>(hard.size()));
      const int x = b.in(Columns::kDense, DType::kS32), y = b.out();
      const int v = b.load(x), w = b.constant_s32(right);
      b.store(y, b.apply(StepOp::kToFloat, b.apply(op, v, w)));
      const RowProgram program = b.finish();
      RowCase test{.program = program};
      RowMemory memory(test, 1);
      std::ranges::copy(hard, static_cast<int32_t*>(memory.args().operands[0].data));
      const Result<ir::Kernel> kernel = lower(program, Isa::kAvx2);
      ASSERT_TRUE(kernel.ok());
      run_kernel(*kernel, test, memory);
      for (size_t i = 0; i < hard.size(); ++i) {
        const bool want = op == StepOp::kLt ? hard[i] < right : op == StepOp::kLe ? hard[i] <= right : hard[i] == right;
        EXPECT_EQ(static_cast<float*>(memory.args().operands[1].data)[i], want ? 1.0F : 0.0F)
            << hard[i] << " " << step_info(op).name << " " << right;
      }
    }
  }
}

TEST(RowsSteps, ExtremesAndTruncationSayWhatTheTableSays) {
  ProgramBuilder b("pairwise", 0, 5);
  const int x = b.in(), y = b.in(), most = b.out(), least = b.out(), whole = b.out(Columns::kDense, DType::kS32);
  const int v = b.load(x), w = b.load(y);
  b.store(most, b.apply(StepOp::kMax, v, w));
  b.store(least, b.apply(StepOp::kMin, v, w));
  b.store(whole, b.apply(StepOp::kToInt, v));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  float left[] = {nan, 1, -2.9F, 4e9F, 0.0F}, right[] = {1, nan, 3, -1, -0.0F};
  float maxima[5], minima[5];
  int32_t integers[5];
  RowArgs args;
  void* const data[] = {left, right, maxima, minima, integers};
  for (size_t i = 0; i < 5; ++i) args.operands[i].data = data[i];
  ASSERT_TRUE(reference(b.finish(), args).ok());
  EXPECT_TRUE(std::isnan(maxima[0]) && std::isnan(maxima[1]) && std::isnan(minima[0]) && std::isnan(minima[1]));
  EXPECT_EQ(maxima[2], 3);
  EXPECT_EQ(minima[3], -1);
  EXPECT_TRUE(std::signbit(maxima[4]));  // of equal ones the second
  EXPECT_THAT(integers,
              testing::ElementsAre(std::numeric_limits<int32_t>::min(), 1, -2, std::numeric_limits<int32_t>::min(), 0));
}

}  // namespace
}  // namespace hone::rows
