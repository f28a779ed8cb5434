// Softmax of one block, a row at a time and in place: scores become weights, the row's running maximum m and sum l move
// on, and alpha is left for O.
//
// Whole groups of kKeyGroup are worked on: what a row does not see gets score -inf and so weight +0, which changes no
// sum. l is kKeyGroup chains, chain c over keys j = c mod kKeyGroup, so that its bits do not depend on the vector
// length. m - m' where both are -inf would be NaN; the maximum that is subtracted is never below the lowest finite
// float, from which exp(-inf - m) is 0 as it should.
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

namespace {
constexpr float kHidden = -std::numeric_limits<float>::infinity();
constexpr float kLowest = std::numeric_limits<float>::lowest();
constexpr int64_t kMaximumStep = 64;  // keys
}  // namespace

void AttentionLowering::softmax(const Block& block, const Rows& rows) {
  math::IrOps ops(b_, t_.lanes);
  ops.declare(Activation::kExpNonPositive);
  if (p_.softcap > 0) {
    ops.declare(Activation::kTanh);
    ops.declare_constant(p_.softcap);
  }
  ops.declare_constant(kHidden);
  ops.declare_constant(kLowest);
  b_.serial("r", 0, rows.count, 1, [&](const Affine& r) {
    const Row row{.in_tile = r, .in_task = rows.first + r};
    if (!ragged()) return softmax_row(ops, block, row, {0, block.keys});
    const Keys keys = keys_of(row.in_task, block);
    b_.if_ge_zero(
        keys.end - keys.first - 1, [&] { softmax_row(ops, block, row, keys); },
        [&] {
          const RegRef one = vector("one");
          b_.constant(one, 1.0F);
          b_.store({alpha_, {r, 0}}, one);
        });
  });
}

void AttentionLowering::softmax_row(math::IrOps& ops, const Block& block, const Row& row, const Keys& keys) {
  const Affine from = p_.window > 0 ? b_.let_floor_div("wf", keys.first, kKeyGroup) * kKeyGroup : Affine(0);
  const Affine to = b_.let_floor_div("wt", keys.end + (kKeyGroup - 1), kKeyGroup) * kKeyGroup;
  const Keys groups{from, to};
  if (p_.softcap > 0 || p_.mask != MaskKind::kNone) transform_scores(ops, block, row, groups, keys);
  hide_edges(ops, row, groups, keys);
  maximum(ops, row, groups);
  weights(ops, row, groups);
}

// ---- what comes between the product and the maximum ----

void AttentionLowering::transform_scores(math::IrOps& ops, const Block& block, const Row& row, const Keys& groups,
                                         const Keys& keys) {
  const Affine position = position_of(row.in_task);
  const Affine head = query_head(row.in_task - position * per_position());
  auto mask_at = [&](const Affine& g) {
    return Access{mask_, {head, first_position_ + position, block.group * kKeyGroup + g}};
  };
  const RegRef t = vector("t"), x = vector("mask");
  const RegRef live = Builder::at(b_.reg("live", {.lanes = t_.lanes, .mask = true}));
  b_.serial("tg", groups.first, groups.end, t_.lanes, [&](const Affine& g) {
    b_.load(t, {scores_, {row.in_tile, g}});
    if (p_.softcap > 0) {
      b_.binary(BinaryOp::kDiv, t, t, ops.constant(p_.softcap).ref());
      ops.apply(Activation::kTanh, t);
      b_.binary(BinaryOp::kMul, t, t, ops.constant(p_.softcap).ref());
    }
    if (p_.mask == MaskKind::kAdditive) {
      b_.lane_mask(live, keys.end - g);
      b_.load(x, mask_at(g), live);
      b_.binary(BinaryOp::kAdd, t, t, x);
    }
    b_.store({scores_, {row.in_tile, g}}, t);
  });
  if (p_.mask == MaskKind::kBoolean) hide_by_bytes(row, groups, keys, mask_at);
}

// Bytes are loaded by whole vectors as far as these lie inside the row; the rest one by one, as no more of them may be
// touched.
void AttentionLowering::hide_by_bytes(const Row& row, const Keys& groups, const Keys& keys,
                                      const std::function<Access(const Affine&)>& mask_at) {
  auto step = [&](const Affine& g, int lanes) {
    const RegRef bytes = Builder::at(b_.reg("bytes", {.dtype = DType::kS32, .lanes = lanes}));
    const RegRef seen = Builder::at(b_.reg("seen", {.lanes = lanes})), t = Builder::at(b_.reg("t", {.lanes = lanes}));
    const RegRef zero = Builder::at(b_.reg("zero", {.lanes = lanes})),
                 low = Builder::at(b_.reg("low", {.lanes = lanes}));
    const RegRef hidden = Builder::at(b_.reg("hidden", {.lanes = lanes, .mask = true}));
    b_.load(bytes, mask_at(g));
    b_.unary(ir::UnaryOp::kToFloat, seen, bytes);
    b_.constant(zero, 0.0F);
    b_.constant(low, kHidden);
    b_.compare(CompareOp::kEq, hidden, seen, zero);
    b_.load(t, {scores_, {row.in_tile, g}});
    b_.select(t, hidden, low, t);
    b_.store({scores_, {row.in_tile, g}}, t);
  };
  const Affine whole = b_.let_floor_div("bw", keys.end - groups.first, t_.lanes);
  b_.serial("bg", 0, whole, 1, [&](const Affine& w) { step(groups.first + w * t_.lanes, t_.lanes); });
  b_.serial("bg", groups.first + whole * t_.lanes, keys.end, 1, [&](const Affine& g) { step(g, 1); });
}

void AttentionLowering::hide_edges(math::IrOps& ops, const Row& row, const Keys& groups, const Keys& keys) {
  const RegRef t = vector("t");
  const RegRef live = Builder::at(b_.reg("live", {.lanes = t_.lanes, .mask = true}));
  const RegRef low = ops.constant(kHidden).ref();
  for (int64_t u = 0; u < kKeyGroup; u += t_.lanes) {
    const Affine g = groups.end - kKeyGroup + u;
    b_.load(t, {scores_, {row.in_tile, g}});
    b_.lane_mask(live, keys.end - g);
    b_.select(t, live, t, low);
    b_.store({scores_, {row.in_tile, g}}, t);
  }
  if (p_.window == 0) return;
  for (int64_t u = 0; u < kKeyGroup; u += t_.lanes) {
    const Affine g = groups.first + u;
    b_.load(t, {scores_, {row.in_tile, g}});
    b_.lane_mask(live, keys.first - g);
    b_.select(t, live, low, t);
    b_.store({scores_, {row.in_tile, g}}, t);
  }
}

// ---- maximum and weights ----

// Into every lane of maximum_[0].
void AttentionLowering::maximum(math::IrOps& ops, const Row& row, const Keys& groups) {
  const RegRef t = vector("t");
  auto chain = [&](int64_t c) { return Builder::at(maximum_, {c}); };
  for (int64_t c = 0; c < kMaximumChains; ++c) b_.unary(ir::UnaryOp::kMove, chain(c), ops.constant(kHidden).ref());
  const Affine whole = b_.let_floor_div("mw", groups.end - groups.first, kMaximumStep);
  auto steps = [&](const Affine& g, int64_t keys) {
    for (int64_t u = 0; u < keys; u += t_.lanes) {
      b_.load(t, {scores_, {row.in_tile, g + u}});
      const RegRef m = chain(u / t_.lanes % kMaximumChains);
      b_.binary(BinaryOp::kMax, m, m, t);
    }
  };
  b_.serial("mg", 0, whole, 1, [&](const Affine& w) { steps(groups.first + w * kMaximumStep, kMaximumStep); });
  b_.serial("mg", groups.first + whole * kMaximumStep, groups.end, kKeyGroup,
            [&](const Affine& g) { steps(g, kKeyGroup); });
  b_.binary(BinaryOp::kMax, chain(0), chain(0), chain(1));
  b_.binary(BinaryOp::kMax, chain(2), chain(2), chain(3));
  b_.binary(BinaryOp::kMax, chain(0), chain(0), chain(2));
  math::LaneReducer(b_, t_.lanes).reduce(BinaryOp::kMax, chain(0));
}

void AttentionLowering::weights(math::IrOps& ops, const Row& row, const Keys& groups) {
  const RegRef m = Builder::at(maximum_, {0}), old = vector("old"), t = vector("t");
  const RegId l = b_.reg("lv", {.lanes = t_.lanes}, {kKeyGroup / t_.lanes});
  b_.load(old, {m_, {row.in_task, 0}});
  b_.binary(BinaryOp::kMax, m, m, old);
  b_.store({m_, {row.in_task, 0}}, m);
  b_.binary(BinaryOp::kMax, m, ops.constant(kLowest).ref(), m);
  b_.binary(BinaryOp::kSub, old, old, m);
  ops.apply(Activation::kExpNonPositive, old);
  b_.store({alpha_, {row.in_tile, 0}}, old);
  auto sum = [&](int64_t u) { return Builder::at(l, {u}); };
  for (int64_t u = 0; u < kKeyGroup / t_.lanes; ++u) {
    b_.load(sum(u), {l_, {row.in_task, u * t_.lanes}});
    b_.binary(BinaryOp::kMul, sum(u), sum(u), old);
  }
  b_.serial("eg", groups.first, groups.end, kKeyGroup, [&](const Affine& g) {
    for (int64_t u = 0; u < kKeyGroup / t_.lanes; ++u) {
      const Access at{scores_, {row.in_tile, g + u * t_.lanes}};
      b_.load(t, at);
      b_.binary(BinaryOp::kSub, t, t, m);
      ops.apply(Activation::kExpNonPositive, t);
      b_.store(at, t);
      b_.binary(BinaryOp::kAdd, sum(u), sum(u), t);
    }
  });
  for (int64_t u = 0; u < kKeyGroup / t_.lanes; ++u) b_.store({l_, {row.in_task, u * t_.lanes}}, sum(u));
}

}  // namespace hone::attention
