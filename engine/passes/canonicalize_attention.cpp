// softmax(scale Q K^T + mask) V -> attention, whatever the order of dimensions, with its heads grouped or K and V
// repeated.
//
// Each dimension of the scores is followed to the dimensions of Q and K that it comes from, and each dimension of the
// result to those of the scores and of V. That gives every one a role; Q, K and V are then brought to [b, s, heads, d]
// by a transpose and a reshape, which meet their inverse in what the framework wrote and vanish.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/passes/attention_mask_internal.h"
#include "engine/passes/canonicalize_internal.h"
#include "engine/passes/match_internal.h"
#include "engine/passes/repeated_heads_internal.h"

namespace hone::passes {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::OpKind;
using graph::Shape;
using graph::TensorType;
using graph::ValueId;

// kGroup: heads of K and V. kRepeat: heads of Q for each of them.
enum Role : int { kBatch, kRows, kGroup, kRepeat, kDepth, kRoles };
constexpr int kNone = -1;
constexpr int kMaxChain = 24;

// Axes of both sides that a dimension of a dot_general's result comes from.
struct From {
  int lhs = kNone, rhs = kNone;
};
std::vector<From> result_axes(const Graph& g, const Node& dot) {
  std::vector<From> all;
  std::vector<bool> used[2];
  for (const size_t side : {0u, 1u}) used[side].resize(g.value(dot.operands[side]).type.dims.size());
  const auto lb = dot.integers("lhs_batch"), rb = dot.integers("rhs_batch");
  for (size_t i = 0; i < lb.size(); ++i) {
    all.push_back({static_cast<int>(lb[i]), static_cast<int>(rb[i])});
    used[0][static_cast<size_t>(lb[i])] = used[1][static_cast<size_t>(rb[i])] = true;
  }
  for (const int64_t a : dot.integers("lhs_contract")) used[0][static_cast<size_t>(a)] = true;
  for (const int64_t a : dot.integers("rhs_contract")) used[1][static_cast<size_t>(a)] = true;
  for (size_t i = 0; i < used[0].size(); ++i)
    if (!used[0][i]) all.push_back({static_cast<int>(i), kNone});
  for (size_t i = 0; i < used[1].size(); ++i)
    if (!used[1][i]) all.push_back({kNone, static_cast<int>(i)});
  return all;
}

class Attention {
 public:
  Attention(Rewriter& r, const Node& output) : r_(r), g_(r.g), output_(output) {}

  // The reason why it is none, "" where it does not look like one, or it was rewritten.
  std::string run(bool* rewritten) {
    if (!find_softmax()) return "";
    std::string why = walk_scores();
    if (scores_ == nullptr) return "";
    if (why.empty()) why = assign_roles();
    if (why.empty()) why = check_masks();
    if (!why.empty()) return why;
    build();
    *rewritten = true;
    return "";
  }

 private:
  const Shape& dims(ValueId v) const { return g_.value(v).type.dims; }
  bool is_unit(ValueId v, int axis) const { return dims(v)[static_cast<size_t>(axis)] == Dim(1); }

  // ---- what it is made of ----

  bool find_softmax() {
    for (const size_t side : {0u, 1u}) {
      const View view = peel(g_, whole(g_, output_.operands[side]));
      const Node* n = defined_by(g_, view.value, OpKind::softmax);
      if (n == nullptr) continue;
      softmax_ = n;
      weights_ = view;
      weights_side_ = side;
      values_ = output_.operands[1 - side];
      return true;
    }
    return false;
  }

  // From the softmax down to the product: masks, softcap, scale.
  std::string walk_scores() {
    View view = whole(g_, softmax_->operands[0]);
    scale_ = softmax_->number("scale", 1);
    bool scaled = scale_ != 1;
    for (int step = 0; step < kMaxChain; ++step) {
      view = peel(g_, view);
      const Node* n = g_.definition(view.value);
      if (n == nullptr) return "";
      if (n->op == OpKind::dot_general) {
        scores_ = n;
        score_view_ = view;
        if (softcap_ != 0) scale_ *= softcap_;
        return "";
      }
      const std::string why = peel_step(*n, view, scaled);
      if (!why.empty()) {
        // Only what has a product below looks like attention.
        if (const Node* below = product_below(view.value, kMaxChain)) scores_ = below;
        return why;
      }
    }
    return "";
  }

  std::string peel_step(const Node& n, View& view, bool& scaled) {
    if (n.op == OpKind::mul || n.op == OpKind::div) {
      for (const int side : {0, 1}) {
        const auto u = uniform(g_, n.operands[static_cast<size_t>(1 - side)]);
        if (!u || *u == 0 || (n.op == OpKind::div && side == 1)) continue;
        scale_ *= n.op == OpKind::mul ? *u : 1 / *u;
        scaled = true;
        view = operand_of(g_, view, side);
        return "";
      }
      return "its scores are multiplied by what is no number";
    }
    if (n.op == OpKind::tanh) {
      if (softcap_ != 0 || scale_ <= 0) return "its scores go through tanh more than once";
      softcap_ = scale_;
      scale_ = 1;
      scaled = true;
      view = operand_of(g_, view, 0);
      return "";
    }
    if (n.op != OpKind::add && n.op != OpKind::select)
      return fmt::format("{} stands between the product and softmax", op_info(n.op).name);
    if (scaled) return "its mask is scaled or capped along with the scores";
    return n.op == OpKind::add ? peel_added(n, view) : peel_selected(n, view);
  }

  std::string peel_added(const Node& n, View& view) {
    for (const int side : {0, 1}) {
      if (product_below(n.operands[static_cast<size_t>(side)], kMaxChain) == nullptr) continue;
      masks_.push_back(added_mask(g_, operand_of(g_, view, 1 - side)));
      view = operand_of(g_, view, side);
      return "";
    }
    return "";
  }

  std::string peel_selected(const Node& n, View& view) {
    for (const int side : {1, 2}) {
      const auto other = uniform(g_, n.operands[static_cast<size_t>(3 - side)]);
      if (!hides(other)) continue;
      masks_.push_back({operand_of(g_, view, 0), true, side == 2, *other});
      view = operand_of(g_, view, side);
      return "";
    }
    return "its mask puts what is not far below every score";
  }

  // A product of two values on the way down through ops on scores.
  const Node* product_below(ValueId v, int depth) const {
    const Node* n = g_.definition(v);
    if (n == nullptr || depth == 0) return nullptr;
    switch (n->op) {
      case OpKind::dot_general:
        return n;
      case OpKind::add:
      case OpKind::mul:
      case OpKind::div:
      case OpKind::select:
      case OpKind::tanh:
      case OpKind::transpose:
      case OpKind::reshape:
        for (const ValueId x : n->operands)
          if (const Node* found = product_below(x, depth - 1)) return found;
        return nullptr;
      default:
        return nullptr;
    }
  }

  // ---- roles ----

  std::string assign_roles() {
    const auto contract = output_.integers(weights_side_ == 0 ? "lhs_contract" : "rhs_contract");
    if (contract.size() != 1) return "its values are summed over several dimensions";
    const int key_axis = g_.value(softmax_->results[0]).type.rank() - 1;
    if (axis_of_weights(static_cast<int>(contract[0])) != key_axis)
      return "softmax is not over the dimension that is summed with the values";
    if (scores_->integers("lhs_contract").size() != 1) return "its product sums over several dimensions";
    const std::vector<From> from = result_axes(g_, *scores_);
    const int key = dim_of_scores(key_axis);
    if (key == kNone) return "its keys cannot be told";
    const From keys = from[static_cast<size_t>(key)];
    if ((keys.lhs == kNone) == (keys.rhs == kNone)) return "softmax is over a batch of its product";
    key_side_ = keys.rhs != kNone ? 1 : 0;
    q_ = scores_->operands[1 - key_side_], k_ = scores_->operands[key_side_];
    shape_.row_axis = kNone, shape_.key_axis = key_axis;
    shape_.keys = dims(scores_->results[0])[static_cast<size_t>(key)];
    return name_axes(from, key);
  }

  // The axis of the softmax that a dimension of the weights (as the last product reads them) is.
  int axis_of_weights(int dim) const {
    for (size_t i = 0; i < weights_.axes.size(); ++i)
      if (weights_.axes[i] == dim) return static_cast<int>(i);
    return kNone;
  }
  // The dimension of the scores that an axis of the softmax runs along.
  int dim_of_scores(int axis) const {
    for (size_t i = 0; i < score_view_.axes.size(); ++i)
      if (score_view_.axes[i] == axis) return static_cast<int>(i);
    return kNone;
  }
  int axis_of_scores(int dim) const { return score_view_.axes[static_cast<size_t>(dim)]; }

  std::string name_axes(const std::vector<From>& from, int key) {
    std::vector<int> batch, free;
    for (size_t i = 0; i < from.size(); ++i) {
      if (static_cast<int>(i) == key) continue;
      const int q = key_side_ == 1 ? from[i].lhs : from[i].rhs, k = key_side_ == 1 ? from[i].rhs : from[i].lhs;
      if (q != kNone && k != kNone) {
        batch.push_back(static_cast<int>(i));
      } else if (q != kNone) {
        free.push_back(static_cast<int>(i));
      } else if (!is_unit(scores_->results[0], static_cast<int>(i))) {
        return "its keys have more than one dimension of their own";
      }
    }
    const auto q_axis = [&](int dim) {
      const From& f = from[static_cast<size_t>(dim)];
      return key_side_ == 1 ? f.lhs : f.rhs;
    };
    if (batch.size() > 2) return "its product has more than two batch dimensions";
    if (free.size() > 2) return "its queries have more than two dimensions of their own";
    score_roles_.assign(from.size(), kNone);
    score_roles_[static_cast<size_t>(key)] = kDepth;  // of V: what is summed; never asked for
    std::sort(batch.begin(), batch.end(), [&](int a, int b) { return q_axis(a) < q_axis(b); });
    if (batch.size() == 2) score_roles_[static_cast<size_t>(batch[0])] = kBatch;
    if (!batch.empty()) score_roles_[static_cast<size_t>(batch.back())] = kGroup;
    // Heads of one group lie after it: [.., group, repeat, ..].
    std::sort(free.begin(), free.end(), [&](int a, int b) { return q_axis(a) < q_axis(b); });
    if (free.size() == 2) {
      const int group = batch.empty() ? kNone : q_axis(batch.back());
      // Masks differ between rows, not between heads; without one, rows may as well be taken for heads.
      bool first = q_axis(free[0]) == group + 1 && group != kNone;
      if (masked(free[0]) != masked(free[1])) first = masked(free[1]);
      score_roles_[static_cast<size_t>(free[0])] = first ? kRepeat : kRows;
      score_roles_[static_cast<size_t>(free[1])] = first ? kRows : kRepeat;
    } else if (free.size() == 1) {
      score_roles_[static_cast<size_t>(free[0])] = kRows;
    }
    collect_sizes(from);
    return name_values();
  }

  bool masked(int dim) const {
    return std::any_of(masks_.begin(), masks_.end(), [&](const Mask& m) {
      const View view = peel(g_, m.view);
      for (size_t i = 0; i < view.axes.size(); ++i)
        if (view.axes[i] == axis_of_scores(dim) && dims(view.value)[i] != Dim(1)) return true;
      return false;
    });
  }

  void collect_sizes(const std::vector<From>& from) {
    q_roles_.assign(dims(q_).size(), kDepth);
    k_roles_.assign(dims(k_).size(), kDepth);
    for (size_t i = 0; i < from.size(); ++i) {
      const int q = key_side_ == 1 ? from[i].lhs : from[i].rhs, k = key_side_ == 1 ? from[i].rhs : from[i].lhs;
      const int role = score_roles_[i];
      if (q != kNone) q_roles_[static_cast<size_t>(q)] = role;
      if (k != kNone) k_roles_[static_cast<size_t>(k)] = q != kNone ? role : kRows;
      if (q != kNone && role != kNone) size_[role] = dims(q_)[static_cast<size_t>(q)];
      if (role == kRows && q != kNone) shape_.row_axis = axis_of_scores(static_cast<int>(i));
    }
    shape_.rows = size_[kRows];
  }

  // Dimensions of V and of the result.
  std::string name_values() {
    const std::vector<From> from = result_axes(g_, output_);
    v_roles_.assign(dims(values_).size(), kRows);
    result_roles_.assign(from.size(), kNone);
    int depth = 0;
    for (size_t i = 0; i < from.size(); ++i) {
      const int w = weights_side_ == 0 ? from[i].lhs : from[i].rhs, v = weights_side_ == 0 ? from[i].rhs : from[i].lhs;
      int role = kDepth;
      if (w != kNone) {
        const int axis = axis_of_weights(w);
        const int dim = axis == kNone ? kNone : dim_of_scores(axis);
        role = dim == kNone ? kNone : score_roles_[static_cast<size_t>(dim)];
        if (role == kNone && !is_unit(output_.results[0], static_cast<int>(i))) return "its dimensions cannot be told";
      }
      const bool batch = w != kNone && v != kNone;
      if (batch && role != kNone && role != kBatch && role != kGroup) return "its values are batched by its rows";
      if (w != kNone && v == kNone && (role == kBatch || role == kGroup) && size_[role] != Dim(1))
        return "its values lack a dimension that its keys have";
      if (v != kNone) v_roles_[static_cast<size_t>(v)] = role;
      if (w == kNone) {
        depth += is_unit(output_.results[0], static_cast<int>(i)) ? 0 : 1;
        value_depth_ = depth == 0 ? Dim(1) : value_depth_;
        if (!is_unit(output_.results[0], static_cast<int>(i))) value_depth_ = dims(output_.results[0])[i];
      }
      result_roles_[i] = role;
    }
    if (depth > 1) return "its values have more than one dimension of their own";
    return "";
  }

  // ---- masks ----

  std::string check_masks() {
    for (const Mask& m : masks_) {
      const View view = peel(g_, m.view);
      for (size_t i = 0; i < view.axes.size(); ++i) {
        if (dims(view.value)[i] == Dim(1) || view.axes[i] == kNone) continue;
        const int dim = dim_of_scores(view.axes[i]);
        const int role = dim == kNone ? kNone : score_roles_[static_cast<size_t>(dim)];
        if (role == kGroup || role == kRepeat) return "its mask differs between heads";
      }
    }
    std::vector<Mask> left;
    for (const Mask& m : masks_)
      if (!absorb(m)) left.push_back(m);
    masks_ = std::move(left);
    // A window without causal reaches both ways, which one condition does not say.
    if (window_ != 0 && !causal_) return "it has a window and is not causal";
    return "";
  }

  bool absorb(const Mask& m) {
    if (is_causal_constant(g_, m, shape_)) {
      causal_ = true;
      return true;
    }
    if (!m.condition) return false;
    const auto planes = half_planes(g_, m.view, m.inverted);
    if (!planes) return false;
    bool causal = false;
    int64_t window = 0;
    for (const HalfPlane& p : *planes) {
      if (is_causal(p, shape_)) {
        causal = true;
      } else if (const auto w = window_of(p, shape_); w && window == 0) {
        window = *w;
      } else {
        return false;
      }
    }
    if (window != 0 && (!causal && !causal_)) return false;
    causal_ |= causal;
    if (window != 0) window_ = window_ == 0 ? window : std::min(window_, window);
    return true;
  }

  // [s, t], or [b, s, t] where it differs.
  ValueId as_operand(const View& at) {
    const View view = peel(g_, at);
    const int batch_axis = axis_with(kBatch);
    std::vector<int64_t> perm;
    Shape kept;
    bool batched = false;
    for (const int wanted : {batch_axis, shape_.row_axis, shape_.key_axis})
      for (size_t i = 0; i < view.axes.size(); ++i)
        if (view.axes[i] == wanted && wanted != kNone && dims(view.value)[i] != Dim(1)) {
          perm.push_back(static_cast<int64_t>(i));
          kept.push_back(dims(view.value)[i]);
          batched |= wanted == batch_axis;
        }
    std::vector<int64_t> to;
    for (const int64_t i : perm) {
      const int axis = view.axes[static_cast<size_t>(i)];
      to.push_back((axis == batch_axis ? 0 : axis == shape_.row_axis ? 1 : 2) - (batched ? 0 : 1));
    }
    for (size_t i = 0; i < view.axes.size(); ++i)
      if (std::find(perm.begin(), perm.end(), static_cast<int64_t>(i)) == perm.end())
        perm.push_back(static_cast<int64_t>(i));
    Shape full = {shape_.rows, shape_.keys};
    if (batched) full.insert(full.begin(), size_[kBatch]);
    const ValueId dense = r_.reshape(r_.transpose(view.value, perm), kept);
    if (kept == full) return dense;
    return r_.add_typed(OpKind::broadcast, {dense}, {{"dims", to}}, {g_.value(dense).type.dtype, full});
  }
  int axis_with(int role) const {
    for (size_t i = 0; i < score_roles_.size(); ++i)
      if (score_roles_[i] == role) return axis_of_scores(static_cast<int>(i));
    return kNone;
  }

  ValueId mask_operand() {
    const bool truth =
        std::all_of(masks_.begin(), masks_.end(), [](const Mask& m) { return m.condition && std::isinf(m.hidden); });
    ValueId all = -1;
    for (const Mask& m : masks_) {
      ValueId v = as_operand(m.view);
      if (m.inverted) v = r_.add(OpKind::logical_not, {v});
      if (!truth && m.condition) {
        const TensorType type{DType::kF32, dims(v)};
        v = r_.add(OpKind::select, {v, filled(0, type), filled(m.hidden, type)});
      }
      if (all >= 0 && g_.value(all).type.rank() != g_.value(v).type.rank()) {
        ValueId& lower = g_.value(all).type.rank() < g_.value(v).type.rank() ? all : v;
        const ValueId higher = &lower == &all ? v : all;
        lower = r_.add_typed(OpKind::broadcast, {lower}, {{"dims", std::vector<int64_t>{1, 2}}},
                             {g_.value(lower).type.dtype, dims(higher)});
      }
      all = all < 0 ? v : r_.add(truth ? OpKind::logical_and : OpKind::add, {all, v});
    }
    return all;
  }
  ValueId filled(double number, const TensorType& type) {
    const ValueId scalar = r_.constant(graph::Constant::splat_f32({DType::kF32, {}}, static_cast<float>(number)));
    return r_.add_typed(OpKind::broadcast, {scalar}, {{"dims", std::vector<int64_t>{}}}, type);
  }

  // ---- the op ----

  // A value with its axes in the order of their roles, as [b, rows, heads, depth] without a batch of 1.
  ValueId in_order(ValueId v, const std::vector<int>& roles) {
    std::vector<int64_t> perm;
    for (size_t i = 0; i < roles.size(); ++i) perm.push_back(static_cast<int64_t>(i));
    std::stable_sort(perm.begin(), perm.end(), [&](int64_t a, int64_t b) {
      return roles[static_cast<size_t>(a)] < roles[static_cast<size_t>(b)];
    });
    Dim sizes[kRoles] = {1, 1, 1, 1, 1};
    for (size_t i = 0; i < roles.size(); ++i)
      if (roles[i] != kNone) sizes[roles[i]] = sizes[roles[i]] * dims(v)[i];
    Shape shape = {sizes[kRows], sizes[kGroup] * sizes[kRepeat], sizes[kDepth]};
    if (has_batch()) shape.insert(shape.begin(), sizes[kBatch]);
    return r_.reshape(r_.transpose(v, std::move(perm)), std::move(shape));
  }
  bool has_batch() const { return size_[kBatch] != Dim(1); }

  void build() {
    r_.before(output_.id);
    scale_ *= take_scale(r_, q_) * take_scale(r_, k_);
    const Dim depth = dims(q_)[static_cast<size_t>(
        std::find(q_roles_.begin(), q_roles_.end(), static_cast<int>(kDepth)) - q_roles_.begin())];
    if (size_[kRepeat] == Dim(1)) take_single_heads();
    std::vector<ValueId> operands = {in_order(q_, q_roles_), in_order(k_, k_roles_), in_order(values_, v_roles_)};
    if (!masks_.empty()) operands.push_back(mask_operand());
    graph::Attributes attributes = {{"causal", causal_}};
    if (window_ != 0) attributes["window"] = window_;
    if (softcap_ != 0) attributes["softcap"] = softcap_;
    const bool usual = depth.is_static() && static_cast<float>(scale_) ==
                                                static_cast<float>(1 / std::sqrt(static_cast<double>(depth.value())));
    if (!usual) attributes["scale"] = scale_;
    const ValueId attention = r_.add(OpKind::attention, std::move(operands), std::move(attributes));
    r_.note(output_.name, "attention", description());
    // An export puts the hint of an attention on its last product.
    r_.replace(output_.id, in_order_of_result(attention), attention);
  }

  // Repeated heads go where both K and V have them.
  void take_single_heads() {
    const auto group = [](const std::vector<int>& roles) {
      const auto at = std::find(roles.begin(), roles.end(), static_cast<int>(kGroup));
      return at == roles.end() ? -1 : static_cast<int>(at - roles.begin());
    };
    const int ka = group(k_roles_), va = group(v_roles_);
    if (ka < 0 || va < 0) return;
    const auto repeats_k = repeats_of(g_, k_, ka), repeats_v = repeats_of(g_, values_, va);
    if (!repeats_k || repeats_k != repeats_v) return;
    k_ = without_repeats(r_, k_, ka);
    values_ = without_repeats(r_, values_, va);
    repeats_ = *repeats_k;
  }

  std::string description() const {
    std::string text = "softmax of a product of queries and keys, times values";
    if (causal_) text += ", causal";
    if (window_ != 0) text += fmt::format(", window {}", window_);
    if (softcap_ != 0) text += ", softcap";
    if (!masks_.empty()) text += ", its mask is an operand";
    if (repeats_ > 1) text += fmt::format(", each head of keys and values was repeated {} times", repeats_);
    return text;
  }

  ValueId in_order_of_result(ValueId attention) {
    const Dim sizes[kRoles] = {size_[kBatch], size_[kRows], size_[kGroup], size_[kRepeat], value_depth_};
    // Dimensions of 1 have no place in the order.
    Shape apart;
    std::vector<int> place(kRoles, kNone);
    for (int role = 0; role < kRoles; ++role)
      if (sizes[role] != Dim(1)) {
        place[static_cast<size_t>(role)] = static_cast<int>(apart.size());
        apart.push_back(sizes[role]);
      }
    std::vector<int64_t> perm;
    for (const int role : result_roles_)
      if (role != kNone && place[static_cast<size_t>(role)] != kNone) perm.push_back(place[static_cast<size_t>(role)]);
    return r_.reshape(r_.transpose(r_.reshape(attention, apart), std::move(perm)), dims(output_.results[0]));
  }

  Rewriter& r_;
  Graph& g_;
  const Node& output_;
  const Node* softmax_ = nullptr;
  const Node* scores_ = nullptr;
  View weights_, score_view_;  // as the last product reads the softmax; as the softmax reads the scores
  size_t weights_side_ = 0, key_side_ = 1;
  ValueId q_ = -1, k_ = -1, values_ = -1;
  double scale_ = 1, softcap_ = 0;
  bool causal_ = false;
  int64_t window_ = 0, repeats_ = 1;
  std::vector<Mask> masks_;
  Scores shape_;
  std::vector<int> score_roles_, q_roles_, k_roles_, v_roles_, result_roles_;
  Dim size_[kRoles] = {1, 1, 1, 1, 1};
  Dim value_depth_ = 1;
};

}  // namespace

int recognise_attention(Rewriter& r) {
  int count = 0;
  const std::vector<NodeId> order = r.g.order();
  for (const NodeId id : order) {
    if (!r.g.is_live(id) || r.g.node(id).op != OpKind::dot_general) continue;
    bool rewritten = false;
    const std::string name = r.g.node(id).name;
    const std::string why = Attention(r, r.g.node(id)).run(&rewritten);
    if (!why.empty()) r.note(name, "not attention", why);
    count += rewritten;
  }
  r.g.erase_dead();
  return count;
}

}  // namespace hone::passes
