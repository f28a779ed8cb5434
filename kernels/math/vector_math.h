// exp, tanh, erf and the activations built from them, written once and computed everywhere with the same bits.
//
// A kernel must give the same result whichever code generator made it and however wide its vectors are, so libm is no
// use here: each function is a fixed sequence of f32 operations that round once each. The sequence is a template over
// an "Ops" type that says what an operation does: ScalarOps computes it (scalar_ops.h), IrOps emits it as LoopIR
// (ir_ops.h), and a third collects the constants. Nothing is fused except where the text says fma.
//
// An Ops type provides, with V cheap to copy and passed by value so that an emitter may write into an operand that the
// caller moved away:
//   V constant(float)
//   V add(V, V)   V sub(V, V)   V mul(V, V)   V div(V, V)   V fma(V a, V b, V c) = a * b + c
//   V min(V a, V b) = a < b ? a : b           V max(V a, V b) = a > b ? a : b     (b when either is NaN)
//   V exponent(V a) = the float whose bits are those of a shifted left by 23
//   V bits_as_number(V a) = the bits of a, read as a signed integer, as a float
// There is no compare and no select on purpose: on AVX2 a mask costs one of 16 vector registers, and every branch below
// can be had by clamping. Clamps are written max(constant, x) and min(constant, x), which lets a NaN in x through.
//
// Bounds, tested over all 2^32 arguments in tests/kernels/math (t = 2^-24; 1 ulp is between t and 2 t of the result):
//   exp        1 ulp where the result is normal; gradual underflow down to x = -87.68, 0 below; inf above 88.7228
//   exp_nonpositive  as exp, for x <= 0 and -inf; exp_nonpositive(0) = 1, unspecified above
//   log        |error| <= 1.25 * 2^-23 + 1 ulp of the result, for x in [2^-126, 2^126]; unspecified elsewhere
//   tanh       3 ulp; tanh(-0) = +0; never beyond +-1
//   erf        |error| <= 6.5 t |result| (3.9e-7 at most); exactly odd; never beyond +-1
//   silu       |error| <= 5 t |result|; below x = -88 the result fades to -0 (|error| < 3e-37)
//   gelu_tanh  |error| <= 2.5 t |x|; relative to the result (5 + 2.5 |a|) t, a = 1.6 x (1 + 0.0447 x^2), down to 1e-36
//   gelu_erf   |error| <= 4 t |x| (no relative bound in the far negative tail, where 1 + erf cancels)
// Always inlined: a caller compiled for FMA must not end up in a copy that was compiled without.
// NaN gives NaN. Limits at infinity are exact: exp(-inf) = 0, silu(-inf) = gelu_tanh(-inf) = -0, gelu_erf(-inf) = 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace hone::math {

enum class Activation : uint8_t { kExp, kTanh, kErf, kSilu, kGeluTanh, kGeluErf, kExpNonPositive, kLog, kRelu };

constexpr std::string_view activation_name(Activation a) {
  switch (a) {
    case Activation::kExp:
      return "exp";
    case Activation::kTanh:
      return "tanh";
    case Activation::kErf:
      return "erf";
    case Activation::kSilu:
      return "silu";
    case Activation::kGeluTanh:
      return "gelu_tanh";
    case Activation::kGeluErf:
      return "gelu_erf";
    case Activation::kExpNonPositive:
      return "exp_nonpositive";
    case Activation::kLog:
      return "log";
    case Activation::kRelu:
      return "relu";
  }
  return "?";
}

namespace constants {
// exp. kMagic = 1.5 * 2^23 + 127: adding it leaves round(y) + 127 in the low bits of the mantissa, which is 2^round(y)
// once shifted into the exponent. kMagicTop is the sum for y = 127, the largest exponent a float has.
inline constexpr float kMagic = 12583039.0f, kMagicTop = 12583166.0f;
inline constexpr float kLog2E = 0x1.715476p+0f;
// ln(2) in two parts. fma(n, -kLn2Hi, x) is exact: both are multiples of 2^-24 once |x| > 0.34, and |result| < 0.35.
inline constexpr float kNegLn2Hi = -0x1.62e43p-1f, kNegLn2Lo = 0x1.05c61p-29f;
// Below -88 the exponent field reaches 0 (result 0); above 89 the result is inf. Beyond them only to keep round(y)
// small.
inline constexpr float kExpLo = -88.0f, kExpHi = 89.0f;
// (exp(r) - 1 - r) / r^2 on |r| <= ln(2)/2, from tools/math/fit.py.
inline constexpr float kExp2 = 0x1.fffffcp-2f, kExp3 = 0x1.555492p-3f, kExp4 = 0x1.5558bp-5f, kExp5 = 0x1.12398ep-7f,
                       kExp6 = 0x1.6a4d68p-10f;
// tanh: beyond it the float nearest to tanh is 1.
inline constexpr float kTanhClamp = 9.02f;
// erf(x) = x P(x^2) / Q(x^2) up to the clamp, beyond which the float nearest to erf is 1. From tools/math/fit.py.
inline constexpr float kErfClamp = 3.92f;
inline constexpr float kErfP[] = {0x1.a66fdcp+0f, 0x1.1c54a6p-2f,  0x1.3b88f4p-4f,
                                  0x1.66a42ep-8f, 0x1.b3e6acp-12f, 0x1.930214p-19f};
inline constexpr float kErfQ[] = {0x1.766p+0f,    0x1.7792e4p-1f,  0x1.55171p-3f,
                                  0x1.658bacp-6f, 0x1.bb6856p-10f, 0x1.d3498ap-15f};
// gelu_tanh(x) = x / (1 + exp(x (a + b x^2))), a = -2 sqrt(2 / pi), b = 0.044715 a.
inline constexpr float kGeluA = -0x1.988454p+0f, kGeluB = -0x1.2444f2p-4f;
inline constexpr float kSqrtHalf = 0x1.6a09e6p-1f;
// log. The bits of x read as an integer are 2^23 (log2(x) + 127 - d), 0 <= d < 0.0861: the guess takes half of that
// back.
inline constexpr float kLogScale = 0x1.62e43p-24f, kLogBias = -0x1.5ff5ccp+6f;
}  // namespace constants

// x = n ln(2) + r: returns t = n + kMagic and leaves r in x.
template <typename Ops>
[[gnu::always_inline]] inline typename Ops::V reduce(Ops& o, typename Ops::V& x) {
  using namespace constants;
  auto t = o.fma(x, o.constant(kLog2E), o.constant(kMagic));
  auto n = o.sub(t, o.constant(kMagic));
  x = o.fma(n, o.constant(kNegLn2Hi), std::move(x));
  x = o.fma(std::move(n), o.constant(kNegLn2Lo), std::move(x));
  return t;
}

// (exp(r) - 1 - r) / r^2.
template <typename Ops>
[[gnu::always_inline]] inline typename Ops::V exp_tail(Ops& o, const typename Ops::V& r) {
  using namespace constants;
  auto p = o.fma(r, o.constant(kExp6), o.constant(kExp5));
  p = o.fma(std::move(p), r, o.constant(kExp4));
  p = o.fma(std::move(p), r, o.constant(kExp3));
  return o.fma(std::move(p), r, o.constant(kExp2));
}

// exp(r) 2^n. 2^n is a float only up to n = 127, but results up to 2^128 exist, so n is cut to 127 and the rest d (0 or
// 1) applied as y + y d, which is exact or overflows to inf as it should.
template <typename Ops>
[[gnu::always_inline]] inline typename Ops::V exp(Ops& o, typename Ops::V x) {
  using namespace constants;
  x = o.max(o.constant(kExpLo), std::move(x));
  x = o.min(o.constant(kExpHi), std::move(x));
  auto t = reduce(o, x);
  auto top = o.min(o.constant(kMagicTop), t);
  auto d = o.sub(std::move(t), top);
  auto p = exp_tail(o, x);
  p = o.fma(std::move(p), x, o.constant(1.0f));
  p = o.fma(std::move(p), std::move(x), o.constant(1.0f));
  p = o.mul(std::move(p), o.exponent(std::move(top)));
  return o.fma(p, std::move(d), p);
}

// The same without what positive arguments need: weights of a softmax, 13 operations instead of 17, the same bits.
template <typename Ops>
[[gnu::always_inline]] inline typename Ops::V exp_nonpositive(Ops& o, typename Ops::V x) {
  using namespace constants;
  x = o.max(o.constant(kExpLo), std::move(x));
  auto t = reduce(o, x);
  auto p = exp_tail(o, x);
  p = o.fma(std::move(p), x, o.constant(1.0f));
  p = o.fma(std::move(p), std::move(x), o.constant(1.0f));
  return o.mul(std::move(p), o.exponent(std::move(t)));
}

// y + 2 (x - exp(y)) / (x + exp(y)): Halley's step towards log(x), which leaves a twelfth of the cube of the error.
template <typename Ops>
[[gnu::always_inline]] inline typename Ops::V log_step(Ops& o, const typename Ops::V& x, typename Ops::V y) {
  auto e = exp(o, y);
  auto below = o.add(x, e);
  auto above = o.sub(x, std::move(e));
  return o.fma(o.div(std::move(above), std::move(below)), o.constant(2.0f), std::move(y));
}

// The guess is within 0.03; two steps leave the error of exp. Once a row, so its cost does not matter; it needs no
// operations on integers that the others would not use.
template <typename Ops>
[[gnu::always_inline]] inline typename Ops::V log(Ops& o, typename Ops::V x) {
  using namespace constants;
  auto y = o.fma(o.bits_as_number(x), o.constant(kLogScale), o.constant(kLogBias));
  return log_step(o, x, log_step(o, x, std::move(y)));
}

// acc t^i + coef[i - 1] t^(i - 1) + ... + coef[0] by Horner. Recursive, because a loop is not unrolled early enough for
// compilers to vectorise the loop around it.
template <size_t i, typename Ops, size_t N>
[[gnu::always_inline]] inline typename Ops::V horner(Ops& o, const typename Ops::V& t, const float (&coef)[N],
                                                     typename Ops::V acc) {
  if constexpr (i == 0) {
    return acc;
  } else {
    return horner<i - 1>(o, t, coef, o.fma(std::move(acc), t, o.constant(coef[i - 1])));
  }
}

template <typename Ops, size_t N>
[[gnu::always_inline]] inline typename Ops::V polynomial(Ops& o, const typename Ops::V& t, const float (&coef)[N]) {
  static_assert(N >= 2);
  return horner<N - 2>(o, t, coef, o.fma(t, o.constant(coef[N - 1]), o.constant(coef[N - 2])));
}

// E / (E + 2) with E = exp(2 x) - 1 formed without cancellation: 2^n (exp(r) - 1) + (2^n - 1). Never beyond +-1 because
// rounding is monotonic. A rational function with as many constants was off by 4.7 ulp near 1; this is off by 2.5.
template <typename Ops>
[[gnu::always_inline]] inline typename Ops::V tanh(Ops& o, typename Ops::V x) {
  x = o.max(o.constant(-constants::kTanhClamp), std::move(x));
  x = o.min(o.constant(constants::kTanhClamp), std::move(x));
  x = o.add(x, x);
  auto s = o.exponent(reduce(o, x));
  auto p = exp_tail(o, x);
  p = o.mul(std::move(p), x);
  p = o.fma(std::move(p), x, x);
  auto shift = o.sub(s, o.constant(1.0f));
  auto e = o.fma(std::move(s), std::move(p), std::move(shift));
  auto below = o.add(e, o.constant(2.0f));
  return o.div(std::move(e), std::move(below));
}

// x P(x^2) / Q(x^2). The quotient is formed before the product so that a denormal x loses nothing. Rounding may leave
// it an ulp beyond 1, hence the last clamp.
template <typename Ops>
[[gnu::always_inline]] inline typename Ops::V erf(Ops& o, typename Ops::V x) {
  using namespace constants;
  x = o.max(o.constant(-kErfClamp), std::move(x));
  x = o.min(o.constant(kErfClamp), std::move(x));
  const auto t = o.mul(x, x);
  auto y = o.div(polynomial(o, t, kErfP), polynomial(o, t, kErfQ));
  y = o.mul(std::move(y), std::move(x));
  y = o.max(o.constant(-1.0f), std::move(y));
  return o.min(o.constant(1.0f), std::move(y));
}

// x / (1 + exp(-x)). The clamp (exp(110) = inf, the result -0) avoids inf / inf at -inf.
template <typename Ops>
[[gnu::always_inline]] inline typename Ops::V silu(Ops& o, typename Ops::V x) {
  x = o.max(o.constant(-110.0f), std::move(x));
  auto e = exp(o, o.mul(x, o.constant(-1.0f)));
  return o.div(std::move(x), o.add(std::move(e), o.constant(1.0f)));
}

// 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2 u)): cheaper than tanh, and without its cancellation at negative x. At the clamp
// the exponential is inf already.
template <typename Ops>
[[gnu::always_inline]] inline typename Ops::V gelu_tanh(Ops& o, typename Ops::V x) {
  x = o.max(o.constant(-12.0f), std::move(x));
  auto u = o.fma(o.mul(x, x), o.constant(constants::kGeluB), o.constant(constants::kGeluA));
  auto e = exp(o, o.mul(std::move(u), x));
  return o.div(std::move(x), o.add(std::move(e), o.constant(1.0f)));
}

// h + h erf(x / sqrt(2)) with h = x / 2: erf reaches -1 exactly long before the clamp, and h - h is 0.
template <typename Ops>
[[gnu::always_inline]] inline typename Ops::V gelu_erf(Ops& o, typename Ops::V x) {
  x = o.max(o.constant(-100.0f), std::move(x));
  auto e = erf(o, o.mul(x, o.constant(constants::kSqrtHalf)));
  auto h = o.mul(std::move(x), o.constant(0.5f));
  return o.fma(std::move(e), h, h);
}

// max(0, x): NaN stays NaN, -0 stays -0.
template <typename Ops>
[[gnu::always_inline]] inline typename Ops::V relu(Ops& o, typename Ops::V x) {
  return o.max(o.constant(0.0f), std::move(x));
}

template <typename Ops>
[[gnu::always_inline]] inline typename Ops::V activate(Ops& o, Activation a, typename Ops::V x) {
  switch (a) {
    case Activation::kExp:
      return exp(o, std::move(x));
    case Activation::kTanh:
      return tanh(o, std::move(x));
    case Activation::kErf:
      return erf(o, std::move(x));
    case Activation::kSilu:
      return silu(o, std::move(x));
    case Activation::kGeluTanh:
      return gelu_tanh(o, std::move(x));
    case Activation::kGeluErf:
      return gelu_erf(o, std::move(x));
    case Activation::kExpNonPositive:
      return exp_nonpositive(o, std::move(x));
    case Activation::kLog:
      return log(o, std::move(x));
    case Activation::kRelu:
      return relu(o, std::move(x));
  }
  return x;
}

}  // namespace hone::math
