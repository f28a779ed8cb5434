// Rotations of pairs of elements by an angle that grows with the row -> rope.
//
//   x * C + rotated(x) * S          C and S of all d columns; rotated(x) = join(-x2, x1)
//   join(x1 c - x2 s, x2 c + x1 s)  c and s of d / 2 columns
//
// join puts halves one after the other ("half") or element by element ("interleaved"). c = cos(a), s = sin(a) and
// a[r, j] = position[r] * inv_freq[j]; or both are rows of tables, from which inv_freq is found again.
#include <fmt/format.h>

#include <algorithm>

#include "engine/passes/canonicalize_internal.h"
#include "engine/passes/match_internal.h"
#include "engine/passes/rope_frequencies_internal.h"

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

enum class Style { kHalf, kInterleaved };

// Two values that make one along the last axis.
struct Pair {
  ValueId first, second;
  Style style;
  bool operator==(const Pair&) const = default;
};

// Where rows are, and how fast pairs turn.
struct Angle {
  ValueId frequencies = -1;  // any shape of d / 2 elements
  ValueId positions = -1;    // s32, an element for each row; -1: offset + row
  int64_t offset = 0;
  int axis = -1;  // of x, along which positions run; -1: there is one row
  // Of tables, in the place of frequencies: rows from `offset`, those of `positions`, or from `start` on, a scalar.
  ValueId table = -1, start = -1;
  TableColumns columns = TableColumns::kOnce;
  bool operator==(const Angle&) const = default;
};

class Ropes {
 public:
  explicit Ropes(Rewriter& r) : r_(r), g_(r.g) {}

  int run() {
    int count = 0;
    const std::vector<NodeId> order = g_.order();
    for (const NodeId id : order) {
      if (!g_.is_live(id)) continue;
      const OpKind op = g_.node(id).op;
      if (op == OpKind::add) count += sum_form(id);
      if (op == OpKind::concatenate || op == OpKind::reshape) count += joined_form(id);
    }
    g_.erase_dead();
    return count;
  }

 private:
  const TensorType& type(ValueId v) const { return g_.value(v).type; }
  const Shape& dims(ValueId v) const { return type(v).dims; }

  // ---- halves and pairs ----

  // [.., d/2, 1] -> [.., d/2], or back: the value on the other side of a reshape that moves one dimension of 1.
  ValueId without_unit(ValueId v) const {
    const Node* n = defined_by(g_, v, OpKind::reshape);
    if (n == nullptr) {
      n = defined_by(g_, v, OpKind::broadcast);
      if (n == nullptr || n->integers("dims").size() + 1 != dims(v).size() || dims(v).back() != Dim(1)) return v;
      for (size_t i = 0; i < n->integers("dims").size(); ++i)
        if (n->integers("dims")[i] != static_cast<int64_t>(i)) return v;
      return dims(n->operands[0]) == Shape(dims(v).begin(), dims(v).end() - 1) ? n->operands[0] : v;
    }
    Shape with = dims(n->operands[0]), without = dims(v);
    if (with.size() < without.size()) std::swap(with, without);
    with.pop_back();
    return with == without ? n->operands[0] : v;
  }

  // What two values join to.
  std::optional<Pair> joined(ValueId v) const {
    const Node* n = g_.definition(v);
    if (n == nullptr) return std::nullopt;
    if (n->op == OpKind::concatenate && n->operands.size() == 2 && n->integer("axis") == type(v).rank() - 1 &&
        dims(n->operands[0]) == dims(n->operands[1]) && dims(n->operands[0]).back() != Dim(1))
      return Pair{n->operands[0], n->operands[1], Style::kHalf};
    if (n->op != OpKind::reshape) return std::nullopt;
    const Node* stack = defined_by(g_, n->operands[0], OpKind::concatenate);
    if (stack == nullptr || stack->operands.size() != 2) return std::nullopt;
    const ValueId pairs = n->operands[0];
    const bool last = stack->integer("axis") == type(pairs).rank() - 1 && dims(pairs).back() == Dim(2);
    if (!last || type(pairs).rank() != type(v).rank() + 1) return std::nullopt;
    return Pair{without_unit(stack->operands[0]), without_unit(stack->operands[1]), Style::kInterleaved};
  }

  struct Part {
    ValueId of;
    Style style;
    bool second;
  };
  // v as one of the two parts of a value.
  std::optional<Part> part(ValueId v) const {
    const Node* n = defined_by(g_, v, OpKind::slice);
    if (n == nullptr) n = defined_by(g_, without_unit(v), OpKind::slice);
    if (n == nullptr) return std::nullopt;
    // A column of [.., d/2, 2].
    const Node* pairs = defined_by(g_, n->operands[0], OpKind::reshape);
    if (pairs != nullptr && whole_but_last(*n) && dims(pairs->results[0]).back() == Dim(2) &&
        dims(n->results[0]).back() == Dim(1)) {
      Shape rows = dims(pairs->results[0]);
      rows.pop_back();
      if (rows.empty()) return std::nullopt;
      rows.back() = rows.back() * Dim(2);
      if (rows == dims(pairs->operands[0]))
        return Part{pairs->operands[0], Style::kInterleaved, n->integers("start").back() == 1};
    }
    return n->results[0] == v ? sliced_part(*n) : std::nullopt;
  }
  std::optional<Part> sliced_part(const Node& n) const {
    const ValueId x = n.operands[0];
    const Dim d = dims(x).back();
    if (!whole_but_last(n) || !d.is_static() || d.value() % 2 != 0) return std::nullopt;
    if (dims(n.results[0]).back() != Dim(d.value() / 2)) return std::nullopt;
    const int64_t start = n.integers("start").back();
    const int64_t step = n.integers("stride").empty() ? 1 : n.integers("stride").back();
    if (step == 2 && start <= 1) return Part{x, Style::kInterleaved, start == 1};
    if (step == 1 && (start == 0 || start == d.value() / 2)) return Part{x, Style::kHalf, start != 0};
    return std::nullopt;
  }
  bool whole_but_last(const Node& n) const {
    const Shape &from = dims(n.operands[0]), &to = dims(n.results[0]);
    const auto steps = n.integers("stride");
    for (size_t i = 0; i + 1 < from.size(); ++i)
      if (from[i] != to[i] || (!steps.empty() && steps[i] != 1)) return false;
    return !from.empty();
  }

  // -v
  std::optional<ValueId> negated(ValueId v) const {
    if (const Node* n = defined_by(g_, v, OpKind::neg)) return n->operands[0];
    const Product p = product(g_, v);
    return p.factor == -1 && p.values.size() == 1 && p.divisors.empty() ? std::optional(p.values[0]) : std::nullopt;
  }
  // The style in which `v` is `x` with each pair turned by a right angle: join(-x2, x1).
  std::optional<Style> rotated(ValueId v, ValueId x) const {
    const auto pair = joined(v);
    const auto minus = pair ? negated(pair->first) : std::nullopt;
    if (!minus) return std::nullopt;
    const auto second = part(*minus), first = part(pair->second);
    if (!second || !first || !second->second || first->second) return std::nullopt;
    if (second->of != x || first->of != x || second->style != pair->style || first->style != pair->style)
      return std::nullopt;
    return pair->style;
  }

  // ---- angles ----

  // The angle whose `trig` v is, as x reads it. `spread`: v has d columns, each angle twice as the style says.
  std::optional<Angle> angle_of(ValueId v, OpKind trig, bool spread, Style style) const {
    View view = whole(g_, v);
    bool found = false;
    for (int step = 0; step < 8; ++step) {
      view = peel(g_, view);
      const Node* n = g_.definition(view.value);
      if (n == nullptr) return std::nullopt;
      if (n->op == trig && !found) {
        found = true;
        view = operand_of(g_, view, 0);
      } else if (spread && twice(view, style)) {
        spread = false;
      } else {
        break;
      }
    }
    const int last = type(v).rank() - 1;
    if (found) return spread ? std::nullopt : product_of(view, last);
    const TableColumns twice = style == Style::kHalf ? TableColumns::kHalvesTwice : TableColumns::kPairsTwice;
    return table_of(view, last, spread ? twice : TableColumns::kOnce);
  }

  // Rows of a constant: all of them, a slice, or those that are looked up.
  std::optional<Angle> table_of(const View& view, int last, TableColumns columns) const {
    Angle angle;
    angle.columns = columns;
    const Node* n = g_.definition(view.value);
    const int rank = type(view.value).rank();
    if (n == nullptr || rank < 2 || view.axes.back() != last) return std::nullopt;
    for (int i = 0; i + 1 < rank; ++i) {
      if (dims(view.value)[static_cast<size_t>(i)] == Dim(1)) continue;
      if (angle.axis >= 0) return std::nullopt;
      angle.axis = view.axes[static_cast<size_t>(i)];
    }
    angle.table = n->op == OpKind::constant ? view.value : n->operands[0];
    if (g_.constant(angle.table) == nullptr || type(angle.table).rank() != 2) return std::nullopt;
    if (n->op == OpKind::gather) {
      angle.positions = n->operands[1];
    } else if (n->op == OpKind::slice && n->integers("stride").empty() && n->integers("start")[1] == 0 &&
               dims(view.value)[1] == dims(angle.table)[1]) {
      angle.offset = n->integers("start")[0];
    } else if (n->op == OpKind::dynamic_slice && dims(view.value)[1] == dims(angle.table)[1]) {
      angle.start = n->operands[1];
    } else if (n->op != OpKind::constant) {
      return std::nullopt;
    }
    return angle;
  }
  // join(a, a) -> a
  bool twice(View& view, Style style) const {
    const Node* n = g_.definition(view.value);
    if (const auto pair = joined(view.value); pair && pair->first == pair->second && pair->style == style) {
      view.value = pair->first;
      return true;
    }
    // Each element twice: [.., d/2] -> [.., d/2, 2] -> [.., d].
    if (style != Style::kInterleaved || n->op != OpKind::reshape) return false;
    const Node* repeat = defined_by(g_, n->operands[0], OpKind::broadcast);
    if (repeat == nullptr) return false;
    const auto to = repeat->integers("dims");
    const ValueId a = without_last_unit(repeat->operands[0]);
    const Shape &pairs = dims(repeat->results[0]), &once = dims(repeat->operands[0]);
    const bool unit = !once.empty() && once.back() == Dim(1) && once.size() == pairs.size();
    if (pairs.back() != Dim(2) || pairs.size() != dims(view.value).size() + 1) return false;
    for (size_t i = 0; i < to.size(); ++i)
      if (to[i] != static_cast<int64_t>(i)) return false;
    if (unit ? a == repeat->operands[0] : once.size() + 1 != pairs.size()) return false;
    view.value = unit ? a : repeat->operands[0];
    return dims(view.value).size() == view.axes.size();
  }
  ValueId without_last_unit(ValueId v) const {
    return !dims(v).empty() && dims(v).back() == Dim(1) ? without_unit(v) : v;
  }

  // position * inv_freq: a product of elements, or an outer product.
  std::optional<Angle> product_of(const View& view, int last) const {
    const Node* n = g_.definition(view.value);
    if (n == nullptr) return std::nullopt;
    if (n->op == OpKind::mul) return factors_of(operand_of(g_, view, 0), operand_of(g_, view, 1), last);
    if (n->op == OpKind::matmul || n->op == OpKind::dot_general) return outer(*n, view, last);
    return std::nullopt;
  }
  std::optional<Angle> outer(const Node& n, const View& view, int last) const {
    View sides[2];
    std::vector<int64_t> contract[2];
    const bool matmul = n.op == OpKind::matmul;
    if (matmul && n.operands.size() != 2) return std::nullopt;
    const auto list = [&](const char* name) {
      const auto span = n.integers(name);
      return std::vector<int64_t>(span.begin(), span.end());
    };
    if (!matmul && !list("lhs_batch").empty()) return std::nullopt;
    contract[0] = matmul ? std::vector<int64_t>{type(n.operands[0]).rank() - 1} : list("lhs_contract");
    contract[1] = matmul ? std::vector<int64_t>{n.text("layout") == "nt" ? 1 : 0} : list("rhs_contract");
    size_t at = 0;
    for (const size_t side : {0u, 1u}) {
      sides[side].value = n.operands[side];
      for (int64_t i = 0; i < type(n.operands[side]).rank(); ++i) {
        const bool summed = std::find(contract[side].begin(), contract[side].end(), i) != contract[side].end();
        if (summed && dims(n.operands[side])[static_cast<size_t>(i)] != Dim(1)) return std::nullopt;
        sides[side].axes.push_back(summed ? -1 : view.axes[at++]);
      }
    }
    return factors_of(sides[0], sides[1], last);
  }

  std::optional<Angle> factors_of(const View& a, const View& b, int last) const {
    for (const bool swapped : {false, true}) {
      const View f = peel(g_, swapped ? a : b), p = peel(g_, swapped ? b : a);
      if (!varies_only_along(g_, f, last) || !elements_are(f, last)) continue;
      if (auto angle = positions_of(p, last)) {
        angle->frequencies = f.value;
        return angle;
      }
    }
    return std::nullopt;
  }
  // It has the elements of the last axis, and no others.
  bool elements_are(const View& view, int last) const {
    for (size_t i = 0; i < view.axes.size(); ++i)
      if (view.axes[i] == last && dims(view.value)[i] != Dim(1)) return true;
    return false;
  }

  std::optional<Angle> positions_of(const View& view, int last) const {
    Angle angle;
    for (size_t i = 0; i < view.axes.size(); ++i) {
      if (dims(view.value)[i] == Dim(1)) continue;
      if (view.axes[i] == last || angle.axis >= 0) return std::nullopt;
      angle.axis = view.axes[i];
    }
    View rows = view;
    const Node* n = g_.definition(rows.value);
    const bool converted = n != nullptr && n->op == OpKind::convert && type(n->operands[0]).dtype == DType::kS32;
    if (const auto a = affine(g_, rows); a && a->scalars.empty()) {
      const auto along = a->axes.find(angle.axis);
      const bool row_by_row =
          angle.axis < 0 ? a->axes.empty() : a->axes.size() == 1 && along != a->axes.end() && along->second == 1;
      if (row_by_row) {
        angle.offset = a->constant;
        return angle;
      }
    }
    if (!converted) return std::nullopt;
    angle.positions = peel(g_, operand_of(g_, rows, 0)).value;
    // A scalar plus a row's index is as many values as there are rows; it may have been read through a broadcast.
    if (type(angle.positions).is_static() && type(angle.positions).elements() == 1 && angle.axis >= 0)
      return std::nullopt;
    return angle;
  }

  // ---- forms ----

  // x * C + rotated(x) * S
  bool sum_form(NodeId id) {
    const Node n = g_.node(id);
    for (const size_t side : {0u, 1u}) {
      const Node *plain = defined_by(g_, n.operands[side], OpKind::mul),
                 *turned = defined_by(g_, n.operands[1 - side], OpKind::mul);
      if (plain == nullptr || turned == nullptr) return false;
      for (const size_t xs : {0u, 1u})
        for (const size_t rs : {0u, 1u}) {
          const ValueId x = plain->operands[xs];
          const auto style = rotated(turned->operands[rs], x);
          if (!style) continue;
          const auto c = angle_of(plain->operands[1 - xs], OpKind::cos, true, *style);
          const auto s = angle_of(turned->operands[1 - rs], OpKind::sin, true, *style);
          return become(id, x, c, s, *style);
        }
    }
    return false;
  }

  // join(x1 c - x2 s, x2 c + x1 s)
  bool joined_form(NodeId id) {
    const auto pair = joined(g_.result(id));
    if (!pair) return false;
    const Node *minus = defined_by(g_, pair->first, OpKind::sub), *plus = defined_by(g_, pair->second, OpKind::add);
    if (minus == nullptr || plus == nullptr) return false;
    const Node *x1c = defined_by(g_, minus->operands[0], OpKind::mul),
               *x2s = defined_by(g_, minus->operands[1], OpKind::mul);
    if (x1c == nullptr || x2s == nullptr) return false;
    for (const size_t i : {0u, 1u})
      for (const size_t j : {0u, 1u}) {
        const ValueId x1 = x1c->operands[i], c = x1c->operands[1 - i];
        const ValueId x2 = x2s->operands[j], s = x2s->operands[1 - j];
        const auto first = part(x1), second = part(x2);
        if (!first || !second || first->second || !second->second || first->of != second->of) continue;
        if (first->style != pair->style || second->style != pair->style) continue;
        if (!is_sum_of(*plus, x2, c, x1, s)) continue;
        return become(id, first->of, angle_of(c, OpKind::cos, false, pair->style),
                      angle_of(s, OpKind::sin, false, pair->style), pair->style);
      }
    return false;
  }
  // a * b + c * d
  bool is_sum_of(const Node& plus, ValueId a, ValueId b, ValueId c, ValueId d) const {
    const auto is_product = [&](ValueId v, ValueId x, ValueId y) {
      const Node* n = defined_by(g_, v, OpKind::mul);
      return n != nullptr &&
             ((n->operands[0] == x && n->operands[1] == y) || (n->operands[0] == y && n->operands[1] == x));
    };
    return (is_product(plus.operands[0], a, b) && is_product(plus.operands[1], c, d)) ||
           (is_product(plus.operands[1], a, b) && is_product(plus.operands[0], c, d));
  }

  // ---- the op ----

  bool become(NodeId id, ValueId x, std::optional<Angle> c, std::optional<Angle> s, Style style) {
    const std::string name = g_.node(id).name;
    if (c && s && c->table >= 0 && s->table >= 0 && !read_tables(id, *c, *s)) {
      r_.note(name, "not rope", "its tables are not cos and sin of row times frequency");
      return false;
    }
    if (!c || !s || !(*c == *s)) {
      r_.note(name, "not rope",
              c && s ? "cos and sin are of different angles"
                     : "its factors are not cos and sin of position times frequency");
      return false;
    }
    const int rank = type(x).rank();
    int axis = c->axis;
    if (axis < 0 && rank >= 3) axis = dims(x)[static_cast<size_t>(rank - 3)] == Dim(1) ? rank - 3 : rank - 2;
    if (axis < 0) axis = 0;
    const bool rows_first = rank == 2 ? axis == 0 : axis == rank - 3;
    const bool heads_first = rank >= 3 && axis == rank - 2;
    if (!rows_first && !heads_first) {
      r_.note(name, "not rope", "positions run along a dimension that is neither before nor behind the heads");
      return false;
    }
    if (c->axis < 0 && dims(x)[static_cast<size_t>(axis)] != Dim(1)) {
      r_.note(name, "not rope", "all rows are at one position");
      return false;
    }
    build(id, x, *c, style, heads_first);
    return true;
  }

  // Both become angles with frequencies.
  bool read_tables(NodeId id, Angle& c, Angle& s) {
    const auto found = frequencies_of(*g_.constant(c.table), *g_.constant(s.table), c.columns);
    if (!found || c.columns != s.columns) return false;
    const TensorType vector{DType::kF32, {Dim(static_cast<int64_t>(found->size()))}};
    r_.before(id);
    c.frequencies = s.frequencies = r_.constant(graph::Constant::f32(vector, *found), "inv_freq");
    c.table = s.table = -1;
    return true;
  }
  // start, start + 1, .., one for each row.
  ValueId positions_from(ValueId start, const Dim& rows) {
    const TensorType vector{DType::kS32, {rows}};
    const ValueId first = r_.add_typed(OpKind::broadcast, {start}, {{"dims", std::vector<int64_t>{}}}, vector);
    if (rows == Dim(1)) return first;
    return r_.add(OpKind::add, {first, r_.add_typed(OpKind::iota, {}, {{"axis", int64_t{0}}}, vector)});
  }

  void build(NodeId id, ValueId x, const Angle& angle, Style style, bool heads_first) {
    r_.before(id);
    const std::string name = g_.node(id).name;
    const Shape result = dims(x);
    const size_t rank = result.size();
    std::vector<int64_t> swap;
    for (size_t i = 0; i < rank; ++i) swap.push_back(static_cast<int64_t>(i));
    if (heads_first) {
      std::swap(swap[rank - 3], swap[rank - 2]);
      x = r_.transpose(x, swap);
    } else if (rank == 2) {
      x = r_.reshape(x, {result[0], Dim(1), result[1]});
    }
    const Dim rows = dims(x)[dims(x).size() - 3], half = *Dim::divide(dims(x).back(), 2);
    std::vector<ValueId> operands = {x, r_.reshape(angle.frequencies, {half})};
    graph::Attributes attributes = {{"style", std::string(style == Style::kHalf ? "half" : "interleaved")}};
    if (angle.start >= 0) {
      operands.push_back(positions_from(angle.start, rows));
    } else if (angle.positions >= 0) {
      operands.push_back(r_.reshape(angle.positions, {rows}));
    } else {
      attributes["offset"] = Dim(angle.offset);
    }
    const ValueId turned = r_.add(OpKind::rope, std::move(operands), std::move(attributes));
    r_.note(
        name, "rope",
        fmt::format("pairs ({}) turned by position * inv_freq", style == Style::kHalf ? "j, j + d/2" : "2j, 2j + 1"));
    const ValueId back = heads_first ? r_.transpose(turned, swap) : r_.reshape(turned, result);
    r_.replace(id, back, turned);
  }

  Rewriter& r_;
  Graph& g_;
};

}  // namespace

int recognise_ropes(Rewriter& r) { return Ropes(r).run(); }

}  // namespace hone::passes
