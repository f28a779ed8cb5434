// The best k of E experts for each row -> experts.
//
//   one-hot   combine[r, e] = sum over i of weights[r, i] * (indices[r, i] == e)
//             y[r] = sum over e of combine[r, e] * expert e of x[r]
//   gather    y[r] = sum over i of weights[r, i] * (expert indices[r, i] of x[r], its weights gathered for the row)
//
// where an expert is down(swiglu(gate(x), up(x))). As in attention, dimensions get roles that are followed from the
// result down to the operands; sizes of 1 have none. Indices must come from top_k over E columns: an index that is out
// of range would give nothing in the one-hot form and is an error of the op.
#include <algorithm>

#include "engine/passes/canonicalize_internal.h"
#include "engine/passes/match_internal.h"

namespace hone::passes {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::OpKind;
using graph::Shape;
using graph::ValueId;

// kPick: one of the k. kWidth: of x and y; kInner: summed in gate and up. kHidden: ff.
enum Role : int { kUnit = -1, kRow, kPick, kExpert, kWidth, kInner, kHidden };
using Roles = std::vector<int>;

struct Roled {
  ValueId value;
  Roles roles;
};

class Experts {
 public:
  Experts(Rewriter& r, NodeId root) : r_(r), g_(r.g), root_(root) {}

  bool run() {
    const Node& n = g_.node(root_);
    if (n.op != OpKind::dot_general) return false;
    const Shape& result = dims(n.results[0]);
    // The last dimension is the width, the one before it that is not 1 the row.
    Roles roles(result.size(), kUnit);
    int role = kWidth;
    for (size_t i = result.size(); i-- > 0;) {
      if (result[i] == Dim(1)) continue;
      if (role < kRow) return false;
      roles[i] = role;
      role = role == kWidth ? kRow : -2;
    }
    for (const size_t side : {0u, 1u})
      if ((one_hot(n, roles, side) || gathered(n, roles, side)) && fits_together(result)) {
        build(n);
        return true;
      }
    if (looks_like_experts_)
      r_.note(n.name, "not experts", "what is summed is no down(swiglu(gate(x), up(x))) of them");
    return false;
  }

 private:
  const Shape& dims(ValueId v) const { return g_.value(v).type.dims; }

  // ---- roles ----

  // Both sides of a product whose result has these roles; `summed` is that of what is contracted.
  std::optional<std::pair<Roled, Roled>> sides(const Node& n, const Roles& result, int summed) const {
    Roled side[2] = {{n.operands[0], {}}, {n.operands[1], {}}};
    const char* const kBatch[] = {"lhs_batch", "rhs_batch"};
    const char* const kContract[] = {"lhs_contract", "rhs_contract"};
    size_t next = n.integers("lhs_batch").size();
    for (const size_t s : {0u, 1u}) {
      const auto batch = n.integers(kBatch[s]), contract = n.integers(kContract[s]);
      side[s].roles.assign(dims(side[s].value).size(), -2);
      for (size_t i = 0; i < batch.size(); ++i) side[s].roles[static_cast<size_t>(batch[i])] = result[i];
      int large = 0;
      for (const int64_t a : contract) {
        const bool unit = dims(side[s].value)[static_cast<size_t>(a)] == Dim(1);
        side[s].roles[static_cast<size_t>(a)] = unit ? kUnit : summed;
        large += unit ? 0 : 1;
      }
      if (large > 1) return std::nullopt;
      for (int& role : side[s].roles)
        if (role == -2) role = result[next++];
    }
    return std::pair{through_transposes(side[0]), through_transposes(side[1])};
  }
  Roled through_transposes(Roled v) const {
    while (const Node* n = defined_by(g_, v.value, OpKind::transpose)) {
      Roles roles(v.roles.size());
      const auto perm = n->integers("perm");
      for (size_t i = 0; i < perm.size(); ++i) roles[static_cast<size_t>(perm[i])] = v.roles[i];
      v = {n->operands[0], std::move(roles)};
    }
    return v;
  }
  static bool has_only(const Roles& roles, std::initializer_list<int> allowed) {
    return std::all_of(roles.begin(), roles.end(), [&](int role) {
      return role == kUnit || std::find(allowed.begin(), allowed.end(), role) != allowed.end();
    });
  }

  // ---- forms ----

  bool one_hot(const Node& root, const Roles& roles, size_t side) {
    indices_ = -1;
    const auto both = sides(root, roles, kExpert);
    if (!both) return false;
    const Roled &combine = side == 0 ? both->first : both->second, &y = side == 0 ? both->second : both->first;
    if (!has_only(combine.roles, {kRow, kExpert}) || !has_only(y.roles, {kRow, kExpert, kWidth})) return false;
    const Node* sum = defined_by(g_, combine.value, OpKind::dot_general);
    if (sum == nullptr) return false;
    const auto parts = sides(*sum, combine.roles, kPick);
    if (!parts) return false;
    for (const bool swapped : {false, true}) {
      const Roled &w = swapped ? parts->second : parts->first, &hot = swapped ? parts->first : parts->second;
      if (!has_only(w.roles, {kRow, kPick}) || !reads_one_hot(hot)) continue;
      weights_ = w;
      looks_like_experts_ = true;
      return is_expert(y, kExpert);
    }
    return false;
  }

  // convert(indices == iota over experts)
  bool reads_one_hot(const Roled& hot) {
    const Node* convert = defined_by(g_, hot.value, OpKind::convert);
    const Node* equal = convert == nullptr ? nullptr : defined_by(g_, convert->operands[0], OpKind::compare);
    if (equal == nullptr || equal->text("direction") != "EQ") return false;
    for (const size_t side : {0u, 1u}) {
      const View index = peel(g_, whole(g_, equal->operands[side])),
                 step = peel(g_, whole(g_, equal->operands[1 - side]));
      const Node* iota = defined_by(g_, step.value, OpKind::iota);
      if (iota == nullptr) continue;
      const int axis = step.axes[static_cast<size_t>(iota->integer("axis"))];
      if (axis < 0 || hot.roles[static_cast<size_t>(axis)] != kExpert) continue;
      Roled indices{index.value, {}};
      for (const int a : index.axes) indices.roles.push_back(a < 0 ? kUnit : hot.roles[static_cast<size_t>(a)]);
      return take_indices(indices);
    }
    return false;
  }

  bool gathered(const Node& root, const Roles& roles, size_t side) {
    indices_ = -1;
    const auto both = sides(root, roles, kPick);
    if (!both) return false;
    const Roled &w = side == 0 ? both->first : both->second, &y = side == 0 ? both->second : both->first;
    if (!has_only(w.roles, {kRow, kPick}) || !has_only(y.roles, {kRow, kPick, kWidth})) return false;
    weights_ = w;
    return is_expert(y, kPick);
  }

  // down(swiglu(gate(x), up(x))) of each `by`: an expert, or one of the k.
  bool is_expert(const Roled& y, int by) {
    const Node* down = defined_by(g_, y.value, OpKind::dot_general);
    const auto parts = down == nullptr ? std::nullopt : sides(*down, y.roles, kHidden);
    if (!parts) return false;
    for (const bool swapped : {false, true}) {
      const Roled &h = swapped ? parts->second : parts->first, &w = swapped ? parts->first : parts->second;
      if (!has_only(h.roles, {kRow, by, kHidden})) continue;
      const auto w_down = matrices(w, by);
      looks_like_experts_ |= w_down && by == kPick;
      const Node* swiglu = defined_by(g_, h.value, OpKind::swiglu);
      if (swiglu == nullptr) continue;
      const auto x_gate = projected({swiglu->operands[0], h.roles}, by, &gate_);
      const auto x_up = projected({swiglu->operands[1], h.roles}, by, &up_);
      if (!w_down || !x_gate || !x_up || x_gate->value != x_up->value) continue;
      down_ = *w_down;
      x_ = *x_gate;
      return true;
    }
    return false;
  }

  // x and the weights of gate or up.
  std::optional<Roled> projected(Roled v, int by, Roled* weights) {
    v = through_transposes(std::move(v));
    const Node* n = defined_by(g_, v.value, OpKind::dot_general);
    const auto parts = n == nullptr ? std::nullopt : sides(*n, v.roles, kInner);
    if (!parts) return std::nullopt;
    for (const bool swapped : {false, true}) {
      const Roled &x = swapped ? parts->second : parts->first, &w = swapped ? parts->first : parts->second;
      if (!has_only(x.roles, {kRow, kInner})) continue;
      if (auto all = matrices(w, by)) {
        *weights = *all;
        return x;
      }
    }
    return std::nullopt;
  }

  // The matrices of all experts: as they are, or before a row's were gathered.
  std::optional<Roled> matrices(const Roled& w, int by) {
    if (by == kExpert) {
      if (!has_only(w.roles, {kExpert, kWidth, kInner, kHidden}) || dims(w.value).size() != 3) return std::nullopt;
      return w;
    }
    const Node* n = defined_by(g_, w.value, OpKind::gather);
    if (n == nullptr || dims(n->operands[0]).size() != 3) return std::nullopt;
    const size_t leading = dims(n->operands[1]).size();
    const Roles index(w.roles.begin(), w.roles.begin() + static_cast<ptrdiff_t>(leading));
    if (!take_indices({n->operands[1], index})) return std::nullopt;
    Roled all{n->operands[0], {kExpert}};
    all.roles.insert(all.roles.end(), w.roles.begin() + static_cast<ptrdiff_t>(leading), w.roles.end());
    return has_only(all.roles, {kExpert, kWidth, kInner, kHidden}) ? std::optional(all) : std::nullopt;
  }

  // The same indices of top_k in every place, [rows, k].
  bool take_indices(const Roled& at) {
    ValueId v = at.value;
    while (const Node* n = defined_by(g_, v, OpKind::reshape)) v = n->operands[0];
    const Node* top = defined_by(g_, v, OpKind::top_k);
    if (top == nullptr || g_.value(v).index != 1) return false;
    Roles seen;
    for (const int role : at.roles)
      if (role != kUnit) seen.push_back(role);
    if (seen != Roles{kRow, kPick} && seen != Roles{kRow} && seen != Roles{kPick} && !seen.empty()) return false;
    if (indices_ >= 0 && indices_ != v) return false;
    indices_ = v;
    return true;
  }

  // ---- the op ----

  // [first, second, ..] of these roles, one of which may be several dimensions or none.
  ValueId in_order(const Roled& v, std::initializer_list<int> order) {
    std::vector<int64_t> perm;
    Shape shape;
    for (const int role : order) {
      Dim size(1);
      for (size_t i = 0; i < v.roles.size(); ++i)
        if (v.roles[i] == role) {
          perm.push_back(static_cast<int64_t>(i));
          size = size * dims(v.value)[i];
        }
      shape.push_back(size);
    }
    for (size_t i = 0; i < v.roles.size(); ++i)
      if (v.roles[i] == kUnit) perm.push_back(static_cast<int64_t>(i));
    return r_.reshape(r_.transpose(v.value, std::move(perm)), std::move(shape));
  }

  Dim size(const Roled& v, int role) const {
    Dim size(1);
    for (size_t i = 0; i < v.roles.size(); ++i)
      if (v.roles[i] == role) size = size * dims(v.value)[i];
    return size;
  }

  // That every operand has the rows, experts and widths that the others have.
  bool fits_together(const Shape& result) const {
    Dim elements(1);
    for (const Dim& d : result) elements = elements * d;
    const Dim rows = size(x_, kRow), width = size(x_, kInner), experts = size(gate_, kExpert);
    const Dim hidden = size(gate_, kHidden), picks = size(weights_, kPick);
    const Node& top = *g_.definition(indices_);
    const auto equal = [](const Dim& a, std::initializer_list<Dim> others) {
      return std::all_of(others.begin(), others.end(), [&](const Dim& b) { return surely_equal(a, b); });
    };
    return equal(rows, {size(weights_, kRow)}) && equal(rows * width, {elements}) &&
           equal(picks, {dims(indices_).back()}) &&
           equal(experts, {size(up_, kExpert), size(down_, kExpert), dims(top.operands[0]).back()}) &&
           equal(hidden, {size(up_, kHidden), size(down_, kHidden)}) &&
           equal(width, {size(gate_, kInner), size(up_, kInner), size(down_, kWidth)});
  }

  void build(const Node& root) {
    r_.before(root_);
    const std::string name = root.name;
    const Shape result = dims(root.results[0]);
    const ValueId x = in_order(x_, {kRow, kInner}), weights = in_order(weights_, {kRow, kPick});
    const ValueId y = r_.add(
        OpKind::experts, {x, r_.reshape(indices_, dims(weights)), weights, in_order(gate_, {kExpert, kHidden, kInner}),
                          in_order(up_, {kExpert, kHidden, kInner}), in_order(down_, {kExpert, kWidth, kHidden})});
    r_.note(name, "experts", "a weighted sum over the best experts of each row");
    r_.replace(root_, r_.reshape(y, result), y);
  }

  Rewriter& r_;
  Graph& g_;
  NodeId root_;
  ValueId indices_ = -1;
  bool looks_like_experts_ = false;
  Roled x_, weights_, gate_, up_, down_;
};

}  // namespace

int recognise_experts(Rewriter& r) {
  int count = 0;
  const std::vector<NodeId> order = r.g.order();
  for (const NodeId id : order)
    if (r.g.is_live(id)) count += Experts(r, id).run();
  r.g.erase_dead();
  return count;
}

}  // namespace hone::passes
