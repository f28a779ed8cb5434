// LIBXSMM generates kernels for small products and leaves the loops around them to its user. These are ours: C is cut
// into blocks of nb columns and mb rows, k into steps of kc; a constant B is packed once into [n/nb][k][nb], else a
// transposed B is transposed panel by panel with libxsmm_otrans as part of the call. Several blockings are tried, the
// fastest is kept.
//
// LIBXSMM is column-major: our row-major C = A B is its C' = B' A', so its m is our n, and its a is our B.
#include <libxsmm.h>
#include <omp.h>

#include <atomic>
#include <string>

#include "bench/peers/peer_internal.h"

namespace hone::peers {
namespace {

struct Blocks {
  int64_t nb, mb, kc;
};

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

class Libxsmm final : public Way {
 public:
  Libxsmm(const HonePeerProblem& p, const float* b, Blocks blocks) : p_(p), blocks_(blocks) {
    libxsmm_init();
    blocks_ = {std::min(blocks.nb, p.n), std::min(blocks.mb, p.m), std::min(blocks.kc, p.k)};
    panels_ = ceil_div(p.n, blocks_.nb);
    copies_ = p.b_constant || p.b_transposed;
    for (const bool last_n : {false, true})
      for (const bool last_m : {false, true})
        for (const bool last_k : {false, true})
          for (const bool first : {false, true}) make_kernel(last_n, last_m, last_k, first);
    if (p.b_constant) {
      packed_ = zeros(packed_floats());
      for (int64_t j = 0; j < panels_; ++j) pack(b, j, packed_.get() + j * p.k * blocks_.nb);
    } else if (copies_) {
      for (int t = 0; t < p.threads; ++t) workspaces_.push_back(zeros(p.k * blocks_.nb));
    }
  }

  int run(const float* a, const float* b, float* c) override {
    // Panels are dealt out first; rows too when there are fewer panels than threads and nothing is packed twice for it.
    const int64_t row_blocks = ceil_div(p_.m, blocks_.mb);
    const int64_t parts = workspaces_.empty() ? std::min<int64_t>(row_blocks, ceil_div(p_.threads, panels_)) : 1;
    const int64_t tasks = panels_ * parts;
#pragma omp parallel for schedule(static) num_threads(p_.threads) if (p_.threads > 1 && tasks > 1)
    for (int64_t task = 0; task < tasks; ++task) {
      const int64_t panel = task / parts, part = task % parts;
      const float* source = panel_of(b, panel);
      run_panel(a, source, c, panel, part * row_blocks / parts, (part + 1) * row_blocks / parts);
    }
    return 0;
  }

  const void* packed(size_t* bytes) override {
    *bytes = packed_ == nullptr ? 0 : static_cast<size_t>(packed_floats()) * sizeof(float);
    return packed_.get();
  }

 private:
  int64_t packed_floats() const { return panels_ * p_.k * blocks_.nb; }
  int64_t cols(int64_t panel) const { return std::min(blocks_.nb, p_.n - panel * blocks_.nb); }
  int64_t stride() const { return copies_ ? blocks_.nb : p_.ldb; }
  static int index(bool last_n, bool last_m, bool last_k, bool first) {
    return (last_n ? 8 : 0) + (last_m ? 4 : 0) + (last_k ? 2 : 0) + (first ? 1 : 0);
  }

  void make_kernel(bool last_n, bool last_m, bool last_k, bool first) {
    auto size = [](bool last, int64_t whole, int64_t block) {
      return static_cast<libxsmm_blasint>(last && whole % block != 0 ? whole % block : block);
    };
    const libxsmm_blasint n = size(last_n, p_.n, blocks_.nb), m = size(last_m, p_.m, blocks_.mb),
                          k = size(last_k, p_.k, blocks_.kc);
    const auto ld_b = static_cast<libxsmm_blasint>(stride()), ld_a = static_cast<libxsmm_blasint>(p_.lda),
               ld_c = static_cast<libxsmm_blasint>(p_.ldc);
    const float alpha = 1, beta = first ? 0 : 1;
    const libxsmm_smmfunction kernel =
        libxsmm_smmdispatch(n, m, k, &ld_b, &ld_a, &ld_c, &alpha, &beta, nullptr, nullptr);
    if (kernel == nullptr) throw std::runtime_error("LIBXSMM generates no kernel for this shape on this CPU");
    kernels_[index(last_n, last_m, last_k, first)] = kernel;
  }

  void pack(const float* b, int64_t panel, float* to) const {
    const auto n = static_cast<unsigned>(cols(panel));
    const auto k = static_cast<libxsmm_blasint>(p_.k), ldb = static_cast<libxsmm_blasint>(p_.ldb),
               nb = static_cast<libxsmm_blasint>(blocks_.nb);
    const int64_t j = panel * blocks_.nb;
    if (p_.b_transposed) {
      libxsmm_otrans(to, b + j * p_.ldb, sizeof(float), k, static_cast<libxsmm_blasint>(n), ldb, nb);
    } else {
      libxsmm_matcopy(to, b + j, sizeof(float), static_cast<libxsmm_blasint>(n), k, ldb, nb);
    }
  }

  const float* panel_of(const float* b, int64_t panel) {
    if (packed_ != nullptr) return packed_.get() + panel * p_.k * blocks_.nb;
    if (workspaces_.empty()) return b + panel * blocks_.nb;
    float* workspace = workspaces_[static_cast<size_t>(omp_get_thread_num())].get();
    pack(b, panel, workspace);
    return workspace;
  }

  void run_panel(const float* a, const float* source, float* c, int64_t panel, int64_t begin, int64_t end) const {
    const bool last_n = panel == panels_ - 1;
    const int64_t row_blocks = ceil_div(p_.m, blocks_.mb);
    for (int64_t p = 0; p < p_.k; p += blocks_.kc) {
      const bool last_k = p + blocks_.kc >= p_.k;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i * blocks_.mb;
        kernels_[index(last_n, i == row_blocks - 1, last_k, p == 0)](source + p * stride(), a + row * p_.lda + p,
                                                                     c + row * p_.ldc + panel * blocks_.nb);
      }
    }
  }

  HonePeerProblem p_;
  Blocks blocks_;
  int64_t panels_ = 0;
  bool copies_ = false;
  libxsmm_smmfunction kernels_[16] = {};
  Floats packed_;
  std::vector<Floats> workspaces_;
};

// 64 columns are four vectors of 16: with six rows LIBXSMM fills the registers of AVX-512. kc x nb x 4 bytes is what
// the rows of a block reuse: 64 KiB and 128 KiB for an L2, and all of k for few rows, where nothing is reused.
std::vector<NamedWay> ways(const HonePeerProblem& p, const float* b) {
  const std::string copy = p.b_constant ? ", B packed beforehand" : p.b_transposed ? ", B transposed in the call" : "";
  std::vector<NamedWay> all;
  for (const Blocks blocks : {Blocks{64, 48, 256}, Blocks{64, 48, 512}, Blocks{32, 96, 1024}, Blocks{64, 48, p.k}})
    all.push_back({"blocks of " + std::to_string(blocks.nb) + " columns, " + std::to_string(blocks.mb) +
                       " rows, k in steps of " + std::to_string(blocks.kc) + copy,
                   [=] { return std::make_unique<Libxsmm>(p, b, blocks); }});
  return all;
}

const char* describe() {
  static const std::string text = [] {
    libxsmm_init();
    return std::string("LIBXSMM ") + HONE_LIBXSMM_VERSION + ", kernels for " + libxsmm_get_target_arch() +
           "; the loops around them and OpenMP are ours";
  }();
  return text.c_str();
}

}  // namespace
}  // namespace hone::peers

HONE_PEER_EXPORT const HonePeer* hone_peer(void) {
  static const HonePeer peer = hone::peers::make_peer<hone::peers::ways>("libxsmm", hone::peers::describe);
  return &peer;
}
