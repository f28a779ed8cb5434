// Eigen: templates, so its speed is that of this file's flags: -O3 -march=native -fopenmp, here only. A library that
// was built for another CPU says so in prepare, instead of ending in an illegal instruction.
#include <Eigen/Core>

#include <string>

#include "bench/peers/peer_internal.h"

namespace hone::peers {
namespace {

using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ColMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;
using Stride = Eigen::OuterStride<>;

class EigenProduct final : public Way {
 public:
  explicit EigenProduct(const HonePeerProblem& p) : p_(p) {}

  int run(const float* a, const float* b, float* c) override {
    Eigen::setNbThreads(p_.threads);
    const Eigen::Map<const RowMajor, 0, Stride> x(a, p_.m, p_.k, Stride(p_.lda));
    Eigen::Map<RowMajor, 0, Stride> z(c, p_.m, p_.n, Stride(p_.ldc));
    if (p_.b_transposed) {
      z.noalias() = x * Eigen::Map<const ColMajor, 0, Stride>(b, p_.k, p_.n, Stride(p_.ldb));
    } else {
      z.noalias() = x * Eigen::Map<const RowMajor, 0, Stride>(b, p_.k, p_.n, Stride(p_.ldb));
    }
    return 0;
  }

 private:
  HonePeerProblem p_;
};

bool runs_here() {
#ifdef __AVX512F__
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512dq")) return false;
#endif
#ifdef __AVX2__
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return false;
#endif
  return true;
}

std::vector<NamedWay> ways(const HonePeerProblem& p, const float*) {
  if (!runs_here()) throw std::runtime_error("built for another CPU (-march=native): build the peer on this machine");
  return {{"product of maps", [p] { return std::make_unique<EigenProduct>(p); }}};
}

const char* describe() {
  static const std::string text = "Eigen " + std::to_string(EIGEN_WORLD_VERSION) + "." +
                                  std::to_string(EIGEN_MAJOR_VERSION) + "." + std::to_string(EIGEN_MINOR_VERSION) +
                                  ", " + Eigen::SimdInstructionSetsInUse() +
                                  ", -O3 -march=native -fopenmp; B is read where it is";
  return text.c_str();
}

}  // namespace
}  // namespace hone::peers

HONE_PEER_EXPORT const HonePeer* hone_peer(void) {
  static const HonePeer peer = hone::peers::make_peer<hone::peers::ways>("eigen", hone::peers::describe);
  return &peer;
}
