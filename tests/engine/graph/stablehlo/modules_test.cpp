// Modules in the style of JAX exports: what the reference makes of their import is what plain loops in double compute.
#include "tests/engine/graph/stablehlo/stablehlo_testing.h"

namespace hone::graph::stablehlo {
namespace {

using namespace naive;

// The roundings along the longest path, generously: products of 16, a few operations after each.
constexpr double kMlp = 100, kAttention = 200;

Tensor run(const std::string& name, const std::vector<int64_t>& shape) {
  return evaluate_or_throw(import_or_throw(module_text(name)), {input(shape)})[0];
}

Rows mlp(const std::function<double(double)>& activation) {
  const Rows bias = weights(2, 1, 12);
  Rows h = times(input_rows(3, 8), weights(1, 8, 12));
  for (Rows::value_type& row : h)
    for (size_t j = 0; j < row.size(); ++j) row[j] = activation(row[j] + bias[0][j]);
  return times(h, weights(3, 12, 8));
}

TEST(StablehloModules, MlpSilu) {
  const Rows x = input_rows(3, 8);
  const Rows gate = map(times(x, weights(1, 8, 16)), silu), up = times(x, weights(2, 8, 16));
  expect_near(run("mlp_silu", {3, 8}), times(combine(gate, up, std::multiplies<>()), weights(3, 16, 8)), kMlp, 4);
}

TEST(StablehloModules, MlpGelu) {
  expect_near(run("mlp_gelu_tanh", {3, 8}), mlp(gelu_tanh), kMlp, 4);
  expect_near(run("mlp_gelu_erf", {3, 8}), mlp(gelu_erf), kMlp, 4);
}

TEST(StablehloModules, Norms) {
  const std::vector<double> w = weights(4, 1, 8)[0];
  expect_near(run("rms_norm", {3, 8}), norm(input_rows(3, 8), w, 1e-5, false), 30, 4);
  const Rows bias = weights(5, 1, 8);
  Rows expected = norm(input_rows(3, 8), w, 1e-5, true);
  for (Rows::value_type& row : expected)
    for (size_t j = 0; j < row.size(); ++j) row[j] += bias[0][j];
  expect_near(run("layer_norm", {3, 8}), expected, 40, 4);
}

TEST(StablehloModules, Softmax) {
  Rows expected = input_rows(3, 8);
  for (Rows::value_type& row : expected) row = softmax(row);
  expect_near(run("softmax", {3, 8}), expected, 20, 1);
}

TEST(StablehloModules, Rope) {
  expect_near(run("rope_half", {5, 2, 8}), rope(input_rows(5, 16), 2, 0, false), 16, 4);
  expect_near(run("rope_interleaved", {5, 2, 8}), rope(input_rows(5, 16), 2, 0, true), 16, 4);
}

TEST(StablehloModules, Attention) {
  const Rows x = input_rows(5, 16), q = times(x, weights(1, 16, 16));
  const Rows all = attention(q, times(x, weights(2, 16, 16)), times(x, weights(3, 16, 16)), 4, 4);
  expect_near(run("attention_mha", {1, 5, 16}), times(all, weights(4, 16, 16)), kAttention, 8);
  const Rows grouped = attention(q, times(x, weights(2, 16, 8)), times(x, weights(3, 16, 8)), 4, 2);
  expect_near(run("attention_gqa", {1, 5, 16}), times(grouped, weights(4, 16, 16)), kAttention, 8);
}

// The two best experts of each row, and what they say, by weight.
Rows experts(const Rows& x) {
  const Rows logits = times(x, weights(1, 8, 4));
  Rows out(x.size(), std::vector<double>(8, 0));
  for (size_t r = 0; r < x.size(); ++r) {
    std::vector<size_t> order{0, 1, 2, 3};
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logits[r][a] > logits[r][b]; });
    const std::vector<double> shares = softmax({logits[r][order[0]], logits[r][order[1]]});
    for (size_t i = 0; i < 2; ++i) {
      const auto e = static_cast<int64_t>(order[i]);
      const Rows gate = map(times({x[r]}, weights(2, 8, 16, e * 128)), silu),
                 up = times({x[r]}, weights(3, 8, 16, e * 128));
      const Rows down = times(combine(gate, up, std::multiplies<>()), weights(4, 16, 8, e * 128));
      for (size_t j = 0; j < 8; ++j) out[r][j] += shares[i] * down[0][j];
    }
  }
  return out;
}

TEST(StablehloModules, Experts) {
  expect_near(run("moe_one_hot", {6, 8}), experts(input_rows(6, 8)), kMlp, 4);
  expect_near(run("moe_gather", {6, 8}), experts(input_rows(6, 8)), kMlp, 4);
}

// What the text says is what runs: another digit gives another output, and only there.
TEST(StablehloModules, AConstantOfTheTextChangesTheOutput) {
  std::string text = module_text("rms_norm");
  const Tensor before = run("rms_norm", {3, 8});
  const size_t weight = text.find("dense<[");
  const size_t digit = text.find('5', weight);
  ASSERT_NE(digit, std::string::npos);
  text[digit] = '7';
  const Tensor after = evaluate_or_throw(import_or_throw(text), {input({3, 8})})[0];
  int changed = 0;
  for (size_t i = 0; i < 24; ++i) changed += before.as<float>()[i] != after.as<float>()[i];
  EXPECT_GE(changed, 1);
  EXPECT_LE(changed, 3);  // one column
}

TEST(StablehloModules, DimensionNumbersMatter) {
  std::string text = module_text("attention_mha");
  const Tensor before = run("attention_mha", {1, 5, 16});
  // w_q is square: its other dimension fits as well.
  const size_t at = text.find("contracting_dims = [2] x [0]");
  text.replace(at, 28, "contracting_dims = [2] x [1]");
  EXPECT_NE(evaluate_or_throw(import_or_throw(text), {input({1, 5, 16})})[0], before);
}

// The generic form of a module is the same graph, constants and all.
TEST(StablehloModules, PrettyAndGenericFormAreOneGraph) {
  for (const std::string name : {"mlp_silu", "attention_mha", "rope_interleaved", "moe_gather"}) {
    SCOPED_TRACE(name);
    const Graph pretty = import_or_throw(module_text(name)), generic = import_or_throw(module_text(name + ".generic"));
    EXPECT_EQ(print(generic), print(pretty));
    ASSERT_EQ(generic.order(), pretty.order());
    for (const NodeId id : pretty.order()) {
      const std::optional<Constant>&a = pretty.node(id).constant, &b = generic.node(id).constant;
      EXPECT_EQ(a.has_value(), b.has_value());
      if (a && b) {
        EXPECT_TRUE(std::equal(a->data.begin(), a->data.end(), b->data.begin(), b->data.end()));
      }
    }
  }
}

// Nodes know where they stood.
TEST(StablehloModules, NodesHaveLines) {
  const std::string text = module_text("softmax");
  const Graph graph = import_or_throw(text);
  for (const NodeId id : graph.order()) {
    if (graph.node(id).op != OpKind::exp) continue;
    const auto before = text.begin() + static_cast<std::ptrdiff_t>(text.find("stablehlo.exponential"));
    EXPECT_EQ(graph.node(id).line, 1 + std::count(text.begin(), before, '\n'));
  }
}

}  // namespace
}  // namespace hone::graph::stablehlo
