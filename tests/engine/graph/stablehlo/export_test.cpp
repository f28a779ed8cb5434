// Exports: what comes back from the text computes what went in; bits for primitive ops, the roundings of the parts for
// a decoder's.
#include "engine/graph/stablehlo/export.h"

#include "engine/graph/builder.h"
#include "engine/passes/canonicalize.h"
#include "engine/passes/schedule_annotation.h"
#include "engine/passes/shape_inference.h"
#include "tests/engine/graph/stablehlo/decoder_module.h"
#include "tests/engine/graph/stablehlo/stablehlo_testing.h"

namespace hone::graph::stablehlo {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using enum DType;

Dim s() { return Dim::symbol("s"); }

ValueId weight(Builder& b, std::vector<int64_t> shape, int seed, const std::string& name, double around = 0) {
  Tensor t = Tensor::make(kF32, shape);
  for (int64_t i = 0; i < t.elements(); ++i)
    t.as<float>()[static_cast<size_t>(i)] = static_cast<float>(around + naive::weight(seed, i) / 2);
  return b.constant(Constant::copy_of({kF32, {shape.begin(), shape.end()}}, t.data), name);
}

Graph finish(Builder& b) {
  Result<Graph> graph = b.finish();
  if (!graph.ok()) throw std::runtime_error(std::string(graph.status().message()));
  return std::move(graph).value();
}

// Within `roundings` halves of an ulp of `scale`.
void expect_close(const Tensor& got, const Tensor& expected, double roundings, double scale) {
  ASSERT_EQ(got.shape, expected.shape);
  naive::Rows rows{{}};
  for (const float v : expected.as<float>()) rows[0].push_back(v);
  expect_near(got, rows, roundings, scale);
}

// ---- primitive ops ----

TEST(StablehloExport, ModulesComeBackBitForBit) {
  for (const std::string name :
       {"mlp_silu", "mlp_gelu_tanh", "mlp_gelu_erf", "rms_norm", "layer_norm", "softmax", "rope_half",
        "rope_interleaved", "attention_mha", "attention_gqa", "moe_one_hot", "moe_gather"}) {
    SCOPED_TRACE(name);
    const Graph first = import_or_throw(module_text(name));
    const std::string text = export_or_throw(first);
    const Graph again = import_or_throw(text);
    std::vector<int64_t> shape;
    for (const Dim& d : first.value(first.inputs()[0]).type.dims) shape.push_back(d.value());
    EXPECT_EQ(evaluate_or_throw(again, {input(shape)}), evaluate_or_throw(first, {input(shape)}));
    EXPECT_EQ(export_or_throw(again), text);
  }
}

TEST(StablehloExport, OpsThatNoModuleHas) {
  Builder b("ops");
  const ValueId x = b.input("x", {kF32, {Dim(2), Dim(6)}}), i = b.input("i", {kS32, {Dim(3)}}),
                p = b.input("p", {kS32, {}});
  const ValueId y = b.add(OpKind::pow, {b.add(OpKind::abs, {x}), b.add(OpKind::min, {x, b.add(OpKind::neg, {x})})});
  const ValueId z = b.add(OpKind::log, {b.add(OpKind::sqrt, {b.add(OpKind::exp, {b.add(OpKind::sin, {x})})})});
  const ValueId less = b.add(OpKind::compare, {x, y}, {{"direction", std::string("LT")}});
  const ValueId both =
      b.add(OpKind::logical_or, {b.add(OpKind::logical_and, {less, b.add(OpKind::logical_not, {less})}), less});
  b.output(b.add(OpKind::select, {both, y, z}));
  const ValueId table = b.add(OpKind::transpose, {x}, {{"perm", std::vector<int64_t>{1, 0}}});
  b.output(b.gather(table, i));
  const ValueId zero = b.constant(Constant::s32({kS32, {}}, std::vector<int32_t>{0}), "zero");
  const ValueId part = b.add(OpKind::dynamic_slice, {x, zero, p}, {{"sizes", std::vector<int64_t>{2, 3}}});
  b.output(b.add(OpKind::dynamic_update_slice, {x, part, zero, p}));
  b.output(b.add(OpKind::slice, {x},
                 {{"start", std::vector<int64_t>{0, 1}},
                  {"limit", std::vector<int64_t>{2, -1}},
                  {"stride", std::vector<int64_t>{1, 2}}}));
  b.output(b.add(OpKind::reduce, {i}, {{"kind", std::string("min")}, {"axes", std::vector<int64_t>{0}}}));
  b.output(b.add_typed(OpKind::convert, {less}, {}, {kS32, {Dim(2), Dim(6)}}));
  const auto [values, places] = b.top_k(x, 2);
  b.output(values);
  b.output(places);
  b.output(b.add(OpKind::div, {i, b.constant(Constant::s32({kS32, {Dim(3)}}, std::vector<int32_t>{2, -2, 5}), "by")}));
  const Graph graph = finish(b);
  const Graph again = import_or_throw(export_or_throw(graph));
  for (const int32_t position : {0, 2, 9}) {
    const std::vector<Tensor> inputs{input({2, 6}), Tensor::s32({3}, std::vector<int32_t>{5, 0, 3}),
                                     Tensor::s32({}, std::vector<int32_t>{position})};
    EXPECT_EQ(evaluate_or_throw(again, inputs), evaluate_or_throw(graph, inputs));
  }
}

TEST(StablehloExport, ConstantsKeepTheirBits) {
  Builder b("constants");
  std::vector<float> odd{0.0f, -0.0f, 1e-45f, 3.4028235e38f, INFINITY, -INFINITY, 0.1f, 16777217.0f};
  b.output(b.constant(Constant::f32({kF32, {Dim(8)}}, odd), "odd"));
  std::vector<float> many(200);
  for (size_t i = 0; i < many.size(); ++i) many[i] = std::sin(static_cast<float>(i));
  b.output(b.constant(Constant::f32({kF32, {Dim(10), Dim(20)}}, many), "many"));
  b.output(b.constant(Constant::splat_f32({kF32, {Dim(4), Dim(4)}}, -INFINITY), "splat"));
  b.output(b.constant(Constant::s32({kS32, {Dim(2), Dim(1)}}, std::vector<int32_t>{INT32_MIN, INT32_MAX}), "whole"));
  const std::vector<std::byte> truth{std::byte{1}, std::byte{0}, std::byte{1}};
  b.output(b.constant(Constant::copy_of({kU8, {Dim(3)}}, truth), "truth"));
  const Graph graph = finish(b);
  EXPECT_EQ(evaluate_or_throw(import_or_throw(export_or_throw(graph)), {}), evaluate_or_throw(graph, {}));
}

// ---- a decoder's ops ----

struct OpCase {
  const char* name;
  std::function<ValueId(Builder&, ValueId x)> build;  // x [4, 32]
};

const OpCase kOps[] = {
    {"matmul_nt",
     [](Builder& b, ValueId x) {
       return b.matmul(x, weight(b, {32, 32}, 1, "w"));
     }},
    {"matmul_nn_bias_gelu_residual",
     [](Builder& b, ValueId x) {
       return b.add(OpKind::matmul, {x, weight(b, {32, 32}, 1, "w"), weight(b, {32}, 2, "bias"), x},
                    {{"layout", std::string("nn")}, {"epilogue", std::string("+bias+gelu_erf+residual")}});
     }},
    {"matmul_swiglu",
     [](Builder& b, ValueId x) {
       return b.add(OpKind::matmul, {x, weight(b, {64, 32}, 1, "w")},
                    {{"layout", std::string("nt")}, {"epilogue", std::string("+swiglu")}});
     }},
    {"matmul_relu_gate",
     [](Builder& b, ValueId x) {
       return b.add(OpKind::matmul, {x, weight(b, {32, 32}, 1, "w"), x},
                    {{"layout", std::string("nt")}, {"epilogue", std::string("+relu*gate")}});
     }},
    {"matmul_row_scale",
     [](Builder& b, ValueId x) {
       const ValueId r = b.add(OpKind::rms_scale, {x}, {{"eps", 1e-5}});
       return b.add(OpKind::matmul, {x, weight(b, {32, 32}, 1, "w"), r},
                    {{"layout", std::string("nt")}, {"epilogue", std::string("*row_scale")}});
     }},
    {"rms_norm", [](Builder& b, ValueId x) { return b.rms_norm(x, weight(b, {32}, 3, "w", 1), 1e-5); }},
    {"layer_norm",
     [](Builder& b, ValueId x) {
       return b.layer_norm(x, weight(b, {32}, 3, "w", 1), weight(b, {32}, 4, "bias"), 1e-6);
     }},
    {"softmax", [](Builder& b, ValueId x) { return b.softmax(x, 0.5); }},
    {"silu", [](Builder& b, ValueId x) { return b.add(OpKind::silu, {x}); }},
    {"gelu",
     [](Builder& b, ValueId x) {
       return b.add(OpKind::gelu, {x}, {{"approximate", std::string("tanh")}});
     }},
    {"swiglu", [](Builder& b, ValueId x) { return b.swiglu(x, b.add(OpKind::neg, {x})); }},
    {"rope_half",
     [](Builder& b, ValueId x) {
       return b.rope(b.reshape(x, {Dim(4), Dim(4), Dim(8)}),
                     b.constant(Constant::f32({kF32, {Dim(4)}}, std::vector<float>{1, 0.1f, 0.01f, 0.001f}), "f"),
                     Dim(3), "half");
     }},
    {"rope_interleaved_at_positions",
     [](Builder& b, ValueId x) {
       const ValueId f = b.constant(Constant::f32({kF32, {Dim(4)}}, std::vector<float>{1, 0.1f, 0.01f, 0.001f}), "f");
       const ValueId at = b.constant(Constant::s32({kS32, {Dim(4)}}, std::vector<int32_t>{7, 0, 3, 100}), "at");
       return b.add(OpKind::rope, {b.reshape(x, {Dim(4), Dim(4), Dim(8)}), f, at},
                    {{"style", std::string("interleaved")}});
     }},
    {"experts",
     [](Builder& b, ValueId x) {
       const auto [values, indices] = b.top_k(b.matmul(x, weight(b, {5, 32}, 1, "router")), 2);
       return b.experts(x, indices, b.softmax(values), weight(b, {5, 16, 32}, 2, "gate"),
                        weight(b, {5, 16, 32}, 3, "up"), weight(b, {5, 32, 16}, 4, "down"));
     }},
};

class StablehloExportOp : public testing::TestWithParam<OpCase> {};

TEST_P(StablehloExportOp, IsTheSameInPrimitiveOps) {
  Builder b("op");
  b.output(GetParam().build(b, b.input("x", {kF32, {Dim(4), Dim(32)}})));
  const Graph graph = finish(b);
  const Tensor expected = evaluate_or_throw(graph, {input({4, 32})})[0];
  expect_close(evaluate_or_throw(import_or_throw(export_or_throw(graph)), {input({4, 32})})[0], expected, 200, 8);
}

INSTANTIATE_TEST_SUITE_P(All, StablehloExportOp, testing::ValuesIn(kOps),
                         [](const auto& of) { return std::string(of.param.name); });

// ---- attention ----

struct AttentionCase {
  const char* name;
  int64_t q, kv, heads, kv_heads;
  AttentionOptions options;
  int mask;  // 0: none, 1: f32, 2: u8
};

const AttentionCase kAttentions[] = {
    {"mha", 5, 5, 4, 4, {.causal = true}, 0},
    {"gqa", 5, 9, 6, 2, {.causal = true}, 0},
    {"mqa", 3, 7, 4, 1, {.causal = false}, 0},
    {"more_queries_than_keys", 6, 4, 2, 2, {.causal = true}, 0},
    {"window", 6, 6, 4, 2, {.causal = true, .window = 2}, 0},
    {"window_both_ways", 6, 6, 4, 2, {.causal = false, .window = 2}, 0},
    {"softcap_and_scale", 4, 4, 4, 2, {.causal = true, .scale = 0.25, .softcap = 2}, 0},
    {"additive_mask", 4, 5, 4, 2, {.causal = false}, 1},
    {"boolean_mask_hides_a_row", 4, 5, 4, 2, {.causal = false}, 2},
};

class StablehloExportAttention : public testing::TestWithParam<AttentionCase> {};

TEST_P(StablehloExportAttention, IsTheSameInPrimitiveOps) {
  const AttentionCase& c = GetParam();
  Builder b("attention");
  const ValueId q = b.input("q", {kF32, {Dim(c.q), Dim(c.heads), Dim(8)}}),
                k = b.input("k", {kF32, {Dim(c.kv), Dim(c.kv_heads), Dim(8)}}),
                v = b.input("v", {kF32, {Dim(c.kv), Dim(c.kv_heads), Dim(4)}});
  ValueId result = b.attention(q, k, v, c.options, "attn");
  std::vector<Tensor> inputs{input({c.q, c.heads, 8}), input({c.kv, c.kv_heads, 8}), input({c.kv, c.kv_heads, 4})};
  if (c.mask != 0) {
    result = b.add(OpKind::attention, {q, k, v, b.input("mask", {c.mask == 1 ? kF32 : kU8, {Dim(c.q), Dim(c.kv)}})},
                   {{"causal", false}});
    inputs.push_back(c.mask == 1 ? input({c.q, c.kv}) : Tensor::make(kU8, {c.q, c.kv}));
    // Row 0 sees nothing.
    for (size_t i = static_cast<size_t>(c.kv); c.mask == 2 && i < inputs[3].data.size(); i += 2)
      inputs[3].data[i] = std::byte{1};
  }
  b.output(result);
  const Graph graph = finish(b);
  const Tensor expected = evaluate_or_throw(graph, inputs)[0];
  expect_close(evaluate_or_throw(import_or_throw(export_or_throw(graph)), inputs)[0], expected, 200, 2);
}

INSTANTIATE_TEST_SUITE_P(All, StablehloExportAttention, testing::ValuesIn(kAttentions),
                         [](const auto& of) { return std::string(of.param.name); });

// K and V reach their products as they are: moved, never repeated.
TEST(StablehloExport, GqaRepeatsNothing) {
  Builder b("gqa");
  const ValueId q = b.input("q", {kF32, {Dim(5), Dim(6), Dim(8)}}), k = b.input("k", {kF32, {Dim(5), Dim(2), Dim(8)}}),
                v = b.input("v", {kF32, {Dim(5), Dim(2), Dim(8)}});
  b.output(b.attention(q, k, v, {}));
  const std::string text = export_or_throw(finish(b));
  const Graph graph = import_or_throw(text);
  int products = 0;
  for (const NodeId id : graph.order()) {
    const Node& n = graph.node(id);
    if (n.op != OpKind::dot_general) continue;
    ++products;
    EXPECT_THAT(n.integers("lhs_batch"), testing::ElementsAre(0, 1));
    EXPECT_THAT(n.integers("rhs_batch"), testing::ElementsAre(0, 1));
    ValueId side = n.operands[1];
    while (const Node* from = graph.definition(side)) {
      EXPECT_TRUE(from->op == OpKind::reshape || from->op == OpKind::transpose) << op_info(from->op).name;
      EXPECT_EQ(graph.value(from->results[0]).type.elements(), 5 * 2 * 8);
      side = from->operands[0];
    }
  }
  EXPECT_EQ(products, 2);
  EXPECT_THAT(text, HasSubstr("(tensor<1x2x3x5x8xf32>, tensor<1x2x5x8xf32>) -> tensor<1x2x3x5x5xf32>"));
}

TEST(StablehloExport, HeadsThatAreNoMultipleAreRefused) {
  Builder b("gqa");
  b.symbol({.name = "h", .min = 1, .max = 64});
  const ValueId q = b.input("q", {kF32, {Dim(5), Dim::symbol("h"), Dim(8)}}),
                k = b.input("k", {kF32, {Dim(5), Dim(4), Dim(8)}});
  b.output(b.attention(q, k, k, {}, "attn"));
  const Graph graph = finish(b);
  const Result<std::string> text = export_stablehlo(graph, {.sizes = {{"h", 6}}});
  ASSERT_FALSE(text.ok());
  EXPECT_THAT(
      std::string(text.status().message()),
      HasSubstr("attn: with these sizes attention: q has 6 heads, which must be a multiple of the 4 of k and v"));
  EXPECT_TRUE(export_stablehlo(graph, {.sizes = {{"h", 8}}}).ok());
}

TEST(StablehloExport, WeightsOf16BitsAreRefused) {
  Builder b("half");
  const ValueId w = b.constant(Constant::copy_of({DType::kBf16, {2, 1}}, std::vector<std::byte>(4)), "w");
  b.output(b.matmul(b.input("x", {kF32, {Dim(3), Dim(1)}}), w));
  const Result<std::string> text = export_stablehlo(finish(b), {});
  ASSERT_FALSE(text.ok());
  EXPECT_THAT(std::string(text.status().message()), HasSubstr("constant w is bf16[2, 1]: weights of 16 bits"));
}

// ---- states ----

// A layer with a cache: norm, q, k, v, rope, append, attention, residual.
Graph cached_layer(bool causal = true) {
  Builder b("layer");
  b.symbol({.name = "s", .min = 1, .max = 8});
  b.position("p", 8, s());
  const ValueId x = b.input("x", {kF32, {s(), Dim(16)}});
  const ValueId k_state = b.state("k_cache", {kF32, {Dim(8), Dim(2), Dim(4)}}),
                v_state = b.state("v_cache", {kF32, {Dim(8), Dim(2), Dim(4)}});
  const ValueId f = b.constant(Constant::f32({kF32, {Dim(2)}}, std::vector<float>{1, 0.01f}), "inv_freq");
  const ValueId h = b.rms_norm(x, weight(b, {16}, 1, "norm", 1), 1e-5, "h");
  const auto heads = [&](int64_t n, int seed, const std::string& name) {
    return b.reshape(b.matmul(h, weight(b, {n * 4, 16}, seed, "w_" + name), name), {s(), Dim(n), Dim(4)});
  };
  const ValueId q = b.rope(heads(4, 2, "q"), f, Dim::symbol("p"), "half"),
                k = b.rope(heads(2, 3, "k"), f, Dim::symbol("p"), "half");
  const ValueId a =
      b.attention(q, b.kv_append(k_state, k), b.kv_append(v_state, heads(2, 4, "v")), {.causal = causal}, "attn");
  b.output(b.add(OpKind::add, {x, b.matmul(b.reshape(a, {s(), Dim(16)}), weight(b, {16, 16}, 5, "w_o"))}));
  return finish(b);
}

// Calls of the graph with its state, and of the text with the cache and the position that each call returns.
void expect_same_steps(const Graph& graph, const Graph& exported, int64_t tokens) {
  ReferenceState state;
  std::vector<Tensor> inputs{Tensor::make(kF32, {tokens, 16}), Tensor::make(kF32, {8, 2, 4}),
                             Tensor::make(kF32, {8, 2, 4}), Tensor::make(kS32, {})};
  for (int64_t first = 0; first + tokens <= 8; first += tokens) {
    SCOPED_TRACE(first);
    for (int64_t i = 0; i < tokens * 16; ++i)
      inputs[0].as<float>()[static_cast<size_t>(i)] = static_cast<float>(input_at(first * 16 + i));
    const Tensor expected = evaluate_or_throw(graph, {inputs[0]}, &state)[0];
    std::vector<Tensor> outputs = evaluate_or_throw(exported, inputs);
    expect_close(outputs[0], expected, 400, 4);
    EXPECT_EQ(outputs[3].as<int32_t>()[0], first + tokens);
    for (size_t i = 1; i < 4; ++i)
      inputs[i] = outputs[static_cast<size_t>(exported.value(exported.inputs()[i]).aliases_output)];
  }
}

TEST(StablehloExport, StatesAndPositionAreArgumentsAndResults) {
  for (const bool causal : {true, false}) {
    const Graph graph = cached_layer(causal);
    for (const int64_t tokens : {1, 2, 4}) {
      const std::string text = export_or_throw(graph, {.sizes = {{"s", tokens}}});
      EXPECT_THAT(text, HasSubstr("%k_cache: tensor<8x2x4xf32> {tf.aliasing_output = 1 : i32}, %v_cache: "
                                  "tensor<8x2x4xf32> {tf.aliasing_output = 2 : i32}, "
                                  "%p: tensor<i32> {tf.aliasing_output = 3 : i32}"));
      expect_same_steps(graph, import_or_throw(text), tokens);
    }
  }
}

// With the number of tokens open in the text: its sizes are computed there, and come back as the symbol.
TEST(StablehloExport, OpenSizesComeBackAsSymbols) {
  const std::string text = export_or_throw(cached_layer());
  EXPECT_THAT(text, HasSubstr("%x: tensor<?x16xf32>"));
  const Result<Graph> nameless = import_stablehlo(text);
  ASSERT_FALSE(nameless.ok());
  EXPECT_THAT(std::string(nameless.status().message()), HasSubstr("which needs a name"));
  const Graph again = import_or_throw(text, {.dimensions = {{"x", 0, {.name = "s", .min = 1, .max = 8}}}});
  EXPECT_EQ(to_string(again.value(again.outputs()[0]).type), "f32[s, 16]");
  for (const int64_t tokens : {1, 2}) expect_same_steps(cached_layer(), again, tokens);
}

// The passes find in the text what was written into it: the ops of a decoder, its state, and the hint on its node.
TEST(StablehloExport, WhatComesBackIsADecoderAgain) {
  passes::Compilation out;
  out.graph = cached_layer();
  const Graph before = out.graph;
  for (const NodeId id : out.graph.order())
    if (out.graph.node(id).op == OpKind::attention) out.graph.node(id).schedule = ScheduleHint{{"Heads"}, 4};
  ASSERT_TRUE(passes::schedule_annotation(out).ok());
  const std::string text = export_or_throw(out.graph, {.sizes = {{"s", 2}}});
  EXPECT_THAT(
      text,
      StartsWith("module attributes {hone.schedule = {attn = {parallel_dims = [\"heads\"], parallelism = 4}}} {\n"));
  passes::Compilation in;
  in.graph = import_or_throw(text);
  ASSERT_TRUE(passes::shape_inference(in).ok());
  ASSERT_TRUE(passes::canonicalize(in).ok());
  ASSERT_TRUE(passes::schedule_annotation(in).ok());
  std::map<OpKind, int> ops;
  for (const NodeId id : in.graph.order()) ++ops[in.graph.node(id).op];
  for (const auto& [op, count] : {std::pair{OpKind::rms_norm, 1},
                                  {OpKind::matmul, 4},
                                  {OpKind::rope, 2},
                                  {OpKind::kv_append, 2},
                                  {OpKind::attention, 1}})
    EXPECT_EQ(ops[op], count) << op_info(op).name;
  EXPECT_EQ(in.graph.states().size(), 2u);
  const std::optional<ValueId> attention = in.graph.find_value("attn");
  ASSERT_TRUE(attention.has_value());
  EXPECT_EQ(in.graph.definition(*attention)->op, OpKind::attention);
  EXPECT_EQ(in.graph.definition(*attention)->schedule, (ScheduleHint{{"heads"}, 4}));
  ReferenceState state, other;
  for (int64_t first = 0; first < 8; first += 2) {
    Tensor x = Tensor::make(kF32, {2, 16});
    for (int64_t i = 0; i < 32; ++i)
      x.as<float>()[static_cast<size_t>(i)] = static_cast<float>(input_at(first * 16 + i));
    expect_close(evaluate_or_throw(in.graph, {x}, &other)[0], evaluate_or_throw(before, {x}, &state)[0], 400, 4);
  }
}

TEST(StablehloExport, ACacheThatSomethingElseReadsIsRefused) {
  Builder b("cache");
  b.symbol({.name = "s", .min = 1, .max = 8});
  b.position("p", 8, s());
  const ValueId rows = b.input("rows", {kF32, {s(), Dim(2), Dim(4)}});
  b.output(b.add(OpKind::exp, {b.kv_append(b.state("k", {kF32, {Dim(8), Dim(2), Dim(4)}}), rows)}, {}, "e"));
  const Result<std::string> text = export_stablehlo(finish(b), {.sizes = {{"s", 1}}});
  ASSERT_FALSE(text.ok());
  EXPECT_THAT(std::string(text.status().message()), HasSubstr("e (exp): reads"));
}

TEST(StablehloExport, NamesThatMlirCannotSpellAreLocations) {
  Builder b("names");
  b.output(b.add(OpKind::add, {b.input("0", {kF32, {Dim(2)}}), b.input("layers[1]/w \"q\"", {kF32, {Dim(2)}})}));
  const std::string text = export_or_throw(finish(b));
  EXPECT_THAT(text,
              HasSubstr("@main(%$0: tensor<2xf32> loc(\"0\"), %$1: tensor<2xf32> loc(\"layers[1]/w \\22q\\22\")) ->"));
  const Graph again = import_or_throw(text);
  EXPECT_EQ(again.value(again.inputs()[0]).name, "v0");
  EXPECT_EQ(again.value(again.inputs()[1]).name, "layers_1_w_q");
}

// Two arguments of one name would be no text that anyone reads.
TEST(StablehloExport, APositionMayBeCalledAsAnInputIs) {
  Builder b("names");
  b.position("p", 8, Dim(1));
  const ValueId x = b.input("p", {kF32, {Dim(2)}});
  b.output(b.add(OpKind::neg, {x}));
  const std::string text = export_or_throw(finish(b));
  EXPECT_THAT(text, HasSubstr("@main(%p: tensor<2xf32>, %$1: tensor<i32> {tf.aliasing_output = 1 : i32} loc(\"p\"))"));
  const std::vector<Tensor> out = evaluate_or_throw(
      import_or_throw(text), {Tensor::f32({2}, std::vector<float>{1, 2}), Tensor::s32({}, std::vector<int32_t>{5})});
  EXPECT_EQ(out[0].as<float>()[1], -2);
  EXPECT_EQ(out[1].as<int32_t>()[0], 6);
}

// ---- the header ----

Graph hinted(std::optional<ScheduleHint> hint, std::map<std::string, std::string> layouts,
             const std::string& name = "attn") {
  Builder b("hinted");
  const ValueId q = b.input("q", {kF32, {Dim(5), Dim(4), Dim(8)}});
  b.output(b.attention(q, q, q, {}, name));
  Graph graph = finish(b);
  graph.node(graph.order()[0]).schedule = std::move(hint);
  graph.layouts = std::move(layouts);
  return graph;
}

TEST(StablehloExport, NothingToSayIsABareModule) {
  EXPECT_THAT(export_or_throw(hinted({}, {})), StartsWith("module {\n"));
}

TEST(StablehloExport, HintsAndLayoutsStandInTheHeader) {
  const std::string text = export_or_throw(hinted(ScheduleHint{{"batch", "heads"}, 8}, {}));
  EXPECT_THAT(text, StartsWith("module attributes {hone.schedule = {attn = {parallel_dims = [\"batch\", \"heads\"], "
                               "parallelism = 8}}} {\n"));
  EXPECT_THAT(text, HasSubstr(" loc(\"attn\")\n"));
  EXPECT_THAT(export_or_throw(hinted(ScheduleHint{{"heads"}, {}}, {{"attn", "row=80"}, {"a b", "x\"y"}})),
              StartsWith("module attributes {hone.tensor_layouts = {\"a b\" = \"x\\22y\", attn = \"row=80\"}, "
                         "hone.schedule = {attn = {parallel_dims = [\"heads\"]}}} {\n"));
}

TEST(StablehloExport, HintsComeBackToTheNodeOfTheirName) {
  const ScheduleHint hint{{"batch", "heads"}, 8};
  const std::string text = export_or_throw(hinted(hint, {{"attn", "row=80"}}));
  const Graph again = import_or_throw(text);
  const std::optional<ValueId> named = again.find_value("attn");
  ASSERT_TRUE(named.has_value());
  EXPECT_EQ(again.definition(*named)->schedule, hint);
  EXPECT_EQ(again.layouts.at("attn"), "row=80");
}

// A hint that says nothing is not handed on; one of a node that is not there is noted.
TEST(StablehloExport, HintsWithoutMeaningStayOut) {
  EXPECT_THAT(export_or_throw(hinted(ScheduleHint{{}, 8}, {})), StartsWith("module {\n"));
  EXPECT_THAT(export_or_throw(hinted(ScheduleHint{{"  "}, {}}, {})), StartsWith("module {\n"));
  EXPECT_THAT(export_or_throw(hinted(ScheduleHint{{"heads"}, 0}, {})), StartsWith("module {\n"));
  std::vector<std::string> notes;
  const std::string text =
      "module attributes {hone.schedule = {nobody = {parallel_dims = [\"rows\"]}}} { func.func @main(%x: tensor<f32>) "
      "-> tensor<f32> { return %x : tensor<f32> } }";
  (void)import_or_throw(text, {.notes = &notes});
  EXPECT_THAT(notes, testing::ElementsAre("line 1: hone.schedule names 'nobody', which no node is called"));
}

}  // namespace
}  // namespace hone::graph::stablehlo
