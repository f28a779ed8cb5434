// See bench_peers.h.
#include "tools/hone/bench_peers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autotune/measure/attention_operands.h"
#include "kernels/attention/reference.h"

namespace hone::cli {
namespace {

using attention::AttentionProblem;
using matmul::MatmulProblem;

Result<void*> handle_of(const HonePeer& peer, void* handle, const char* why) {
  if (handle == nullptr) return unsupported(fmt::format("{}: {}", peer.name, why));
  return handle;
}

// ---- matmul ----

// Peers add in orders of their own, so their results differ from ours by rounding: at |a|, |b| < 1 a difference is
// below 1e-5 sqrt(k) unless an element is wrong, which shows as an error near sqrt(k) / 3.
double tolerance(int64_t k) { return 1e-5 * std::sqrt(static_cast<double>(std::max<int64_t>(k, 1))); }

std::string lack(const MatmulProblem& p) {
  // Not every peer checks for an empty matrix before it reads one.
  if (p.m == 0 || p.n == 0 || p.k == 0) return "peers are compared where m, n and k are at least 1";
  if (p.dtype != DType::kF32) return "peers have weights of f32: compare matmul:f32";
  if (!p.epilogue.empty()) return "peers have no epilogue: compare the problem without it";
  if (p.batch != 1) return "peers are compared without batch";
  if (p.alpha != 1 || p.beta != 0) return "peers are compared with alpha=1, beta=0";
  return "";
}

class MatmulWork final : public PeerWork {
 public:
  MatmulWork(const MatmulProblem& problem, bool b_constant, autotune::Operands operands)
      : p_(problem), b_constant_(b_constant), operands_(std::move(operands)) {}

  Result<void*> prepare(const HonePeer& peer, int threads) override {
    const HonePeerProblem wanted{p_.m,
                                 p_.n,
                                 p_.k,
                                 p_.row_stride_a(),
                                 p_.row_stride_b(),
                                 p_.row_stride_c(),
                                 p_.b == matmul::BLayout::kNt,
                                 b_constant_ ? 1 : 0,
                                 threads};
    char error[256] = "";
    return handle_of(peer, peer.prepare(&wanted, static_cast<const float*>(operands_.view().b), error, sizeof error),
                     error);
  }
  void reset() override { operands_.reset_c(); }
  bool run(const HonePeer& peer, void* handle) override {
    const matmul::MatmulOperands operands = operands_.view();
    return peer.run(handle, operands.a, static_cast<const float*>(operands.b), operands.c) == 0;
  }
  Status check(const HonePeer& peer) const override;
  std::vector<std::span<const std::byte>> ranges() const override { return operands_.ranges(); }

 private:
  MatmulProblem p_;
  bool b_constant_;  // the problem lets B be packed beforehand, so peers may as well
  autotune::Operands operands_;
};

Status MatmulWork::check(const HonePeer& peer) const {
  autotune::Cells cells;
  for (int64_t i : {int64_t{0}, p_.m / 2, p_.m - 1})
    if (i >= 0 && (cells.rows.empty() || cells.rows.back() != i)) cells.rows.push_back(i);
  for (int64_t j = 0; j < p_.n; j += std::max<int64_t>(1, p_.n / 37)) cells.cols.push_back(j);
  const std::vector<float> expected = operands_.reference(cells);
  const float* c = operands_.view().c;
  size_t at = 0;
  for (int64_t i : cells.rows) {
    for (int64_t j : cells.cols) {
      const float got = c[i * p_.row_stride_c() + j];
      const float want = expected[at++];
      if (!(std::abs(got - want) <= tolerance(p_.k)))
        return data_loss(fmt::format("{}: C[{}, {}] is {}, should be {}", peer.name, i, j, got, want));
    }
  }
  return {};
}

Result<std::unique_ptr<PeerWork>> work(const MatmulProblem& problem, uint64_t seed,
                                       std::shared_ptr<autotune::Weights>* weights) {
  MatmulProblem p = problem;
  // Where B may be packed, [k, n] is the layout that every peer documents first.
  const bool constant = p.b == matmul::BLayout::kPacked;
  if (constant) p.b = matmul::BLayout::kNn;
  HONE_ASSIGN_OR_RETURN(autotune::Operands operands, autotune::Operands::create(p, seed, weights));
  return std::unique_ptr<PeerWork>(std::make_unique<MatmulWork>(p, constant, std::move(operands)));
}

// ---- attention ----

std::string lack(const AttentionProblem& p) {
  if (p.kv == 0) return "peers are compared where kv is at least 1";
  if (p.page > 0) return "peers have no pages: compare the problem without page";
  if (p.window > 0) return "peers have no sliding window: compare the problem without it";
  if (p.mask != attention::MaskKind::kNone) return "peers are compared without a mask";
  if (p.softcap != 0) return "peers have no softcap: compare the problem without it";
  if (p.lse) return "peers do not give log-sum-exp: compare the problem without it";
  if (p.causal && p.kv < p.q) return "peers are compared where every row sees a key: causal needs kv >= q";
  return "";
}

class AttentionWork final : public PeerWork {
 public:
  AttentionWork(const AttentionProblem& problem, autotune::AttentionOperands operands)
      : p_(problem), operands_(std::move(operands)) {}

  Result<void*> prepare(const HonePeer& peer, int threads) override;
  void reset() override { operands_.reset_output(); }
  bool run(const HonePeer& peer, void* handle) override {
    const attention::Sequence& s = operands_.sequences().front();
    return peer.run_attention(handle, s.query, s.key, s.value, s.out) == 0;
  }
  Status check(const HonePeer& peer) const override;
  std::vector<std::span<const std::byte>> ranges() const override { return operands_.ranges(); }

 private:
  Status check_row(const HonePeer& peer, int64_t item, int64_t head, int64_t row) const;

  AttentionProblem p_;
  autotune::AttentionOperands operands_;
};

Result<void*> AttentionWork::prepare(const HonePeer& peer, int threads) {
  if (peer.prepare_attention == nullptr)
    return unsupported(fmt::format("{} has no attention, nor a softmax to make it of", peer.name));
  const std::span<const attention::Sequence> items = operands_.sequences();
  const attention::Sequence &first = items.front(), &next = items.size() > 1 ? items[1] : first;
  const HonePeerAttention wanted{p_.batch,
                                 p_.heads,
                                 p_.kv_heads,
                                 p_.q,
                                 p_.kv,
                                 p_.d,
                                 p_.value_dim(),
                                 {p_.row_stride_q(), first.q_head, next.query - first.query},
                                 {p_.row_stride_k(), first.k_head, next.key - first.key},
                                 {p_.row_stride_v(), first.v_head, next.value - first.value},
                                 {p_.row_stride_o(), first.o_head, next.out - first.out},
                                 p_.causal ? 1 : 0,
                                 p_.scale_in_force(),
                                 threads};
  char error[256] = "";
  return handle_of(peer, peer.prepare_attention(&wanted, error, sizeof error), error);
}

// The first, the last and one between.
std::vector<int64_t> few_of(int64_t n) {
  std::vector<int64_t> few = {0, n / 2, n - 1};
  few.erase(std::unique(few.begin(), few.end()), few.end());
  return few;
}

Status AttentionWork::check(const HonePeer& peer) const {
  for (const int64_t item : few_of(p_.batch))
    for (const int64_t head : few_of(p_.heads))
      for (const int64_t row : few_of(p_.q)) HONE_RETURN_IF_ERROR(check_row(peer, item, head, row));
  return operands_.check_gaps();
}

// The bound holds for sums in any order and an exp with an error of 2 ulp, which peers need not have: they get four
// times as much. A key too many or too few is off by far more.
constexpr double kSlack = 4;

Status AttentionWork::check_row(const HonePeer& peer, int64_t item, int64_t head, int64_t row) const {
  const attention::Sequence& s = operands_.sequences()[static_cast<size_t>(item)];
  const autotune::AttentionRow one = autotune::row_of(p_, s, head, row);
  const attention::Reference reference = attention::reference_f64(one.problem, one.sequence);
  const float* out = s.out + head * s.o_head + row * p_.row_stride_o();
  for (size_t c = 0; c < reference.value.size(); ++c)
    if (!(std::abs(out[c] - reference.value[c]) <= kSlack * reference.bound[c]))
      return data_loss(fmt::format("{}: O[{}, {}, {}, {}] is {}, should be {} +- {}", peer.name, item, head, row, c,
                                   out[c], reference.value[c], kSlack * reference.bound[c]));
  return {};
}

Result<std::unique_ptr<PeerWork>> work(const AttentionProblem& problem, uint64_t seed,
                                       std::shared_ptr<autotune::Weights>*) {
  AttentionProblem p = problem;
  p.k = attention::KeyLayout::kRows;  // blocked is the engine's own choice: peers know rows
  HONE_ASSIGN_OR_RETURN(autotune::AttentionOperands operands,
                        autotune::AttentionOperands::create(p, seed, autotune::Where::kReal));
  return std::unique_ptr<PeerWork>(std::make_unique<AttentionWork>(p, std::move(operands)));
}

}  // namespace

std::string peers_lack(const op::Problem& problem) {
  return std::visit([](const auto& p) { return lack(p); }, problem);
}

bool knows(const HonePeer& peer, const op::Problem& problem) {
  return !std::holds_alternative<AttentionProblem>(problem) || peer.prepare_attention != nullptr;
}

Result<std::unique_ptr<PeerWork>> make_peer_work(const op::Problem& problem, uint64_t seed,
                                                 std::shared_ptr<autotune::Weights>* weights) {
  return std::visit([&](const auto& p) { return work(p, seed, weights); }, problem);
}

}  // namespace hone::cli
