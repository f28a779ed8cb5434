// Two versions of one loop: for AVX2 and FMA, and for any CPU. Chosen by a test at run time, not by ifunc, which
// sanitizers and static linking dislike.
#include "kernels/math/array_math.h"

#include <atomic>

#include "kernels/math/scalar_ops.h"

namespace hone::math {
namespace {

template <Activation kActivation>
[[gnu::always_inline]] inline void loop(const float* x, float* y, int64_t n) {
  ScalarOps ops;
  for (int64_t i = 0; i < n; ++i) y[i] = activate(ops, kActivation, x[i]);
}

template <Activation kActivation>
[[gnu::target("avx2,fma")]] void loop_avx2(const float* x, float* y, int64_t n) {
  loop<kActivation>(x, y, n);
}

template <Activation kActivation>
void loop_any(const float* x, float* y, int64_t n) {
  loop<kActivation>(x, y, n);
}

template <Activation kActivation>
void dispatch(const float* x, float* y, int64_t n) {
  cpu_has_avx2_fma() ? loop_avx2<kActivation>(x, y, n) : loop_any<kActivation>(x, y, n);
}

}  // namespace

namespace {
std::atomic<bool> pretend_no_avx2 = false;
}

bool cpu_has_avx2_fma() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has && !pretend_no_avx2.load(std::memory_order_relaxed);
}

void pretend_no_avx2_for_testing(bool pretend) { pretend_no_avx2 = pretend; }

void activate_array(Activation activation, const float* x, float* y, int64_t n) {
  switch (activation) {
    case Activation::kExp:
      return dispatch<Activation::kExp>(x, y, n);
    case Activation::kTanh:
      return dispatch<Activation::kTanh>(x, y, n);
    case Activation::kErf:
      return dispatch<Activation::kErf>(x, y, n);
    case Activation::kSilu:
      return dispatch<Activation::kSilu>(x, y, n);
    case Activation::kGeluTanh:
      return dispatch<Activation::kGeluTanh>(x, y, n);
    case Activation::kGeluErf:
      return dispatch<Activation::kGeluErf>(x, y, n);
    case Activation::kExpNonPositive:
      return dispatch<Activation::kExpNonPositive>(x, y, n);
    case Activation::kLog:
      return dispatch<Activation::kLog>(x, y, n);
    case Activation::kRelu:
      return dispatch<Activation::kRelu>(x, y, n);
  }
}

}  // namespace hone::math
