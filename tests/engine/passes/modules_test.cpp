// What becomes of modules in the style of JAX: the ops of a decoder that are in them, and nothing else; the values
// stay.
//
// Bound: the sums of norms, softmax and attention are of another order than in the module, rows have at most 32
// elements: 1e-5 of the largest element is 80 units in the last place.
#include <gtest/gtest.h>

#include "engine/passes/canonicalize.h"
#include "engine/passes/shape_inference.h"
#include "tests/engine/graph/stablehlo/decoder_module.h"
#include "tests/engine/graph/stablehlo/stablehlo_testing.h"
#include "tests/engine/passes/exported.h"

namespace hone::passes {
namespace {

constexpr double kBound = 1e-5;

using Counts = std::map<std::string, int>;

// Ops other than constants and views.
Counts counts_of(const graph::Graph& g) {
  Counts counts;
  for (const graph::NodeId id : g.order()) {
    const OpKind op = g.node(id).op;
    if (op != OpKind::constant && op != OpKind::reshape && op != OpKind::transpose)
      ++counts[std::string(graph::op_info(op).name)];
  }
  return counts;
}

Compilation canonical(const graph::Graph& g) {
  Compilation c;
  c.graph = g;
  EXPECT_TRUE(shape_inference(c).ok());
  EXPECT_TRUE(canonicalize(c).ok());
  EXPECT_TRUE(verify(c.graph).ok()) << verify(c.graph).message();
  return c;
}

TEST(PassesModules, EachIsWhatItIs) {
  const std::pair<const char*, Counts> modules[] = {
      {"attention_mha", {{"matmul", 4}, {"attention", 1}}},
      {"attention_gqa", {{"matmul", 4}, {"attention", 1}}},
      {"layer_norm", {{"layer_norm", 1}}},
      {"mlp_gelu_erf", {{"matmul", 2}, {"gelu", 1}, {"add", 1}, {"broadcast", 1}}},
      {"mlp_gelu_tanh", {{"matmul", 2}, {"gelu", 1}, {"add", 1}, {"broadcast", 1}}},
      {"mlp_silu", {{"matmul", 3}, {"swiglu", 1}}},
      {"rms_norm", {{"rms_norm", 1}}},
      {"rope_half", {{"rope", 1}}},
      {"rope_interleaved", {{"rope", 1}}},
      {"softmax", {{"softmax", 1}}},
      {"moe_one_hot", {{"matmul", 1}, {"top_k", 1}, {"softmax", 1}, {"experts", 1}}},
      {"moe_gather", {{"matmul", 1}, {"top_k", 1}, {"softmax", 1}, {"experts", 1}}},
  };
  for (const auto& [name, expected] : modules) {
    SCOPED_TRACE(name);
    const graph::Graph g = graph::stablehlo::import_or_throw(graph::stablehlo::module_text(name));
    const Compilation c = canonical(g);
    EXPECT_EQ(counts_of(c.graph), expected) << print(c);
    expect_same(g, c.graph, kBound);
  }
}

// Calls with caches and position handed on, against states.
void expect_same_calls(const graph::Graph& module, const graph::Graph& stateful, int calls) {
  std::vector<graph::Tensor> inputs = random_inputs(module);
  for (size_t i = 1; i < 4; ++i) std::fill(inputs[i].data.begin(), inputs[i].data.end(), std::byte{0});
  graph::ReferenceState state;
  for (int call = 0; call < calls; ++call) {
    inputs[0] = random_inputs(module, 1, 3u + static_cast<unsigned>(call))[0];
    auto a = graph::evaluate(module, inputs, nullptr);
    const auto b = graph::evaluate(stateful, std::vector<graph::Tensor>{inputs[0]}, &state);
    ASSERT_TRUE(a.ok()) << a.status().message();
    ASSERT_TRUE(b.ok()) << b.status().message();
    const std::span<const float> x = (*a)[0].as<float>(), y = (*b)[0].as<float>();
    for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 2 * kBound) << "call " << call << ", element " << i;
    for (size_t i = 1; i < 4; ++i) inputs[i] = std::move((*a)[i]);
  }
}

const Counts kLayer = {{"rms_norm", 2},  {"matmul", 7}, {"rope", 2},  {"kv_append", 2},
                       {"attention", 1}, {"add", 2},    {"swiglu", 1}};

TEST(PassesModules, ADecoderLayerKeepsItsCacheAndPosition) {
  for (const int64_t tokens : {int64_t{1}, int64_t{2}, int64_t{5}})
    for (const bool checks : {false, true}) {
      SCOPED_TRACE(tokens);
      const graph::Graph g = graph::stablehlo::import_or_throw(
          graph::stablehlo::decoder_module({.tokens = tokens, .capacity = 16, .checks_indices = checks}));
      const Compilation c = canonical(g);
      EXPECT_EQ(counts_of(c.graph), kLayer) << print(c);
      EXPECT_EQ(c.graph.states().size(), 2u);
      expect_same_calls(g, c.graph, static_cast<int>(16 / tokens));
    }
}

TEST(PassesModules, ScalingTheKeysOfAModuleChangesWhatFollows) {
  // The graph that was imported is the one that runs.
  graph::Graph g = graph::stablehlo::import_or_throw(graph::stablehlo::module_text("decoder_layer"));
  const Compilation a = canonical(g);
  for (const graph::NodeId id : g.order()) {
    graph::Node& n = g.node(id);
    if (n.op != OpKind::constant || to_string(n.constant->type) != "f32[16, 8]") continue;  // w_k and w_v
    std::vector<float> scaled;
    for (int64_t i = 0; i < n.constant->type.elements(); ++i) scaled.push_back(2 * n.constant->f32_at(i));
    n.constant = graph::Constant::f32(n.constant->type, scaled);
  }
  const Compilation b = canonical(g);
  graph::ReferenceState x, y;
  const auto inputs = random_inputs(a.graph);
  EXPECT_FALSE(*graph::evaluate(a.graph, inputs, &x) == *graph::evaluate(b.graph, inputs, &y));
  expect_same_calls(g, b.graph, 4);
}

}  // namespace
}  // namespace hone::passes
