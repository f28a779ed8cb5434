#include "tests/engine/graph/random_graph.h"

#include <gtest/gtest.h>

#include "engine/base/half.h"
#include "engine/graph/attributes.h"
#include "engine/graph/infer.h"
#include "engine/graph/verify.h"
#include "tests/engine/graph/graph_testing.h"

namespace hone::graph {

namespace {

constexpr OpKind kOps[] = {
#define HONE_GRAPH_OP(name, least, most, results) OpKind::name,
#include "engine/graph/ops.inc"
#undef HONE_GRAPH_OP
};

class Maker {
 public:
  Maker(Random& random, bool executable) : r_(random), executable_(executable) {
    g_.name = r_.chance(20) ? "a \"b\"\n" : "random";
    g_.symbols = {{"s", 1, 4}, {"t", 2, 8, 2}};
    if (r_.chance(50)) {
      g_.position = "p";
      g_.tokens = Dim::symbol("s");
      g_.symbols.push_back({"p", 0, 6});
    }
    for (int i = 0; i < 6; ++i) g_.add_input(r_.chance(50) ? "" : "in.$" + std::to_string(i), type());
    g_.add_input("quoted \x01 \\ name", {DType::kS32, {}});
  }

  Graph make(int nodes) {
    for (int tries = 0; static_cast<int>(g_.order().size()) < nodes && tries < 200 * nodes; ++tries) add_node();
    for (int i = 0; i < 3; ++i) add_output(value());
    for (const NodeId n : g_.order())
      for (const ValueId v : g_.node(n).results)
        if (g_.value(v).uses.empty()) add_output(v);
    g_.set_outputs(outputs_);
    if (r_.chance(30)) g_.ambient_schedule = ScheduleHint{{"rows"}, {}};
    if (r_.chance(30)) g_.layouts["x"] = "padded \"4\"";
    if (const NodeId n = g_.order().back(); r_.chance(50))
      g_.node(n).schedule = ScheduleHint{{"a", "b\\"}, r_.below(9)};
    const Status legal = verify(g_);
    EXPECT_TRUE(legal.ok()) << legal.message();
    return std::move(g_);
  }

 private:
  void add_output(ValueId v) {
    if (!is_16bit_float(g_.value(v).type.dtype)) outputs_.push_back(v);
  }
  Dim dim() {
    switch (r_.below(8)) {
      case 0:
        return Dim::symbol("s");
      case 1:
        return Dim::symbol("t");
      case 2:
        return executable_ ? Dim(2) : Dim::unknown();
      case 3:
        return Dim::symbol("s", 2) + Dim(1);
      default:
        return r_.one_of<int64_t>({1, 2, 2, 4, 4, 32});
    }
  }
  DType dtype() { return r_.one_of({DType::kF32, DType::kF32, DType::kF32, DType::kS32, DType::kU8}); }
  Shape shape() {
    Shape dims;
    for (int64_t n = r_.below(5); n > 0; --n) dims.push_back(dim());
    return dims;
  }
  TensorType type() { return {dtype(), shape()}; }
  ValueId value() {
    // Not a state: those belong to their kv_append.
    for (;;) {
      const auto v = static_cast<ValueId>(r_.below(static_cast<int64_t>(g_.value_count())));
      if (g_.value(v).kind != ValueKind::kState) return v;
    }
  }
  // Most ops want operands that are alike.
  ValueId value_like(ValueId first) {
    const ValueId v = value();
    return r_.chance(60) ? first : v;
  }

  Attribute attribute(const AttributeRule& rule) {
    switch (rule.kind) {
      case AttributeKind::kInteger:
        return r_.between(0, 2);
      case AttributeKind::kNumber:
        return r_.one_of<double>({0, 1e-5, 0.125, 3, 1e300});
      case AttributeKind::kFlag:
        return r_.chance(50);
      case AttributeKind::kText:
        return r_.one_of<std::string>({"nt", "nn", "half", "interleaved", "sum", "max", "LT", "NE", "tanh", "erf",
                                       "+bias", "+silu*gate", "+swiglu"});
      case AttributeKind::kIntegers: {
        Ints list;
        for (int64_t n = r_.below(4); n > 0; --n) list.push_back(r_.between(-1, 2));
        return list;
      }
      case AttributeKind::kDim:
        return g_.position.empty() ? Dim(3) : Dim::symbol("p") + Dim(1);
    }
    return false;
  }

  Constant constant() {
    TensorType t{r_.chance(15) ? r_.one_of({DType::kBf16, DType::kF16}) : dtype(), {}};
    for (int64_t n = r_.below(4); n > 0; --n) t.dims.emplace_back(r_.one_of<int64_t>({1, 2, 4}));
    const bool splat = r_.chance(30);
    std::vector<std::byte> bytes;
    for (int64_t i = splat ? 1 : t.elements(); i > 0; --i) {
      const auto small = static_cast<int32_t>(r_.between(-3, 3));
      float f = r_.one_of<float>({0.0F, -0.0F, 1e-45F, 3.4e38F, INFINITY, -NAN, r_.uniform(-2, 2)});
      if (executable_) f = r_.uniform(-2, 2);
      if (t.dtype == DType::kU8) {
        bytes.push_back(std::byte{r_.chance(50)});
      } else if (is_16bit_float(t.dtype)) {
        const uint16_t bits = t.dtype == DType::kBf16 ? f32_to_bf16(f) : f32_to_f16(f);
        const auto* from = reinterpret_cast<const std::byte*>(&bits);
        bytes.insert(bytes.end(), from, from + 2);
      } else {
        const auto* from = t.dtype == DType::kF32 ? reinterpret_cast<const std::byte*>(&f)
                                                  : reinterpret_cast<const std::byte*>(&small);
        bytes.insert(bytes.end(), from, from + 4);
      }
    }
    Constant c = Constant::copy_of(std::move(t), bytes);
    c.splat = splat;
    return c;
  }

  void add_node() {
    const OpKind op = r_.element(kOps);
    const OpInfo& info = op_info(op);
    if (op == OpKind::constant) {
      g_.add_constant(constant());
      return;
    }
    const int count = info.most_operands < 0 ? info.least_operands + static_cast<int>(r_.below(3))
                                             : static_cast<int>(r_.between(info.least_operands, info.most_operands));
    std::vector<ValueId> operands;
    if (op == OpKind::kv_append) {
      // A state is added only where there are rows for it.
      const ValueId rows = value();
      const TensorType& t = g_.value(rows).type;
      if (g_.position.empty() || t.rank() != 3 || !(t.dims[0] == g_.tokens) || t.dtype != DType::kF32) return;
      if (!t.dims[1].is_static() || !t.dims[2].is_static()) return;
      operands = {g_.add_state("", {DType::kF32, {16, t.dims[1], t.dims[2]}}), rows};
    } else {
      for (int i = 0; i < count; ++i) operands.push_back(i == 0 ? value() : value_like(operands[0]));
    }
    Attributes attributes;
    for (const char* name :
         {"axis",  "direction", "dims",     "perm",       "start",     "limit",        "stride",
          "sizes", "kind",      "axes",     "lhs_batch",  "rhs_batch", "lhs_contract", "rhs_contract",
          "k",     "layout",    "epilogue", "causal",     "window",    "scale",        "softcap",
          "eps",   "style",     "offset",   "approximate"})
      if (const AttributeRule* rule = find_attribute(op, name); rule && (rule->required || r_.chance(40)))
        attributes.emplace(name, attribute(*rule));
    std::vector<TensorType> types;
    for (const ValueId v : operands) types.push_back(g_.value(v).type);
    TensorType wanted = type();
    if (r_.chance(50) && !types.empty()) wanted.dims = types[0].dims;
    auto results =
        infer_types({op, types, attributes, &wanted, g_.position.empty() ? Dim::unknown() : Dim::symbol("p")});
    if (!results.ok()) return;
    for (const TensorType& t : *results)
      for (const Dim& d : t.dims)
        if (executable_ && d.is_unknown()) return;
    g_.add_node(op, std::move(operands), std::move(attributes), std::move(*results), r_.chance(20) ? "%!" : "");
  }

  Random& r_;
  bool executable_;
  Graph g_;
  std::vector<ValueId> outputs_;
};

}  // namespace

Graph random_graph(Random& random, int nodes, bool executable) { return Maker(random, executable).make(nodes); }

}  // namespace hone::graph
