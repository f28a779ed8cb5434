// logistic, silu, gelu, swiglu: products and sums of elements, however they are bracketed.
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
using graph::ValueId;

constexpr double kTanhScale = 0.7978845608028654;  // sqrt(2 / pi)
constexpr double kTanhCube = 0.044715;
constexpr double kErfScale = 0.7071067811865476;  // 1 / sqrt(2)

// Frameworks round these constants to f32, some to fewer digits. One half is exact.
bool close(double a, double b) { return std::abs(a - b) <= 1e-5 * std::abs(b); }

class Activations {
 public:
  explicit Activations(Rewriter& r) : r_(r), g_(r.g) {}

  int run() {
    int count = 0;
    const std::vector<NodeId> order = g_.order();
    for (const NodeId id : order) {
      if (!g_.is_live(id)) continue;
      const OpKind op = g_.node(id).op;
      if (op == OpKind::mul || op == OpKind::div) count += rewrite(id);
    }
    return count;
  }

 private:
  // u where v is 1 + u or u + 1.
  std::optional<ValueId> one_plus(ValueId v) const {
    const Node* n = defined_by(g_, v, OpKind::add);
    if (n == nullptr) return std::nullopt;
    for (const size_t side : {0u, 1u})
      if (is_uniform(g_, n->operands[side], 1)) return n->operands[1 - side];
    return std::nullopt;
  }
  // x where v is 1 + exp(-x).
  std::optional<ValueId> one_plus_exp_minus(ValueId v) const {
    const auto u = one_plus(v);
    const Node* exp = u ? defined_by(g_, *u, OpKind::exp) : nullptr;
    if (exp == nullptr) return std::nullopt;
    const Node* minus = defined_by(g_, exp->operands[0], OpKind::neg);
    if (minus != nullptr) return minus->operands[0];
    const Product p = product(g_, exp->operands[0]);
    return p.factor == -1 && p.values.size() == 1 && p.divisors.empty() ? std::optional(p.values[0]) : std::nullopt;
  }

  bool rewrite(NodeId id) {
    const Product p = product(g_, g_.result(id));
    if (p.divisors.size() == 1 && p.factor == 1) {
      const auto x = one_plus_exp_minus(p.divisors[0]);
      if (x && p.values.empty()) return become(id, OpKind::logistic, *x, {}, "1 / (1 + exp(-x))");
      if (x && p.values.size() == 1 && p.values[0] == *x) return become(id, OpKind::silu, *x, {}, "x / (1 + exp(-x))");
    }
    if (p.values.size() != 2 || !p.divisors.empty()) return false;
    for (const size_t side : {0u, 1u}) {
      const ValueId x = p.values[side], f = p.values[1 - side];
      const Node* logistic = defined_by(g_, f, OpKind::logistic);
      if (logistic != nullptr && logistic->operands[0] == x) {
        if (p.factor == 1) return become(id, OpKind::silu, x, {}, "x * logistic(x)");
      } else if (logistic != nullptr && p.factor == 1) {
        near_silu(id, x, logistic->operands[0]);
      }
      if (p.factor == 0.5 && is_tanh_of(f, x))
        return become(id, OpKind::gelu, x, {{"approximate", std::string("tanh")}},
                      "x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))");
      if (p.factor == 0.5 && is_erf_of(f, x))
        return become(id, OpKind::gelu, x, {{"approximate", std::string("erf")}}, "x / 2 * (1 + erf(x / sqrt(2)))");
    }
    return false;
  }

  // x * logistic(c x) is another function.
  void near_silu(NodeId id, ValueId x, ValueId inner) {
    const Product p = product(g_, inner);
    if (p.values.size() == 1 && p.values[0] == x && p.divisors.empty() && p.factor != 1)
      r_.note(g_.node(id).name, "not silu", "logistic is taken of a multiple of x");
  }

  // 1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)), also as sqrt(2/pi) x (1 + 0.044715 x^2).
  bool is_tanh_of(ValueId v, ValueId x) const {
    const auto u = one_plus(v);
    const Node* tanh = u ? defined_by(g_, *u, OpKind::tanh) : nullptr;
    if (tanh == nullptr) return false;
    const Product p = product(g_, tanh->operands[0]);
    if (!close(p.factor, kTanhScale) || !p.divisors.empty()) return false;
    if (p.values.size() == 1) {
      const Node* sum = defined_by(g_, p.values[0], OpKind::add);
      if (sum == nullptr) return false;
      return (sum->operands[0] == x && is_cube(sum->operands[1], x, 3)) ||
             (sum->operands[1] == x && is_cube(sum->operands[0], x, 3));
    }
    if (p.values.size() != 2) return false;
    for (const size_t side : {0u, 1u}) {
      const auto square = one_plus(p.values[1 - side]);
      if (p.values[side] == x && square && is_cube(*square, x, 2)) return true;
    }
    return false;
  }
  // 0.044715 x^power
  bool is_cube(ValueId v, ValueId x, size_t power) const {
    const Product p = product(g_, v);
    return close(p.factor, kTanhCube) && p.divisors.empty() && p.values.size() == power &&
           std::all_of(p.values.begin(), p.values.end(), [&](ValueId f) { return f == x; });
  }

  // 1 + erf(x / sqrt(2)), or 1 - erf(-x / sqrt(2)).
  bool is_erf_of(ValueId v, ValueId x) const {
    double sign = 1;
    auto u = one_plus(v);
    if (const Node* sub = defined_by(g_, v, OpKind::sub); sub != nullptr && is_uniform(g_, sub->operands[0], 1))
      u = sub->operands[1], sign = -1;
    const Node* erf = u ? defined_by(g_, *u, OpKind::erf) : nullptr;
    if (erf == nullptr) return false;
    Product p = product(g_, erf->operands[0]);
    if (p.values.size() == 1)
      if (const Node* minus = defined_by(g_, p.values[0], OpKind::neg); minus != nullptr)
        p.values[0] = minus->operands[0], p.factor = -p.factor;
    return close(p.factor, sign * kErfScale) && p.divisors.empty() && p.values.size() == 1 && p.values[0] == x;
  }

  bool become(NodeId id, OpKind op, ValueId x, graph::Attributes attributes, const char* why) {
    r_.before(id);
    r_.note(g_.node(id).name, std::string(graph::op_info(op).name), why);
    r_.replace(id, r_.add(op, {x}, std::move(attributes)));
    return true;
  }

  Rewriter& r_;
  Graph& g_;
};

}  // namespace

int recognise_activations(Rewriter& r) { return Activations(r).run(); }

int recognise_swiglu(Rewriter& r) {
  int count = 0;
  const std::vector<NodeId> order = r.g.order();
  for (const NodeId id : order) {
    if (!r.g.is_live(id) || r.g.node(id).op != OpKind::mul) continue;
    const Node n = r.g.node(id);
    for (const size_t side : {0u, 1u}) {
      const Node* silu = defined_by(r.g, n.operands[side], OpKind::silu);
      if (silu == nullptr || !used_once(r.g, n.operands[side])) continue;
      if (defined_by(r.g, n.operands[1 - side], OpKind::constant) != nullptr) continue;
      r.before(id);
      r.note(n.name, "swiglu", "silu(gate) * up");
      r.replace(id, r.add(OpKind::swiglu, {silu->operands[0], n.operands[1 - side]}));
      ++count;
      break;
    }
  }
  return count;
}

}  // namespace hone::passes
