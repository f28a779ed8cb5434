// BLIS, through its typed interface. It refuses its AVX-512 kernels ("skx") when the name of the CPU does not tell how
// many FMA units there are, which in a virtual machine is always: 0.9 then takes "haswell". With AVX-512 present skx is
// asked for through BLIS_ARCH_TYPE.
#include <blis.h>

#include <cstdlib>
#include <string>

#include "bench/peers/peer_internal.h"

namespace hone::peers {
namespace {

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}

// BLIS looks at the variable once, at its first call; bli_init must be that call, or it aborts over the variable.
const std::string& kernels() {
  static const std::string name = [] {
    const bool force = has_avx512();
    if (force) setenv("BLIS_ARCH_TYPE", std::to_string(BLIS_ARCH_SKX).c_str(), 1);
    bli_init();
    std::string chosen = bli_arch_string(bli_arch_query_id());
    if (force) unsetenv("BLIS_ARCH_TYPE");
    return force ? chosen + " (asked for: left alone, BLIS may not use AVX-512)" : chosen;
  }();
  return name;
}

void use_threads(int threads) {
  static int current = 0;
  if (current != threads) bli_thread_set_num_threads(threads);
  current = threads;
}

class Blis final : public Way {
 public:
  Blis(const HonePeerProblem& p, bool gemv) : p_(p), gemv_(gemv) { kernels(); }

  int run(const float* a, const float* b, float* c) override {
    use_threads(p_.threads);
    float one = 1, zero = 0;
    auto* x = const_cast<float*>(a);  // BLIS 0.9 has no const in its interface
    auto* y = const_cast<float*>(b);
    const inc_t rows = p_.b_transposed ? 1 : p_.ldb, cols = p_.b_transposed ? p_.ldb : 1;
    if (gemv_) {
      bli_sgemv(BLIS_TRANSPOSE, BLIS_NO_CONJUGATE, p_.k, p_.n, &one, y, rows, cols, x, 1, &zero, c, 1);
    } else {
      bli_sgemm(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, p_.m, p_.n, p_.k, &one, x, p_.lda, 1, y, rows, cols, &zero, c,
                p_.ldc, 1);
    }
    return 0;
  }

 private:
  HonePeerProblem p_;
  bool gemv_;
};

// B is read where it is, also when it is constant: the public interface has no packed operands.
std::vector<NamedWay> ways(const HonePeerProblem& p, const float*) {
  std::vector<NamedWay> all = {{"sgemm", [p] { return std::make_unique<Blis>(p, false); }}};
  if (p.m == 1) all.push_back({"sgemv", [p] { return std::make_unique<Blis>(p, true); }});
  return all;
}

const char* describe() {
  static const std::string text =
      std::string("BLIS ") + bli_info_get_version_str() + ", kernels for " + kernels() + "; B is read where it is";
  return text.c_str();
}

}  // namespace
}  // namespace hone::peers

HONE_PEER_EXPORT const HonePeer* hone_peer(void) {
  static const HonePeer peer = hone::peers::make_peer<hone::peers::ways>("blis", hone::peers::describe);
  return &peer;
}
