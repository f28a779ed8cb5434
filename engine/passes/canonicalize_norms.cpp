// rms_norm, layer_norm and softmax. Each is a product in which one factor is a number for each row, and that number is
// followed down to the row that it comes from.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/passes/canonicalize_internal.h"
#include "engine/passes/match_internal.h"

namespace hone::passes {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::OpKind;
using graph::Shape;
using graph::TensorType;
using graph::ValueId;

class Norms {
 public:
  explicit Norms(Rewriter& r) : r_(r), g_(r.g) {}

  // From the last node on, so that weights and biases are taken with what they belong to.
  int run() {
    int count = 0;
    const std::vector<NodeId> order = g_.order();
    for (auto at = order.rbegin(); at != order.rend(); ++at) {
      if (!g_.is_live(*at)) continue;
      const OpKind op = g_.node(*at).op;
      if (op == OpKind::add) count += biased_layer_norm(*at);
      if (op == OpKind::mul || op == OpKind::div) count += normalised(*at, g_.result(*at), -1) || softmax(*at);
    }
    g_.erase_dead();
    return count;
  }

 private:
  const TensorType& type(ValueId v) const { return g_.value(v).type; }

  // What runs along the last axis of `outer` alone, and as long as it; -1: none.
  ValueId columns_of(ValueId v, ValueId outer) const {
    const View view = peel(g_, whole(g_, v));
    const int last = type(outer).rank() - 1;
    // Of one row, a constant may have been broadcast to the very shape.
    if (view.value == v && g_.constant(v) == nullptr) return -1;
    if (!varies_only_along(g_, view, last)) return -1;
    for (const graph::Dim& d : type(view.value).dims)
      if (surely_equal(d, type(outer).dims.back())) return view.value;
    return -1;
  }

  // ---- the number of a row ----

  // What the root is taken of, where v is 1 / sqrt(..), or sqrt(..) and the row is `divided` by it.
  std::optional<View> under_root(ValueId v, bool divided) const {
    View view = peel(g_, whole(g_, v));
    const Node* n = g_.definition(view.value);
    if (n == nullptr) return std::nullopt;
    if (divided) return n->op == OpKind::sqrt ? std::optional(operand_of(g_, view, 0)) : std::nullopt;
    if (n->op == OpKind::rsqrt) return operand_of(g_, view, 0);
    if (n->op == OpKind::pow && is_uniform(g_, n->operands[1], -0.5)) return operand_of(g_, view, 0);
    if (n->op != OpKind::div || !is_uniform(g_, n->operands[0], 1)) return std::nullopt;
    view = peel(g_, operand_of(g_, view, 1));
    n = g_.definition(view.value);
    return n != nullptr && n->op == OpKind::sqrt ? std::optional(operand_of(g_, view, 0)) : std::nullopt;
  }

  struct Variance {
    View view;  // without eps
    std::optional<double> eps;
  };
  Variance without_eps(const View& root) const {
    const View view = peel(g_, root);
    const Node* n = defined_by(g_, view.value, OpKind::add);
    if (n != nullptr)
      for (const int side : {0, 1})
        if (const auto u = uniform(g_, n->operands[static_cast<size_t>(1 - side)]); u && *u > 0)
          return {operand_of(g_, view, side), *u};
    return {view, std::nullopt};
  }

  // x where v is x * x or x^2.
  std::optional<ValueId> square_of(ValueId v) const {
    const Node* n = g_.definition(v);
    if (n == nullptr) return std::nullopt;
    if (n->op == OpKind::mul && n->operands[0] == n->operands[1]) return n->operands[0];
    if (n->op == OpKind::pow && is_uniform(g_, n->operands[1], 2)) return n->operands[0];
    return std::nullopt;
  }

  // x - mean(x) -> x
  std::optional<ValueId> centred(ValueId v) const {
    const Node* n = defined_by(g_, v, OpKind::sub);
    if (n == nullptr) return std::nullopt;
    const auto x = mean_of_rows(g_, whole(g_, n->operands[1]));
    return x && *x == n->operands[0] ? x : std::nullopt;
  }

  // ---- rms_norm and layer_norm ----

  bool biased_layer_norm(NodeId id) {
    const Node n = g_.node(id);
    for (const size_t side : {0u, 1u}) {
      const ValueId bias = columns_of(n.operands[1 - side], n.results[0]);
      const Node* inner = g_.definition(n.operands[side]);
      if (bias < 0 || inner == nullptr || !used_once(g_, n.operands[side])) continue;
      if (inner->op != OpKind::mul && inner->op != OpKind::div) continue;
      if (normalised(id, n.operands[side], bias)) return true;
    }
    return false;
  }

  // `root` is the product that `id` gives, or to which it adds `bias`.
  bool normalised(NodeId id, ValueId root, ValueId bias) {
    const Product p = product(g_, root);
    if (p.factor != 1 || p.values.size() > 3 || p.divisors.size() > 1) return false;
    const std::vector<ValueId>& candidates = p.divisors.empty() ? p.values : p.divisors;
    for (const ValueId scale : candidates) {
      const auto mean = under_root(scale, !p.divisors.empty());
      if (!mean) continue;
      std::vector<ValueId> others = p.values;
      if (p.divisors.empty()) others.erase(std::find(others.begin(), others.end(), scale));
      if (others.empty() || others.size() > 2) continue;
      for (size_t i = 0; i < others.size(); ++i) {
        const ValueId x = others[i];
        ValueId weight = -1;
        if (others.size() == 2) weight = columns_of(others[1 - i], root);
        if (others.size() == 2 && weight < 0) continue;
        if (norm_of(id, *mean, x, weight, bias)) return true;
      }
    }
    return false;
  }

  bool norm_of(NodeId id, const View& under, ValueId x, ValueId weight, ValueId bias) {
    const Variance variance = without_eps(under);
    const auto squares = mean_of_rows(g_, variance.view);
    const auto squared = squares ? square_of(*squares) : std::nullopt;
    const std::string& name = g_.node(id).name;
    if (!squared) {
      if (is_difference_of_moments(variance.view) && centred(x))
        r_.note(name, "not layer_norm", "its variance is mean(x^2) - mean(x)^2, which rounds differently");
      return false;
    }
    if (*squared != x) return false;
    const auto centre = centred(x);
    if (!variance.eps) {
      r_.note(name, centre ? "not layer_norm" : "not rms_norm", "nothing is added to the mean of squares");
      return false;
    }
    if (!centre && bias >= 0) return false;
    r_.before(id);
    if (weight < 0) weight = r_.constant(graph::Constant::splat_f32({DType::kF32, {type(x).dims.back()}}, 1), "ones");
    const Shape columns = {type(x).dims.back()};
    std::vector<ValueId> operands = {centre ? *centre : x, r_.reshape(weight, columns)};
    if (bias >= 0) operands.push_back(r_.reshape(bias, columns));
    const OpKind op = centre ? OpKind::layer_norm : OpKind::rms_norm;
    r_.note(name, std::string(graph::op_info(op).name),
            centre ? "(x - mean) / sqrt(mean((x - mean)^2) + eps)" : "x / sqrt(mean(x^2) + eps)");
    r_.replace(id, r_.add(op, std::move(operands), {{"eps", *variance.eps}}));
    g_.erase_dead();  // what it was made of is a norm as well, without the weight
    return true;
  }

  // mean(x^2) - mean(x)^2, perhaps kept from falling below 0.
  bool is_difference_of_moments(const View& at) const {
    View view = peel(g_, at);
    const Node* n = g_.definition(view.value);
    if (n != nullptr && n->op == OpKind::max) {
      for (const int side : {0, 1})
        if (is_uniform(g_, n->operands[static_cast<size_t>(1 - side)], 0)) {
          view = peel(g_, operand_of(g_, view, side));
          n = g_.definition(view.value);
          break;
        }
    }
    if (n == nullptr || n->op != OpKind::sub) return false;
    const auto squares = mean_of_rows(g_, operand_of(g_, view, 0));
    return squares && square_of(*squares) && square_of(peel(g_, operand_of(g_, view, 1)).value);
  }

  // ---- softmax ----

  // The maximum of the rows of x, with what keeps it from being -inf.
  bool is_row_maximum(const View& at, ValueId x) const {
    View view = at;
    for (int guards = 0; guards < 3; ++guards) {
      view = peel(g_, view);
      if (const auto of = row_reduction(g_, view, "max")) return *of == x;
      const Node* n = g_.definition(view.value);
      if (n == nullptr) return false;
      if (n->op == OpKind::max) {
        const auto low = [&](int i) {
          const auto u = uniform(g_, n->operands[static_cast<size_t>(i)]);
          return u && *u <= -1e30;
        };
        if (!low(0) && !low(1)) return false;
        view = operand_of(g_, view, low(0) ? 1 : 0);
      } else if (n->op == OpKind::select) {
        // Finite or 0.
        const bool second = is_uniform(g_, n->operands[2], 0), first = is_uniform(g_, n->operands[1], 0);
        if (!tests_for_infinity(n->operands[0]) || first == second) return false;
        view = operand_of(g_, view, second ? 1 : 2);
      } else {
        return false;
      }
    }
    return false;
  }
  bool tests_for_infinity(ValueId condition) const {
    ValueId v = condition;
    while (const Node* inverse = defined_by(g_, v, OpKind::logical_not)) v = inverse->operands[0];
    const Node* n = defined_by(g_, v, OpKind::compare);
    if (n == nullptr) return false;
    return std::any_of(n->operands.begin(), n->operands.end(), [&](ValueId x) {
      const auto u = uniform(g_, x);
      return u && std::isinf(*u);
    });
  }

  // exp(x - max) over its sum. `id` divides, or multiplies by 1 / sum.
  bool softmax(NodeId id) {
    const Product p = product(g_, g_.result(id));
    const std::vector<ValueId>& values = p.values;
    const ValueId divisor = p.divisors.size() == 1 ? p.divisors[0] : -1;
    for (size_t i = 0; divisor < 0 && p.factor == 1 && values.size() == 2 && i < 2; ++i) {
      const View view = peel(g_, whole(g_, values[i]));
      const Node* n = defined_by(g_, view.value, OpKind::div);
      if (n == nullptr || !is_uniform(g_, n->operands[0], 1)) continue;
      if (softmax_of(id, values[1 - i], operand_of(g_, view, 1))) return true;
    }
    if (divisor < 0 || values.size() != 1 || p.factor != 1) return false;
    return softmax_of(id, values[0], whole(g_, divisor));
  }

  bool softmax_of(NodeId id, ValueId exponentials, const View& sum) {
    const Node* exp = defined_by(g_, exponentials, OpKind::exp);
    const std::string& name = g_.node(id).name;
    if (exp == nullptr) return false;
    const auto of = row_reduction(g_, sum, "sum");
    if (!of || *of != exponentials) {
      const Node* other = defined_by(g_, peel(g_, sum).value, OpKind::reduce);
      if (other != nullptr && other->operands[0] == exponentials)
        r_.note(name, "not softmax", "the sum is not over the last axis alone, row by row");
      return false;
    }
    const Node* shifted = defined_by(g_, exp->operands[0], OpKind::sub);
    if (shifted == nullptr || !is_row_maximum(whole(g_, shifted->operands[1]), shifted->operands[0])) {
      r_.note(name, "not softmax", "what is subtracted before exp is not the maximum of the row");
      return false;
    }
    r_.before(id);
    r_.note(name, "softmax", "exp(x - max) / sum over the last axis");
    r_.replace(id, r_.add(OpKind::softmax, {shifted->operands[0]}));
    return true;
  }

  Rewriter& r_;
  Graph& g_;
};

}  // namespace

int recognise_norms(Rewriter& r) { return Norms(r).run(); }

}  // namespace hone::passes
