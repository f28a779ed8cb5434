#include "kernels/ir/interpret.h"

#include <gtest/gtest.h>

#include <bit>
#include <cfloat>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <thread>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "engine/base/guarded_buffer.h"
#include "kernels/ir/bf16_pairs.h"
#include "kernels/ir/text.h"
#include "kernels/ir/verify.h"
#include "tests/kernels/ir/sample_kernels.h"

namespace hone::ir {
namespace {

using Lanes = std::vector<uint32_t>;
uint32_t bits(float f) { return std::bit_cast<uint32_t>(f); }
float value(uint32_t u) { return std::bit_cast<float>(u); }

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

const std::vector<float> kA = {1.5F,  -2.5F, 0.5F,  -0.5F,  3.5F, kNan,  1.0F,       kInf,
                               -kInf, 0.0F,  -0.0F, 1e-40F, 3e9F, -3e9F, 8388609.0F, 1e30F};
const std::vector<float> kB = {1.0F / 3, 7.0F,  kNan, 0.25F, -3.5F, 1.0F, kNan,     kInf,
                               1.0F,     -0.0F, 0.0F, 2.0F,  1.0F,  0.1F, 1.0F / 3, 1e30F};
const std::vector<float> kC = {-0.5F, 1e8F, 0.0F,  0.0F,   12.25F, 1.0F, 1.0F, -kInf,
                               0.0F,  0.0F, -0.0F, 1e-45F, -3e9F,  3e8F, 5.0F, -kInf};

// Runs `statements` over registers a, b, c (f32), i (s32 view of a) and stores register d or k.
Lanes run_ops(const std::string& statements, const std::string& result, int lanes = 16) {
  const std::string x = "x" + std::to_string(lanes), l = std::to_string(lanes);
  std::string text = "kernel ops {\n";
  for (const char* name : {"A", "B", "C"}) text += std::string("in ") + name + ": f32[16] stride [1] align 4\n";
  text += "in I: s32[16] stride [1] align 4\n";
  const bool integer = result == "k";
  text += std::string("out R: ") + (integer ? "s32" : "f32") + "[16] stride [1] align 4\n";
  for (const char* name : {"a", "b", "c", "d"}) text += std::string("reg ") + name + ": f32" + x + "\n";
  for (const char* name : {"i", "k"}) text += std::string("reg ") + name + ": s32" + x + "\n";
  text += "reg m: mask" + l + "\na = load A[0]\nb = load B[0]\nc = load C[0]\ni = load I[0]\n";
  text += statements + "\nstore R[0] = " + result + "\n}";
  const Kernel kernel = parsed(text);
  EXPECT_TRUE(verify(kernel).ok()) << verify(kernel).message();
  std::vector<float> a = kA, b = kB, c = kC;
  std::vector<int32_t> i = {0, 1, -1, 2, 127, -128, 0x7fffffff, INT32_MIN, 3, 4, 5, 6, 7, 8, 9, 16777217};
  Lanes out(16, 0xdeadbeef);
  run_all_tasks(kernel, {a.data(), b.data(), c.data(), i.data(), out.data()}, {});
  return out;
}

void expect_lanes(const Lanes& got, const std::function<float(size_t)>& want, size_t lanes = 16) {
  for (size_t l = 0; l < lanes; ++l) {
    const float w = want(l);
    if (std::isnan(w)) {
      EXPECT_TRUE(std::isnan(value(got[l]))) << "lane " << l;
    } else {
      EXPECT_EQ(got[l], bits(w)) << "lane " << l << ": " << value(got[l]) << " want " << w;
    }
  }
  for (size_t l = lanes; l < got.size(); ++l) EXPECT_EQ(got[l], 0xdeadbeefU) << "lane " << l << " was stored";
}

TEST(IrInterpret, ArithmeticRoundsOncePerOp) {
  expect_lanes(run_ops("d = add(a, b)", "d"), [](size_t l) { return kA[l] + kB[l]; });
  expect_lanes(run_ops("d = sub(a, b)", "d"), [](size_t l) { return kA[l] - kB[l]; });
  expect_lanes(run_ops("d = mul(a, b)", "d"), [](size_t l) { return kA[l] * kB[l]; });
  expect_lanes(run_ops("d = div(a, b)", "d"), [](size_t l) { return kA[l] / kB[l]; });
  expect_lanes(run_ops("d = fma(a, b, c)", "d"), [](size_t l) { return std::fma(kA[l], kB[l], kC[l]); });
  // Lane 0: 1.5 * 0.33333334 - 0.5 needs the bits that a rounded product lacks.
  EXPECT_EQ(run_ops("d = mul(a, b)\nd = add(d, c)", "d")[0], 0u);
  EXPECT_NE(run_ops("d = fma(a, b, c)", "d")[0], 0u);
}

TEST(IrInterpret, EveryWidthComputesAndStoresItsOwnLanes) {
  for (int lanes : {1, 4, 8, 16})
    expect_lanes(
        run_ops("d = mul(a, b)", "d", lanes), [](size_t l) { return kA[l] * kB[l]; }, static_cast<size_t>(lanes));
}

TEST(IrInterpret, MinAndMaxTakeTheSecondWhenEitherIsNan) {
  expect_lanes(run_ops("d = min(a, b)", "d"), [](size_t l) { return kA[l] < kB[l] ? kA[l] : kB[l]; });
  expect_lanes(run_ops("d = max(a, b)", "d"), [](size_t l) { return kA[l] > kB[l] ? kA[l] : kB[l]; });
  const Lanes max = run_ops("d = max(a, b)", "d");
  EXPECT_EQ(max[5], bits(1.0F));           // a is NaN
  EXPECT_TRUE(std::isnan(value(max[6])));  // b is NaN
  EXPECT_EQ(max[9], bits(-0.0F));          // equal: b
}

TEST(IrInterpret, SignsAndRounding) {
  expect_lanes(run_ops("d = neg(a)", "d"), [](size_t l) { return -kA[l]; });
  expect_lanes(run_ops("d = abs(a)", "d"), [](size_t l) { return std::fabs(kA[l]); });
  expect_lanes(run_ops("d = round(a)", "d"), [](size_t l) { return std::nearbyint(kA[l]); });
  expect_lanes(run_ops("d = sqrt(a)", "d"), [](size_t l) { return std::sqrt(kA[l]); });
  const Lanes r = run_ops("d = round(a)", "d");
  EXPECT_EQ(r[0], bits(2.0F));
  EXPECT_EQ(r[1], bits(-2.0F));
  EXPECT_EQ(r[2], bits(0.0F));
  EXPECT_EQ(r[3], bits(-0.0F));
}

TEST(IrInterpret, IntegersConvertWrapAndShift) {
  const Lanes k = run_ops("k = to_int(a)", "k");
  EXPECT_EQ(k[0], 2u);
  EXPECT_EQ(static_cast<int32_t>(k[1]), -2);
  for (size_t out_of_range : {5u, 7u, 8u, 12u, 13u, 15u}) EXPECT_EQ(k[out_of_range], 0x80000000u) << out_of_range;
  EXPECT_EQ(k[14], 8388609u);
  EXPECT_EQ(run_ops("d = to_float(i)", "d")[15], bits(16777216.0F));
  EXPECT_EQ(run_ops("d = to_float(i)", "d")[7], bits(-2147483648.0F));
  EXPECT_EQ(run_ops("k = add(i, i)", "k")[6], 0xfffffffeu);
  EXPECT_EQ(run_ops("k = sub(i, i)\nk = sub(k, i)", "k")[7], 0x80000000u);
  EXPECT_EQ(run_ops("k = shl(i, 23)", "k")[4], 127u << 23);
  EXPECT_EQ(run_ops("k = shl(i, 0)", "k")[7], 0x80000000u);
  EXPECT_EQ(run_ops("k = bitcast(a)", "k")[4], bits(3.5F));
  EXPECT_EQ(run_ops("k = bitcast(b)\nd = bitcast(k)", "d")[3], bits(0.25F));
  EXPECT_EQ(run_ops("k = const 0xfffffffb", "k")[11], 0xfffffffbu);
  EXPECT_EQ(run_ops("d = const 0x3fc00000", "d")[11], bits(1.5F));
}

TEST(IrInterpret, ComparisonsAreFalseForNan) {
  auto chosen = [](const std::string& op) { return run_ops("m = " + op + "(a, b)\nd = select(m, a, b)", "d"); };
  expect_lanes(chosen("lt"), [](size_t l) { return kA[l] < kB[l] ? kA[l] : kB[l]; });
  expect_lanes(chosen("le"), [](size_t l) { return kA[l] <= kB[l] ? kA[l] : kB[l]; });
  expect_lanes(chosen("eq"), [](size_t l) { return kA[l] == kB[l] ? kA[l] : kB[l]; });
}

TEST(IrInterpret, PermutesMoveLanes) {
  for (int lanes : {8, 16}) {
    const auto n = static_cast<size_t>(lanes);
    for (auto [op, kind, imm] : {std::tuple{"unpack_lo32(a, b)", PermuteOp::kUnpackLo32, 0},
                                 {"unpack_hi32(a, b)", PermuteOp::kUnpackHi32, 0},
                                 {"unpack_lo64(a, b)", PermuteOp::kUnpackLo64, 0},
                                 {"unpack_hi64(a, b)", PermuteOp::kUnpackHi64, 0},
                                 {"groups(a, b, 0x31)", PermuteOp::kGroups, 0x31}}) {
      const std::vector<int> map = permute_lanes(kind, imm, lanes);
      const Lanes got = run_ops(std::string("d = ") + op, "d", lanes);
      for (size_t l = 0; l < n; ++l) {
        const auto from = static_cast<size_t>(map[l]);
        EXPECT_EQ(got[l], bits(from < n ? kA[from] : kB[from - n])) << op << " lane " << l;
      }
    }
  }
  // dst may be an operand.
  EXPECT_EQ(run_ops("a = unpack_lo32(b, a)\nd = move(a)", "d")[1], bits(kA[0]));
}

TEST(IrInterpret, MaskedLanesAreNotAccessedAndLoadZero) {
  const Kernel kernel = parsed(R"(kernel tail {
    param n
    in x: f32[n] stride [1] align 4
    out y: f32[n] stride [1] align 4
    out z: f32[16] stride [1] align 4
    reg a: f32x16
    reg m: mask16
    m = lanes(n)
    a = load x[0] if m
    store y[0] = a if m
    store z[0] = a
  })");
  for (int64_t n : {0, 1, 7, 15}) {
    Result<GuardedBuffer> x = GuardedBuffer::create(4 * n), y = GuardedBuffer::create(4 * n);
    ASSERT_TRUE(x.ok() && y.ok());
    for (float& f : x->as<float>()) f = 3;
    std::vector<float> z(16, kNan);
    run_all_tasks(kernel, {x->data(), y->data(), z.data()}, {n});
    for (int64_t i = 0; i < 16; ++i) EXPECT_EQ(z[static_cast<size_t>(i)], i < n ? 3.0F : 0.0F);
    for (float f : y->as<float>()) EXPECT_EQ(f, 3.0F);
    EXPECT_TRUE(y->slack_intact());
  }
}

TEST(IrInterpret, ControlFlow) {
  const std::string text = R"(kernel flow {
    param n
    inout y: f32[64] stride [1] align 4
    reg a: f32x1
    reg one: f32x1
    one = const 0x3f800000
    let lo = max(2, n - 10)
    let hi = min(n, 64, 3*lo)
    let half = (n) / 2
    for i in lo..hi step 3 {
      a = load y[i]
      a = add(a, one)
      store y[i] = a
    }
    if n - 5 == 0 { store y[0] = one } else { store y[1] = one }
    if half - 4 >= 0 { store y[2] = one }
  })";
  const Kernel kernel = parsed(text);
  for (int64_t n : {0, 1, 5, 7, 8, 9, 20, 64, 70}) {
    std::vector<float> got(64, 10), want(64, 10);
    run_all_tasks(kernel, {got.data()}, {n});
    const int64_t lo = std::max<int64_t>(2, n - 10), hi = std::min({n, int64_t{64}, 3 * lo});
    for (int64_t i = lo; i < hi; i += 3) want[static_cast<size_t>(i)] += 1;
    want[n == 5 ? 0 : 1] = 1;
    if (n / 2 >= 4) want[2] = 1;
    EXPECT_EQ(got, want) << n;
  }
}

// One chain of fma over k ascending: what the sample computes, whatever its blocking.
void expect_matmul(const SampleMatmul& s, int64_t m) {
  SCOPED_TRACE(testing::Message() << "m " << m << " n " << s.n << " k " << s.k << " batch " << s.batch << " split "
                                  << s.split_tail);
  const Kernel kernel = sample_matmul(s);
  ASSERT_TRUE(verify(kernel).ok()) << verify(kernel).message() << "\n" << print(kernel);
  const int64_t lda = s.k + 3, ldc = s.n + 3, batches = s.batch ? 3 : 1;
  const int64_t sa = m * lda + 5, sc = m * ldc + 9;
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> a(static_cast<size_t>(batches * sa)), b(static_cast<size_t>(s.panels() * s.k * s.kNr));
  std::vector<float> c(static_cast<size_t>(batches * sc), kNan);
  for (float& f : a) f = uniform(random);
  for (float& f : b) f = uniform(random);
  std::vector<int64_t> params = {m};
  if (s.batch) params.insert(params.end(), {sa, sc});
  run_all_tasks(kernel, {a.data(), b.data(), c.data()}, params);
  for (int64_t z = 0; z < batches; ++z) {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < ldc; ++j) {
        const float got = c[static_cast<size_t>(z * sc + i * ldc + j)];
        if (j >= s.n) {
          ASSERT_TRUE(std::isnan(got)) << "padding was written";
          continue;
        }
        float want = 0;
        for (int64_t p = 0; p < s.k; ++p)
          want = std::fma(a[static_cast<size_t>(z * sa + i * lda + p)],
                          b[static_cast<size_t>((j / s.kNr * s.k + p) * s.kNr + j % s.kNr)], want);
        ASSERT_EQ(bits(got), bits(want)) << i << "," << j;
      }
    }
  }
}

TEST(IrInterpret, BlockedMatmulIsOneChainOfFma) {
  for (bool batch : {false, true})
    for (bool split : {false, true})
      for (int64_t m : {0, 1, 8, 13}) expect_matmul({.batch = batch, .split_tail = split}, m);
  for (int64_t n : {1, 32, 64, 65})
    for (int64_t k : {1, 4, 20, 40}) expect_matmul({.n = n, .k = k}, 9);
}

TEST(IrInterpret, OneInterpreterServesManyThreads) {
  const Kernel kernel = parsed(kAxpyText);
  const Interpreter interpreter(kernel);
  std::vector<float> x(1000, 2), y(1000, 1);
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      void* buffers[] = {x.data(), y.data()};
      const int64_t params[] = {1000}, task[] = {64 * t};
      interpreter.run(buffers, params, task, nullptr);
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(y, std::vector<float>(1000, 5));
}

template <typename Run>
void with_and_without_denormals(Run run) {
  run();
#if defined(__x86_64__)
  const uint32_t before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);  // flush to zero, denormals are zero
  run();
  _mm_setcsr(before);
#endif
}

// One lane count for each kernel; x and y of 2 * lanes elements, first a then b.
Lanes pairs_of(const Lanes& x, int lanes) {
  const std::string l = std::to_string(lanes);
  const Kernel kernel =
      parsed("kernel p {\nin x: f32[32] stride [1] align 4\nout y: s32[16] stride [1] align 4\n reg a: f32x" + l +
             "\nreg b: f32x" + l + "\nreg p: s32x" + l + "\na = load x[0]\nb = load x[" + l +
             "]\np = pairs(a, b)\nstore y[0] = p\n}");
  EXPECT_TRUE(verify(kernel).ok()) << verify(kernel).message();
  Lanes in = x, out(16, 0xdeadbeef);
  in.resize(32);
  run_all_tasks(kernel, {in.data(), out.data()}, {});
  return out;
}

TEST(IrInterpret, PairsAreRoundedToNearestAndLieInOrder) {
  const std::vector<std::pair<uint32_t, uint16_t>> rounded = {
      {0x3f800000, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f808001, 0x3f81}, {0x3f818000, 0x3f82},  // ties to even
      {0xbf807fff, 0xbf80}, {0x7f7f7fff, 0x7f7f}, {0x7f7f8000, 0x7f80}, {0xff7fffff, 0xff80},  // to infinity
      {0x7f800000, 0x7f80}, {0xff800000, 0xff80}, {0x7f800001, 0x7fc0}, {0xffabcdef, 0xffeb},  // NaN: quiet
      {0x007fffff, 0x0000}, {0x807fffff, 0x8000}, {0x00000001, 0x0000}, {0x00800000, 0x0080},  // denormals: zeros
      {0x00808000, 0x0080}, {0x80ffffff, 0x8100}, {0x00000000, 0x0000}, {0x80000000, 0x8000}};
  for (const int lanes : {4, 8, 16}) {
    for (size_t first = 0; first < rounded.size(); ++first) {
      Lanes x;
      for (size_t i = 0; i < 2 * static_cast<size_t>(lanes); ++i)
        x.push_back(rounded[(first + i) % rounded.size()].first);
      with_and_without_denormals([&] {
        const Lanes p = pairs_of(x, lanes);
        for (size_t i = 0; i < 16; ++i) {
          const uint32_t low = rounded[(first + 2 * i) % rounded.size()].second,
                         high = rounded[(first + 2 * i + 1) % rounded.size()].second;
          EXPECT_EQ(p[i], i < static_cast<size_t>(lanes) ? high << 16 | low : 0xdeadbeef) << lanes << " lane " << i;
        }
      });
    }
  }
}

uint32_t dot(float low_a, float high_a, float low_b, float high_b, float c) {
  static const Kernel kernel = parsed(R"(kernel d {
in x: s32[2] stride [1] align 4
in z: f32[1] stride [1] align 4
out y: f32[4] stride [1] align 4
reg a: s32x4
reg b: s32x4
reg c: f32x4
a = broadcast x[0]
b = broadcast x[1]
c = broadcast z[0]
c = dot_pairs(a, b, c)
store y[0] = c
})");
  auto pair = [](float low, float high) {
    EXPECT_EQ((bits(low) | bits(high)) & 0xffff, 0U) << "not bf16: " << low << " " << high;
    return bits(high) | bits(low) >> 16;
  };
  Lanes x = {pair(low_a, high_a), pair(low_b, high_b)}, z = {bits(c)}, y(4);
  run_all_tasks(kernel, {x.data(), z.data(), y.data()}, {});
  return y[0];
}

TEST(IrInterpret, DotsAddTheHighProductFirstAndRoundTwice) {
  EXPECT_EQ(dot(2, 3, 5, 7, 100), bits(131));
  EXPECT_EQ(dot(0x1p-15F, -1, 0x1p-15F, 1, 1), bits(0x1p-30F)) << "1 - 1 comes first";
  EXPECT_EQ(dot(-1, 0x1p-15F, 1, 0x1p-15F, 1), bits(0)) << "1 + 2^-30 is 1";
  // 1.0078125^2 has 15 bits, and 2^9 in front of them takes the last ones: no product is rounded by itself.
  EXPECT_EQ(dot(0, 1.0078125F, 0, 1.0078125F, -1), bits(1.0078125F * 1.0078125F - 1));
  EXPECT_EQ(dot(0, 1.0078125F, 0, 1.0078125F, 0x1p9F), bits(std::fma(1.0078125F, 1.0078125F, 0x1p9F)));
  EXPECT_EQ(dot(0x1p127F, 0, 4, 0, 0), bits(kInf));
  EXPECT_EQ(dot(-1, 0x1p127F, 1, 4, 0), bits(kInf));
  for (const uint32_t nan :
       {dot(kInf, kInf, -1, 1, 0), dot(kInf, 0, 0, 0, 0), dot(kNan, 0, 0, 0, 0), dot(1, 1, 1, 1, kNan)})
    EXPECT_TRUE(std::isnan(value(nan))) << std::hex << nan;
}

TEST(IrInterpret, DotsHaveNoDenormals) {
  const float tiny = value(0x00400000), least = 0x1p-126F;  // 2^-127
  with_and_without_denormals([&] {
    EXPECT_EQ(dot(0, 0, 0, 0, value(0x007fffff)), bits(0.0F)) << "the addend";
    EXPECT_EQ(dot(-0.0F, -0.0F, 1, 1, value(0x80000001)), bits(-0.0F));
    EXPECT_EQ(dot(tiny, 0, 0x1p100F, 0, 1), bits(1)) << "a factor";
    EXPECT_EQ(dot(0, 0x1p100F, 0, tiny, 0), bits(0.0F));
    EXPECT_EQ(dot(0x1p-60F, 0, 0x1p-67F, 0, 0), bits(0.0F)) << "the sum";
    EXPECT_EQ(dot(0x1p-60F, 0, -0x1p-67F, 0, 0), bits(-0.0F));
    EXPECT_EQ(dot(1, 0x1p-63F, least, 0x1p-64F, 0), bits(least)) << "the sum in between";
    EXPECT_EQ(dot(1, 1, 1.5F * least, -least, 1.5F * least), bits(1.5F * least));
    // Next to the least normal number: whether it is reached is judged before denormals lose bits.
    EXPECT_EQ(dot(0x1p-75F, 0, -0x1p-76F, 0, least), bits(least)) << "half a unit below: to even";
    EXPECT_EQ(dot(0x1p-75F, 0, -0x1.02p-76F, 0, least), bits(0.0F)) << "more than that";
    EXPECT_EQ(dot(0x1p-75F, 0, -0x1p-75F, 0, least), bits(0.0F));
    EXPECT_EQ(dot(0x1p-75F, 0, 0x1p-76F, 0, -least), bits(-least));
    EXPECT_EQ(dot(0x1p-75F, 0, 0x1p-75F, 0, -least), bits(-0.0F));
    EXPECT_EQ(dot(0x1p-75F, 0, 0x1p-74F, 0, least), 0x00800001U) << "2^-149 is one unit";
    EXPECT_EQ(dot(0x1p-75F, 0, 0x1p-75F, 0, least), bits(least)) << "half a unit above";
  });
}

// Zeros, denormals and numbers next to them beside ordinary ones, in all lanes: each as if it were alone.
TEST(IrInterpret, DotsOfOneLaneDoNotDependOnTheOthers) {
  // The first two are ordinary.
  const std::vector<uint32_t> halves = {0x3f80, 0xc049, 0x0000, 0x8000, 0x0001, 0x807f, 0x0080, 0x8080,
                                        0x00c0, 0x2000, 0x9f80, 0x2040, 0x7f7f, 0xff80, 0x7fc0};
  const std::vector<uint32_t> sums = {0x3f800000, 0xc0490fdb, 0x00000000, 0x80000000, 0x00000001, 0x807fffff,
                                      0x00800000, 0x80800001, 0x01000000, 0x00ffffff, 0x7f800000};
  std::mt19937 random(11);
  for (const int lanes : {4, 8, 16}) {
    const std::string l = "x" + std::to_string(lanes);
    const Kernel kernel = parsed(
        "kernel d {\nin x: s32[16] stride [1] align 4\nin w: s32[16] stride [1] align 4\nin z: f32[16] stride [1] "
        "align 4\nout y: f32[16] stride [1] align 4\nreg a: s32" +
        l + "\nreg b: s32" + l + "\nreg c: f32" + l +
        "\na = load x[0]\nb = load w[0]\nc = load z[0]\nc = dot_pairs(a, b, c)\nstore y[0] = c\n}");
    for (int round = 0; round < 2000; ++round) {
      // All kinds, or ordinary numbers but for some.
      const auto any = [&](const std::vector<uint32_t>& of) {
        return of[round % 2 == 0 || random() % 8 == 0 ? random() % of.size() : random() % 2];
      };
      Lanes x(16), w(16), z(16), y(16, 0xdeadbeef);
      for (size_t i = 0; i < 16; ++i) {
        x[i] = any(halves) << 16 | any(halves);
        w[i] = any(halves) << 16 | any(halves);
        z[i] = any(sums);
      }
      with_and_without_denormals([&] {
        run_all_tasks(kernel, {x.data(), w.data(), z.data(), y.data()}, {});
        for (size_t i = 0; i < 16; ++i) {
          const uint32_t alone =
              i < static_cast<size_t>(lanes) ? bits(dot_bf16_pairs(x[i], w[i], value(z[i]))) : 0xdeadbeef;
          if (std::isnan(value(alone))) {
            EXPECT_TRUE(std::isnan(value(y[i])));
          } else {
            EXPECT_EQ(y[i], alone) << lanes << " lanes, lane " << i << std::hex << ": " << x[i] << " " << w[i] << " "
                                   << z[i];
          }
        }
      });
      if (testing::Test::HasFailure()) return;
    }
  }
}

#if defined(__x86_64__)
TEST(IrInterpret, DenormalsFollowTheCallersMxcsr) {
  const uint32_t before = _mm_getcsr();
  EXPECT_NE(run_ops("d = add(a, a)", "d")[11], 0u);
  _mm_setcsr(before | 0x8040);  // flush to zero, denormals are zero
  const Lanes flushed = run_ops("d = add(a, a)", "d");
  const uint32_t after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(flushed[11], 0u);
  EXPECT_EQ(after & 0x8040, 0x8040u);
}
#endif

}  // namespace
}  // namespace hone::ir
