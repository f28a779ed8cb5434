// The decoder layer that JAX would print (decoder_module.h): calls one after the other, with the cache that each
// returns, against a layer in double that knows no cache and computes every token from the first.
#include "tests/engine/graph/stablehlo/decoder_module.h"
#include "tests/engine/graph/stablehlo/stablehlo_testing.h"

namespace hone::graph::stablehlo {
namespace {

using namespace naive;

Rows weight_rows(const DecoderModule& m, const std::string& name) {
  for (const DecoderWeight& w : decoder_weights(m))
    if (w.name == name)
      return rows_of(w.shape.size() == 2 ? w.shape[0] : 1, w.shape.back(),
                     [&](int64_t i) { return static_cast<double>(w.at(i)); });
  ADD_FAILURE() << name;
  return {};
}

// Of all tokens at once.
Rows layer(const DecoderModule& m, const Rows& x) {
  const auto w = [&](const std::string& name) { return weight_rows(m, name); };
  const Rows h = norm(x, w("norm_1")[0], m.eps, false);
  const Rows q = rope(times(h, w("w_q")), m.heads, 0, false, m.rope_base),
             k = rope(times(h, w("w_k")), m.kv_heads, 0, false, m.rope_base);
  const Rows x2 = plus(x, times(attention(q, k, times(h, w("w_v")), m.heads, m.kv_heads), w("w_o")));
  const Rows h2 = norm(x2, w("norm_2")[0], m.eps, false);
  const Rows product = combine(map(times(h2, w("w_gate")), silu), times(h2, w("w_up")), std::multiplies<>());
  return plus(x2, times(product, w("w_down")));
}

std::vector<Tensor> first_inputs(const DecoderModule& m) {
  std::vector<Tensor> inputs{Tensor::make(DType::kF32, {1, m.tokens, m.d})};
  for (int i = 0; i < 2; ++i) inputs.push_back(Tensor::make(DType::kF32, {1, m.capacity, m.kv_heads, m.head_dim()}));
  inputs.push_back(Tensor::make(DType::kS32, {}));
  if (m.weights == WeightForm::kArgument) {
    for (const DecoderWeight& w : decoder_weights(m)) {
      inputs.push_back(Tensor::make(DType::kF32, w.shape));
      for (int64_t i = 0; i < w.elements(); ++i) inputs.back().as<float>()[static_cast<size_t>(i)] = w.at(i);
    }
  }
  return inputs;
}

// Calls until the cache is full; every row of what each returns is checked.
void expect_decodes(const Graph& graph, const DecoderModule& m) {
  const Rows x = input_rows(m.capacity, m.d), expected = layer(m, x);
  std::vector<Tensor> inputs = first_inputs(m);
  for (int64_t first = 0; first + m.tokens <= m.capacity; first += m.tokens) {
    for (int64_t i = 0; i < m.tokens * m.d; ++i)
      inputs[0].as<float>()[static_cast<size_t>(i)] = static_cast<float>(input_at(first * m.d + i));
    std::vector<Tensor> outputs = evaluate_or_throw(graph, inputs);
    SCOPED_TRACE(first);
    expect_near(outputs[0], Rows(expected.begin() + first, expected.begin() + first + m.tokens), 400, 4);
    ASSERT_EQ(outputs[3].as<int32_t>()[0], first + m.tokens);
    // Each output takes the place of the input that it aliases.
    for (size_t i = 0; i < inputs.size(); ++i)
      if (const int output = graph.value(graph.inputs()[i]).aliases_output; output >= 0)
        inputs[i] = outputs[static_cast<size_t>(output)];
  }
}

TEST(StablehloDecoder, StepsAreTheLayerAtEveryPosition) {
  for (const int64_t tokens : {1, 2, 4})
    expect_decodes(import_or_throw(decoder_module({.tokens = tokens})), {.tokens = tokens});
}

TEST(StablehloDecoder, TheIndexMayBeChecked) {
  const DecoderModule m{.tokens = 1, .checks_indices = true};
  expect_decodes(import_or_throw(decoder_module(m)), m);
}

TEST(StablehloDecoder, WeightsInEveryForm) {
  for (const WeightForm form : {WeightForm::kText, WeightForm::kHex, WeightForm::kResource, WeightForm::kArgument}) {
    SCOPED_TRACE(static_cast<int>(form));
    const DecoderModule m{.weights = form};
    expect_decodes(import_or_throw(decoder_module(m)), m);
  }
}

TEST(StablehloDecoder, ArgumentsThatResultsTakeThePlaceOf) {
  const Graph graph = import_or_throw(decoder_module({}));
  std::vector<int> aliases;
  for (const ValueId v : graph.inputs()) aliases.push_back(graph.value(v).aliases_output);
  EXPECT_THAT(aliases, testing::ElementsAre(-1, 1, 2, 3));
  // A donor takes the first result of its type that nobody has.
  std::string text = decoder_module({});
  for (size_t at; (at = text.find("tf.aliasing_output = 2 : i32")) != std::string::npos;)
    text.replace(at, 28, "jax.buffer_donor = true");
  const Graph donor = import_or_throw(text);
  EXPECT_EQ(donor.value(donor.inputs()[2]).aliases_output, 2);
}

// The file is what the generator prints: a reader can see what such a module looks like.
TEST(StablehloDecoder, TheFileIsTheGenerators) {
  EXPECT_EQ(module_text("decoder_layer"), decoder_module({.weights = WeightForm::kText}));
}

// Large weights cost no more than reading them: a layer of 512 has 5 MB in it, and the blob is decoded once.
TEST(StablehloDecoder, LargeBlobsAreImported) {
  const DecoderModule m{.d = 512, .heads = 8, .kv_heads = 2, .ff = 1408, .tokens = 4, .capacity = 16};
  const Graph graph = import_or_throw(decoder_module(m));
  int64_t bytes = 0;
  for (const NodeId id : graph.order())
    if (graph.node(id).constant) bytes += static_cast<int64_t>(graph.node(id).constant->data.size());
  int64_t expected = 0;
  for (const DecoderWeight& w : decoder_weights(m)) expected += w.elements() * 4;
  EXPECT_GE(bytes, expected);
  EXPECT_LE(bytes, expected + 1024);
}

}  // namespace
}  // namespace hone::graph::stablehlo
