// OpenBLAS. It dispatches on the CPU by itself; what is left to choose is gemm or gemv for one row.
#include <cblas.h>

#include <string>

#include "bench/peers/peer_internal.h"

namespace hone::peers {
namespace {

// The number of threads is a setting of the process; setting it takes a lock, so only a change is passed on.
void use_threads(int threads) {
  static int current = 0;
  if (current != threads) openblas_set_num_threads(threads);
  current = threads;
}

class OpenBlas final : public Way {
 public:
  OpenBlas(const HonePeerProblem& p, bool gemv) : p_(p), gemv_(gemv) {}

  int run(const float* a, const float* b, float* c) override {
    use_threads(p_.threads);
    const auto m = static_cast<blasint>(p_.m), n = static_cast<blasint>(p_.n), k = static_cast<blasint>(p_.k);
    const auto lda = static_cast<blasint>(p_.lda), ldb = static_cast<blasint>(p_.ldb),
               ldc = static_cast<blasint>(p_.ldc);
    if (!gemv_) {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, p_.b_transposed ? CblasTrans : CblasNoTrans, m, n, k, 1, a, lda, b, ldb,
                  0, c, ldc);
    } else if (p_.b_transposed) {
      cblas_sgemv(CblasRowMajor, CblasNoTrans, n, k, 1, b, ldb, a, 1, 0, c, 1);
    } else {
      cblas_sgemv(CblasRowMajor, CblasTrans, k, n, 1, b, ldb, a, 1, 0, c, 1);
    }
    return 0;
  }

 private:
  HonePeerProblem p_;
  bool gemv_;
};

// B is read where it is, also when it is constant: OpenBLAS has no public interface for packed operands. So `b` of
// prepare is what a constant B is computed with only in the sense that run() gets the same pointer.
std::vector<NamedWay> ways(const HonePeerProblem& p, const float*) {
  std::vector<NamedWay> all = {{"sgemm", [p] { return std::make_unique<OpenBlas>(p, false); }}};
  if (p.m == 1) all.push_back({"sgemv", [p] { return std::make_unique<OpenBlas>(p, true); }});
  return all;
}

const char* describe() {
  static const std::string text =
      std::string(openblas_get_config()) + ", kernels for " + openblas_get_corename() + "; B is read where it is";
  return text.c_str();
}

}  // namespace
}  // namespace hone::peers

HONE_PEER_EXPORT const HonePeer* hone_peer(void) {
  static const HonePeer peer = hone::peers::make_peer<hone::peers::ways>("openblas", hone::peers::describe);
  return &peer;
}
