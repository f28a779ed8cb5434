// Buffers of keys and values that a caller passes from call to call -> states of the graph.
//
//   cache' = dynamic_update_slice(cache, rows, .., position, ..)     an input that takes the place of an output
//   attention(q, cache', ..) where key j is seen if j <= position + i
//   position' = position + s                                         an output
//
// becomes attention over kv_append(state, rows), which holds position + s rows and no more; the caches and the position
// are no inputs and outputs any longer. All of them go, or none: a position that something else reads as well keeps the
// graph as it is. A position that the caller would have passed is the number of tokens so far, so a call that would go
// beyond the capacity is refused by a guard, where the update would have been moved back.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "engine/passes/attention_mask_internal.h"
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
using graph::ValueKind;

// A cache as one operand of attention reads it.
struct Cache {
  ValueId input, updated, rows;  // rows: [s, heads, d], made by rows_of
  std::vector<int64_t> order;    // dimensions of the cache as [capacity, heads, d], others of 1 behind
  ValueId update;
  int64_t capacity;
};
struct Layer {
  NodeId attention;
  Cache keys, values;
  int64_t window = 0;
};

class Caches {
 public:
  explicit Caches(Rewriter& r) : r_(r), g_(r.g) {}

  int run() {
    if (!g_.position.empty() || !find_position()) return 0;
    for (const NodeId id : g_.order())
      if (g_.node(id).op == OpKind::attention) {
        const std::string why = add_layer(id);
        if (!why.empty()) r_.note(g_.node(id).name, "no cache of its own", why);
      }
    if (layers_.empty()) return 0;
    const Graph before = g_;
    const size_t notes = r_.notes();
    rewrite();
    g_.erase_dead();
    const auto& uses = g_.value(position_).uses;
    if (!uses.empty()) {
      const std::string reader = g_.node(uses[0].node).name;
      g_ = before;
      r_.forget_notes(notes);
      r_.note(g_.value(position_).name, "not the position of the graph", fmt::format("%{} reads it as well", reader));
      return 0;
    }
    g_.erase_input(position_);
    return static_cast<int>(layers_.size());
  }

 private:
  const Shape& dims(ValueId v) const { return g_.value(v).type.dims; }

  // x where v is x, or x + n for x below 0, as frameworks index from the end.
  ValueId index_of(ValueId v) const {
    v = peel(g_, whole(g_, v)).value;
    const Node* n = defined_by(g_, v, OpKind::select);
    const Node* below =
        n == nullptr ? nullptr : defined_by(g_, peel(g_, whole(g_, n->operands[0])).value, OpKind::compare);
    if (below == nullptr || below->text("direction") != "LT" || !is_uniform(g_, below->operands[1], 0)) return v;
    const ValueId x = peel(g_, whole(g_, n->operands[2])).value;
    return peel(g_, whole(g_, below->operands[0])).value == x ? x : v;
  }

  // ---- the position ----

  // A whole number that is an input and, raised by a number, an output.
  bool find_position() {
    for (size_t i = 0; i < g_.outputs().size(); ++i) {
      const ValueId out = g_.outputs()[i];
      const auto& type = g_.value(out).type;
      if (type.dtype != DType::kS32 || !type.is_static() || type.elements() != 1) continue;
      const auto a = affine(g_, whole(g_, out));
      if (!a || a->scalars.size() != 1 || a->scalars.begin()->second != 1 || a->constant < 1) continue;
      const ValueId from = a->scalars.begin()->first;
      if (g_.value(from).kind != ValueKind::kInput) continue;
      position_ = from;
      tokens_ = a->constant;
      gone_.insert(i);
      return true;
    }
    return false;
  }

  // ---- caches ----

  // `operand` of an attention, [capacity, heads, d], as a buffer that was updated at the position.
  std::optional<Cache> cache_of(const Node& attention, size_t operand, std::string* why) const {
    const ValueId read = attention.operands[operand];
    const View view = peel(g_, whole(g_, read));
    const Node* n = defined_by(g_, view.value, OpKind::dynamic_update_slice);
    const auto fail = [&](const char* reason) {
      *why = reason;
      return std::nullopt;
    };
    if (n == nullptr) return std::nullopt;  // not of this form at all
    Cache c{n->operands[0], view.value, -1, {}, n->operands[1], 0};
    const graph::Value& input = g_.value(c.input);
    if (input.kind != ValueKind::kInput) return fail("what is updated is no input");
    const auto& outputs = g_.outputs();
    const auto at = std::find(outputs.begin(), outputs.end(), c.updated);
    if (at == outputs.end() || input.aliases_output != at - outputs.begin())
      return fail("the updated buffer does not take the place of the input in the next call");
    if (input.uses.size() != 1) return fail("the buffer is read before it is updated");
    for (int axis = 0; axis < 3; ++axis)
      for (size_t i = 0; i < view.axes.size(); ++i)
        if (view.axes[i] == axis && surely_equal(dims(c.input)[i], dims(read)[static_cast<size_t>(axis)]))
          c.order.push_back(static_cast<int64_t>(i));
    if (c.order.size() != 3) return fail("the buffer is not read as [capacity, heads, d]");
    for (size_t i = 0; i < view.axes.size(); ++i)
      if (std::find(c.order.begin(), c.order.end(), static_cast<int64_t>(i)) == c.order.end()) {
        if (dims(c.input)[i] != Dim(1)) return fail("the buffer has more than one sequence");
        c.order.push_back(static_cast<int64_t>(i));
      }
    if (!starts_at_position(*n, c)) return fail("the buffer is not updated at the position");
    c.capacity = dims(c.input)[static_cast<size_t>(c.order[0])].value();
    return c;
  }

  bool starts_at_position(const Node& update, const Cache& c) const {
    const Shape &whole_dims = dims(c.input), &part = dims(c.update);
    for (size_t i = 0; i < whole_dims.size(); ++i) {
      const bool along_rows = static_cast<int64_t>(i) == c.order[0];
      if (along_rows ? part[i] != Dim(tokens_) || !whole_dims[i].is_static() : part[i] != whole_dims[i]) return false;
      if (along_rows && index_of(update.operands[2 + i]) != position_) return false;
    }
    return true;
  }

  // "" also for an attention that has no buffers.
  std::string add_layer(NodeId id) {
    const Node& n = g_.node(id);
    if (g_.value(n.operands[0]).type.rank() != 3) return "";
    std::string why;
    const auto keys = cache_of(n, 1, &why);
    if (!keys) return why;
    const auto values = cache_of(n, 2, &why);
    if (!values) return why.empty() ? "only its keys are in a buffer" : why;
    if (n.operands.size() != 4) return "nothing hides the rows of the buffer that are not written yet";
    Layer layer{id, *keys, *values};
    why = read_mask(n, layer);
    if (why.empty()) layers_.push_back(layer);
    return why;
  }

  // Row i sees keys up to position + i.
  std::string read_mask(const Node& n, Layer& layer) const {
    const View at = whole(g_, n.operands[3]);
    Mask mask = {at, true, false, 0};
    if (g_.value(n.operands[3]).type.dtype == DType::kF32) mask = added_mask(g_, at);
    const auto planes = mask.condition ? half_planes(g_, mask.view, mask.inverted) : std::nullopt;
    if (!planes) return "its mask is not made of comparisons of rows, keys and the position";
    const Scores scores{0, 1, dims(n.operands[0])[0], dims(n.operands[1])[0]};
    bool causal = false;
    for (const HalfPlane& p : *planes) {
      const auto from = is_causal_from(p, scores);
      const auto window = window_from(p, scores, position_);
      if (from && *from == position_) {
        causal = true;
      } else if (window && layer.window == 0) {
        layer.window = *window;
      } else if (!is_length(p, scores)) {
        return "its mask is not causal from the position on";
      }
    }
    return causal ? "" : "its mask is not causal from the position on";
  }
  // j <= position + s - 1, which the last row says as well.
  bool is_length(const HalfPlane& p, const Scores& s) const {
    return p.rule.axes == std::map<int, int64_t>{{s.key_axis, -1}} && p.rule.constant == tokens_ - 1 &&
           p.rule.scalars == std::map<ValueId, int64_t>{{position_, 1}};
  }

  // ---- states ----

  void rewrite() {
    int64_t capacity = layers_[0].keys.capacity;
    for (const Layer& l : layers_) capacity = std::min({capacity, l.keys.capacity, l.values.capacity});
    std::string name = "p";
    while (g_.find_symbol(name) != nullptr) name += "p";
    g_.symbols.push_back({.name = name, .min = 0, .max = capacity});
    g_.position = name;
    g_.tokens = Dim(tokens_);
    for (const Layer& l : layers_) append(l);
    const std::vector<NodeId> order = g_.order();
    for (const NodeId id : order)
      if (g_.is_live(id) && g_.node(id).op == OpKind::rope && g_.node(id).operands.size() == 3) turn_from_position(id);
    drop_outputs();
    g_.erase_dead();
    for (const Layer& l : layers_)
      for (const Cache* c : {&l.keys, &l.values})
        if (g_.value(c->input).uses.empty()) g_.erase_input(c->input);
    r_.note(g_.value(position_).name, fmt::format("position {} of the graph", name),
            fmt::format("{} caches become states; they and the position are no inputs and outputs any longer",
                        2 * layers_.size()));
  }

  // The name of the input goes to the state, once it is gone: until then the graph would make it another.
  ValueId appended(const Cache& c, Shape read) {
    std::vector<int64_t> perm = c.order;
    const ValueId rows = r_.reshape(r_.transpose(c.update, perm), {Dim(tokens_), read[1], read[2]});
    const ValueId state = g_.add_state(g_.value(c.input).name + "_state", {DType::kF32, read});
    for (size_t i = 0; i < g_.outputs().size(); ++i)
      if (g_.outputs()[i] == c.updated) gone_.insert(i);
    return r_.add(OpKind::kv_append, {state, rows}, {}, g_.value(c.input).name + "_rows");
  }

  void append(const Layer& l) {
    const Node n = g_.node(l.attention);
    r_.before(l.attention);
    const ValueId keys = appended(l.keys, dims(n.operands[1]));
    const ValueId values = appended(l.values, dims(n.operands[2]));
    graph::Attributes attributes = n.attributes;
    attributes["causal"] = true;
    if (l.window != 0) attributes["window"] = l.window;
    r_.note(n.name, "attention over a cache", "its keys and values are appended to states at the position");
    r_.replace(l.attention, r_.add(OpKind::attention, {n.operands[0], keys, values}, std::move(attributes)));
  }

  // Positions that are position + row.
  void turn_from_position(NodeId id) {
    const Node n = g_.node(id);
    const auto a = affine(g_, whole(g_, n.operands[2]));
    const bool one_row = dims(n.operands[2])[0] == Dim(1);
    if (!a || a->scalars.size() != 1 || a->scalars.begin()->second != 1) return;
    if (index_of(a->scalars.begin()->first) != position_) return;
    if (one_row ? !a->axes.empty() : a->axes != std::map<int, int64_t>{{0, 1}}) return;
    graph::Attributes attributes = n.attributes;
    attributes["offset"] = Dim::symbol(g_.position) + Dim(a->constant);
    r_.before(id);
    r_.replace(id, r_.add(OpKind::rope, {n.operands[0], n.operands[1]}, std::move(attributes)));
  }

  void drop_outputs() {
    std::vector<ValueId> kept;
    std::vector<int> moved(g_.outputs().size(), -1);
    for (size_t i = 0; i < g_.outputs().size(); ++i) {
      if (gone_.contains(i)) continue;
      moved[i] = static_cast<int>(kept.size());
      kept.push_back(g_.outputs()[i]);
    }
    for (const ValueId v : g_.inputs())
      if (const int to = g_.value(v).aliases_output; to >= 0) g_.set_alias(v, moved[static_cast<size_t>(to)]);
    g_.set_outputs(std::move(kept));
  }

  Rewriter& r_;
  Graph& g_;
  ValueId position_ = -1;
  int64_t tokens_ = 0;
  std::vector<Layer> layers_;
  std::set<size_t> gone_;  // outputs
};

}  // namespace

int recognise_caches(Rewriter& r) { return Caches(r).run(); }

}  // namespace hone::passes
