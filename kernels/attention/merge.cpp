// How a row ends, and the second kernel of kSplit: partial states, each over some of the blocks, become one.
//
// With m = max of the m_s and w_s = exp(m_s - m), l = sum of w_s l_s and O = sum of w_s O_s, s ascending: what the
// row's sums would be had all keys been weighed against m, but for rounding. A split that saw nothing has m_s = -inf
// and w_s = 0.
#include <limits>

#include "kernels/attention/lower_internal.h"

namespace hone::attention {

using ir::Access;
using ir::Affine;
using ir::BinaryOp;
using ir::Builder;
using ir::CompareOp;
using ir::RegId;
using ir::RegRef;
using math::Activation;

RowEnd::RowEnd(Builder& builder, int lanes)
    : b_(builder), lanes_(lanes), reducer_(builder, lanes), ops_(builder, lanes) {
  auto vector = [&](const char* name) { return Builder::at(b_.reg(name, {.lanes = lanes})); };
  zero_ = vector("none");
  one_ = vector("unit");
  low_ = vector("never");
  value_ = vector("value");
  empty_ = Builder::at(b_.reg("empty", {.lanes = lanes, .mask = true}));
  first_ = Builder::at(b_.reg("first", {.lanes = lanes, .mask = true}));
  b_.constant(zero_, 0.0F);
  b_.constant(one_, 1.0F);
  b_.constant(low_, -std::numeric_limits<float>::infinity());
}

RegRef RowEnd::sum(RegId chains) {
  auto l = [&](int64_t i) { return Builder::at(chains, {i}); };
  for (int64_t half = kKeyGroup / lanes_ / 2; half > 0; half /= 2)
    for (int64_t i = 0; i < half; ++i) b_.binary(BinaryOp::kAdd, l(i), l(i), l(i + half));
  reducer_.reduce(BinaryOp::kAdd, l(0));
  return l(0);
}

void RowEnd::inverse(const RegRef& l, const RegRef& out) {
  b_.compare(CompareOp::kEq, empty_, l, zero_);
  b_.binary(BinaryOp::kDiv, out, one_, l);
  b_.select(out, empty_, zero_, out);
}

void RowEnd::store_log_sum_exp(const Access& to, const RegRef& m, const RegRef& l) {
  b_.compare(CompareOp::kEq, empty_, l, zero_);
  b_.select(value_, empty_, one_, l);
  ops_.apply(Activation::kLog, value_);
  b_.binary(BinaryOp::kAdd, value_, m, value_);
  b_.select(value_, empty_, low_, value_);
  b_.lane_mask(first_, 1);
  b_.store(to, value_, first_);
}

namespace {

class MergeLowering {
 public:
  MergeLowering(const AttentionProblem& problem, const AttentionProgram& program)
      : p_(problem), t_(canonical(problem, program)), b_(kernel_name(problem, program) + "_merge") {}

  // Arguments in the order of bind.cpp.
  ir::Kernel run() {
    const Affine q = Affine::var(b_.param("q")), o_head = Affine::var(b_.param("so"));
    auto buffer = [&](const char* name, ir::Scope scope, std::vector<Affine> extents, std::vector<Affine> strides) {
      return b_.buffer({.name = name, .scope = scope, .extents = std::move(extents), .strides = std::move(strides)});
    };
    partial_ = b_.buffer(partial_states(p_, t_, ir::Scope::kIn));
    out_ = buffer("O", ir::Scope::kOut, {p_.heads, q, p_.value_dim()}, {o_head, p_.row_stride_o(), 1});
    if (p_.lse) lse_ = buffer("lse", ir::Scope::kOut, {p_.heads, q}, {Affine::var(b_.param("lh")), 1});
    weights_ = buffer("w", ir::Scope::kWorkspace, {t_.splits, t_.lanes}, {t_.lanes, 1});
    b_.parallel("h", 0, p_.heads, 1, [&](const Affine& h) {
      head_ = h;
      b_.parallel("i", 0, q, 1, [&](const Affine& i) {
        // As far as promised: the partial states have room for the rows of the problem.
        b_.if_ge_zero(Affine(p_.q - 1) - i, [&] { merge_row(i); });
      });
    });
    return b_.finish();
  }

 private:
  RegRef vector(const char* name) { return Builder::at(b_.reg(name, {.lanes = t_.lanes})); }
  Access partial(const Affine& s, const Affine& i, const Affine& c) const { return {partial_, {s, head_, i, c}}; }

  void merge_row(const Affine& i) {
    RowEnd end(b_, t_.lanes);
    math::IrOps ops(b_, t_.lanes);
    const RegRef m = vector("m"), safe = vector("safe"), x = vector("x"), w = vector("weight");
    b_.constant(m, -std::numeric_limits<float>::infinity());
    b_.serial("s", 0, t_.splits, 1, [&](const Affine& s) {
      b_.load(x, partial(s, i, 0));
      b_.binary(BinaryOp::kMax, m, m, x);
    });
    b_.constant(safe, std::numeric_limits<float>::lowest());
    b_.binary(BinaryOp::kMax, safe, safe, m);
    const RegId chains = b_.reg("chains", {.lanes = t_.lanes}, {kKeyGroup / t_.lanes});
    auto chain = [&](int64_t u) { return Builder::at(chains, {u}); };
    for (int64_t u = 0; u < kKeyGroup / t_.lanes; ++u) b_.constant(chain(u), 0.0F);
    b_.serial("s", 0, t_.splits, 1, [&](const Affine& s) {
      b_.load(w, partial(s, i, 0));
      b_.binary(BinaryOp::kSub, w, w, safe);
      ops.apply(Activation::kExpNonPositive, w);
      b_.store({weights_, {s, 0}}, w);
      for (int64_t u = 0; u < kKeyGroup / t_.lanes; ++u) {
        b_.load(x, partial(s, i, kKeyGroup + u * t_.lanes));
        b_.fma(chain(u), w, x, chain(u));
      }
    });
    const RegRef l = end.sum(chains), inverse = vector("inverse"), o = vector("o");
    end.inverse(l, inverse);
    each_vector(b_, t_.lanes, p_.value_dim(), [&](const Affine& c, const RegRef& mask) {
      b_.constant(o, 0.0F);
      b_.serial("s", 0, t_.splits, 1, [&](const Affine& s) {
        b_.load(w, {weights_, {s, 0}});
        b_.load(x, partial(s, i, c + 2 * kKeyGroup));
        b_.fma(o, w, x, o);
      });
      b_.binary(BinaryOp::kMul, o, o, inverse);
      b_.store({out_, {head_, i, c}}, o, mask);
    });
    if (p_.lse) end.store_log_sum_exp({lse_, {head_, i}}, m, l);
  }

  const AttentionProblem& p_;
  const AttentionProgram t_;
  Builder b_;
  Affine head_;
  ir::BufferId partial_ = -1, out_ = -1, lse_ = -1, weights_ = -1;
};

}  // namespace

ir::Kernel lower_merge(const AttentionProblem& problem, const AttentionProgram& program) {
  return MergeLowering(problem, program).run();
}

}  // namespace hone::attention
