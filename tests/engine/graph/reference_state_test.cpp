// Calls of a graph: sizes of inputs, what is kept between calls, and what a call that fails leaves behind.
#include <fmt/format.h>

#include "engine/graph/builder.h"
#include "tests/engine/graph/evaluate_testing.h"
#include "tests/engine/graph/graph_testing.h"
#include "tests/engine/graph/random_graph.h"

namespace hone::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One layer: 2 heads of 4 over 1 of keys and values, RoPE, attention, SwiGLU.
struct Layer {
  float scale_k = 1, scale_v = 1;
  int64_t capacity = 400;

  Graph build() const {
    Random random(11);
    const auto weights = [&](int64_t n, int64_t k, float by = 1) {
      const Tensor t = random_tensor(random, {n, k}, by * 0.5F);
      return Constant::f32({DType::kF32, {n, k}}, t.as<float>());
    };
    Builder b("layer");
    b.symbol({.name = "s", .min = 1, .max = 400});
    b.position("p", 400, Dim::symbol("s"));
    const Dim s = Dim::symbol("s"), p = Dim::symbol("p");
    const ValueId x = b.input("x", {DType::kF32, {s, 8}});
    const ValueId inv = b.constant(Constant::f32(type_of("f32[2]"), std::vector<float>{1, 0.1F}), "inv_freq");
    const ValueId n = b.constant(Constant::splat_f32(type_of("f32[8]"), 1.5F), "norm");
    const ValueId h = b.rms_norm(x, n, 1e-5);
    const ValueId q = b.reshape(b.matmul(h, b.constant(weights(8, 8))), {s, 2, 4});
    const ValueId k = b.reshape(b.matmul(h, b.constant(weights(4, 8, scale_k))), {s, 1, 4});
    const ValueId v = b.reshape(b.matmul(h, b.constant(weights(4, 8, scale_v))), {s, 1, 4});
    const ValueId keys = b.kv_append(b.state("k", {DType::kF32, {capacity, 1, 4}}), b.rope(k, inv, p, "half"));
    const ValueId values = b.kv_append(b.state("v", {DType::kF32, {capacity, 1, 4}}), v);
    const ValueId a = b.attention(b.rope(q, inv, p, "half"), keys, values, {});
    const ValueId o = b.add(OpKind::add, {x, b.matmul(b.reshape(a, {s, 8}), b.constant(weights(8, 8)))});
    const ValueId up = b.matmul(o, b.constant(weights(16, 8))), gate = b.matmul(o, b.constant(weights(16, 8)));
    b.output(b.add(OpKind::add, {o, b.matmul(b.swiglu(gate, up), b.constant(weights(8, 16)))}));
    Result<Graph> graph = b.finish();
    EXPECT_TRUE(graph.ok()) << graph.status().message();
    return std::move(*graph);
  }
};

Tensor rows_of(const Tensor& t, int64_t first, int64_t count) {
  const int64_t row = t.elements() / t.shape[0];
  return Tensor::f32({count, row},
                     t.as<float>().subspan(static_cast<size_t>(first * row), static_cast<size_t>(count * row)));
}

// Past 256 keys, where a block of the class ends.
TEST(ReferenceState, PrefillIsAsManyDecodeSteps) {
  const Graph g = Layer().build();
  Random random(12);
  const Tensor x = random_tensor(random, {270, 8});
  ReferenceState whole, steps, mixed;
  const Tensor all = outputs_of(g, {x}, &whole)[0];
  EXPECT_EQ(whole.position, 270);
  for (int64_t i = 0; i < 270; ++i) {
    SCOPED_TRACE(i);
    ASSERT_EQ(outputs_of(g, {rows_of(x, i, 1)}, &steps)[0], rows_of(all, i, 1));
  }
  ASSERT_EQ(outputs_of(g, {rows_of(x, 0, 100)}, &mixed)[0], rows_of(all, 0, 100));
  ASSERT_EQ(outputs_of(g, {rows_of(x, 100, 170)}, &mixed)[0], rows_of(all, 100, 170));
  EXPECT_EQ(steps.position, 270);
  EXPECT_EQ(steps.states, whole.states);
  EXPECT_EQ(mixed.states, whole.states);
}

TEST(ReferenceState, KeysValuesAndPositionMatter) {
  Random random(13);
  const Tensor x = random_tensor(random, {5, 8}), y = random_tensor(random, {1, 8});
  const auto decoded = [&](const Layer& layer, int64_t skip) {
    const Graph g = layer.build();
    ReferenceState state;
    outputs_of(g, {rows_of(x, skip, 5 - skip)}, &state);
    return outputs_of(g, {y}, &state)[0];
  };
  const Tensor plain = decoded({}, 0);
  EXPECT_EQ(decoded({}, 0), plain);
  EXPECT_NE(decoded({.scale_k = 2}, 0), plain);
  EXPECT_NE(decoded({.scale_v = 2}, 0), plain);
  EXPECT_NE(decoded({}, 1), plain);  // another history, another position
  // The new token's own key and value are among what it sees: alone, it gives W_o applied to its own value.
  const auto first = [&](const Layer& layer) {
    ReferenceState state;
    return outputs_of(layer.build(), {y}, &state)[0];
  };
  EXPECT_NE(first({.scale_v = 2}), first({}));
}

TEST(ReferenceState, ACallThatFailsLeavesTheStateAsItWas) {
  const Graph g = Layer{.capacity = 6}.build();
  Random random(14);
  ReferenceState state;
  outputs_of(g, {random_tensor(random, {4, 8})}, &state);
  const ReferenceState before = state;
  const std::vector<Tensor> three = {random_tensor(random, {3, 8})};
  const Result<std::vector<Tensor>> outputs = evaluate(g, three, &state);
  ASSERT_FALSE(outputs.ok());
  EXPECT_THAT(outputs.status().message(), HasSubstr("4 rows are there and 3 come: the state holds 6"));
  EXPECT_EQ(state.position, before.position);
  EXPECT_EQ(state.states, before.states);
  outputs_of(g, {random_tensor(random, {2, 8})}, &state);
  EXPECT_EQ(state.position, 6);
}

TEST(ReferenceState, AStateOfAnotherShapeIsRefused) {
  const Graph g = Layer().build();
  Random random(15);
  ReferenceState state;
  state.states["k"] = Tensor::make(DType::kF32, {3});
  const std::vector<Tensor> x = {random_tensor(random, {1, 8})};
  EXPECT_THAT(evaluate(g, x, &state).status().message(), HasSubstr("state k that was given is not f32[400, 1, 4]"));
  EXPECT_THAT(evaluate(g, x, nullptr).status().message(), HasSubstr("has a position: a state must be given"));
}

// ---- sizes ----

struct Sizes {
  std::vector<Ints> shapes;
  int64_t position;
  std::string error;  // "": s = 4, t = 32
};
class BindSymbols : public ::testing::TestWithParam<Sizes> {};
TEST_P(BindSymbols, FromShapes) {
  const Result<Graph> g = parse(R"(graph @g {
  symbol s in 1..8
  symbol t in 16..64 multiple 16
  position p in 0..100 step s
  input %x : f32[s, 2048]
  input %y : f32[p + s, 2*t + 1, ?]
})");
  ASSERT_TRUE(g.ok()) << g.status().message();
  const Result<Bindings> found = bind_symbols(*g, GetParam().shapes, GetParam().position);
  if (GetParam().error.empty()) {
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ(*found, (Bindings{{"s", 4}, {"t", 32}, {"p", 10}}));
  } else {
    EXPECT_EQ(found.status().message(), GetParam().error);
  }
}
INSTANTIATE_TEST_SUITE_P(
    All, BindSymbols,
    ::testing::Values(
        Sizes{{{4, 2048}, {14, 65, 9}}, 10, ""},
        Sizes{{{4, 2047}, {14, 65, 9}}, 10, "input x, dimension 1 is 2047 and must be 2048"},
        Sizes{{{4, 2048}, {15, 65, 9}}, 10, "input y, dimension 0 is 15 and must be p + s = 14"},
        Sizes{{{4, 2048}, {14, 66, 9}}, 10, "input y, dimension 1 is 66 and must be 2*t + 1: no t gives that"},
        Sizes{{{4, 2048}, {14, 67, 9}}, 10, "input y, dimension 1: t is 33 and must be a multiple of 16"},
        Sizes{{{4, 2048}, {14, 161, 9}}, 10, "input y, dimension 1: t is 80 and must be in 16..64"},
        Sizes{{{0, 2048}, {10, 65, 9}}, 10, "input x, dimension 0: s is 0 and must be in 1..8"},
        Sizes{{{4, 2048}, {105, 65, 9}}, 101, "the position, p: p is 101 and must be in 0..100"},
        Sizes{{{4, 2048}}, 10, "there are 1 inputs and graph g has 2"},
        Sizes{{{4}, {14, 65, 9}}, 10, "input x has 1 dimensions and must be f32[s, 2048]"},
        Sizes{{{4, 2048}, {14, 65, -1}}, 10, "input y, dimension 2 is -1 and must be in 0..2^40"}));

TEST(BindSymbols, WhatNothingSaysIsAnError) {
  const Result<Graph> g = parse("graph @g { symbol a in 0..8 symbol b in 0..8 input %x : f32[a + b] }");
  ASSERT_TRUE(g.ok()) << g.status().message();
  EXPECT_EQ(bind_symbols(*g, std::vector<Ints>{{5}}, 0).status().message(),
            "input x, dimension 0 is 5, and nothing says which symbols of a + b make it so");
}

TEST(BindSymbols, ADifferenceBeyond64BitsIsAnError) {
  const Result<Graph> g = parse(
      "graph @g { symbol s in 0..8 symbol t in 0..8 input %x : f32[t] input %y : f32[s - 1152921504606846976*t] }");
  ASSERT_TRUE(g.ok()) << g.status().message();
  EXPECT_EQ(bind_symbols(*g, std::vector<Ints>{{8}, {5}}, 0).status().message(),
            "input y, dimension 0 is 5 and must be s - 1152921504606846976*t: no s gives that");
}

TEST(Evaluate, InputsAreChecked) {
  const std::string body = "input %x : f32[s]\n%y = neg(%x) : f32[s]";
  EXPECT_EQ(error_of(body, "%y", {s32({2}, {1, 2})}), "input x is s32 and must be f32");
  Tensor truth = Tensor::make(DType::kU8, {3});
  truth.as<uint8_t>()[1] = 1;
  truth.as<uint8_t>()[2] = 2;
  EXPECT_EQ(error_of("input %m : u8[3]\n%y = logical_not(%m) : u8[3]", "%y", {truth}),
            "input m: element 2 is 2 and must be 0 or 1");
  for (size_t size = 1; size < 20; ++size) {
    std::vector<std::byte> bits(size, std::byte{1});
    EXPECT_TRUE(check_truth_values("m", bits).ok());
    for (size_t i = 0; i < size; ++i) {
      bits[i] = std::byte{128};
      EXPECT_EQ(check_truth_values("m", bits).message(),
                fmt::format("input m: element {} is 128 and must be 0 or 1", i));
      bits[i] = std::byte{0};
    }
  }
  Tensor cut = f32({2}, {1, 2});
  cut.data.resize(4);
  EXPECT_EQ(error_of(body, "%y", {cut}), "input x has 4 bytes, which is not what its shape says");
  Tensor huge;
  huge.shape = {int64_t{1} << 40, int64_t{1} << 40, 0};
  EXPECT_THAT(error_of("input %x : f32[?, ?, ?]", "%x", {huge}), HasSubstr("more than 2^40 elements"));
}

TEST(Evaluate, WhatSymbolsLeftOpenIsCheckedByTheCall) {
  const std::string two = "symbol t in 0..64\ninput %x : f32[s]\ninput %z : f32[t]\n";
  EXPECT_EQ(error_of(two + "%y = add(%x, %z) : f32[s]", "%y", {f32({2}, {1, 2}), f32({3}, {1, 2, 3})}),
            "y: add: operand 1 is f32[3]: dimension 0 is 3 and must be 2, as in operand 0");
  EXPECT_THAT(
      error_of(two + "%y = slice(%x) {start = [0], limit = [4]} : f32[4]", "%y", {f32({2}, {1, 2}), f32({1}, {1})}),
      HasSubstr("limit is beyond the dimension"));
  EXPECT_EQ(error_of(two + "%y = neg(%x) : f32[t]", "%y", {f32({2}, {1, 2}), f32({1}, {1})}),
            "y: dimension 0 of result 0 is 2 and must be t = 1");
  EXPECT_THAT(error_of(two + "%y = slice(%x) {start = [3], limit = [-1]} : f32[s - 3]", "%y",
                       {f32({2}, {1, 2}), f32({1}, {1})}),
              HasSubstr("has a dimension of s - 3 = -1"));
}

TEST(Evaluate, ASymbolMayBeTheSizeOfAResultAlone) {
  const std::string body = "symbol d in 0..64\ninput %x : f32[s, 4]\n%y = reshape(%x) : f32[d, 2]\n";
  const Tensor x = Tensor::make(DType::kF32, {3, 4});
  EXPECT_THAT(run(body + "%z = add(%y, %y) : f32[d, 2]", "%z", {x}).shape, ElementsAre(6, 2));
  EXPECT_EQ(error_of(body + "%z = reshape(%x) : f32[4, d]", "%z", {x}),
            "z: reshape: operand 0 is f32[3, 4] and the result f32[4, 6]: not as many elements");
}

TEST(Evaluate, InputsAndConstantsMayBeOutputs) {
  const Result<Graph> g = graph_of("input %x : f32[2]\n%c = constant splat(3) : f32[2]", "%x, %c, %x");
  ASSERT_TRUE(g.ok());
  const std::vector<Tensor> y = outputs_of(*g, {f32({2}, {1, 2})});
  EXPECT_THAT(floats(y[0]), ElementsAre(1, 2));
  EXPECT_THAT(floats(y[1]), ElementsAre(3, 3));
  EXPECT_EQ(y[2], y[0]);
}

// Whatever is legal is evaluated or refused in one line, and results have the types that inference said.
TEST(Evaluate, RandomGraphs) {
  int evaluated = 0;
  for (uint64_t seed = 1000; seed < 1150; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const Graph g = random_graph(random, 20, true);
    Bindings sizes{{"s", random.between(1, 2)}, {"t", 2}, {"p", 0}};
    std::vector<Tensor> inputs;
    std::vector<Ints> shapes;
    for (const ValueId v : g.inputs()) {
      Ints shape;
      for (const Dim& d : g.value(v).type.dims) shape.push_back(*d.evaluate(sizes));
      shapes.push_back(shape);
      Tensor t = Tensor::make(g.value(v).type.dtype, shape);
      if (t.dtype == DType::kF32)
        for (float& f : t.as<float>()) f = random.uniform(-2, 2);
      inputs.push_back(std::move(t));
    }
    ReferenceState state;
    const Result<std::vector<Tensor>> outputs = evaluate(g, inputs, &state);
    if (!outputs.ok()) {
      EXPECT_EQ(outputs.status().message().find('\n'), std::string::npos);
      EXPECT_EQ(state.position, 0);
      continue;
    }
    ++evaluated;
    const Result<Bindings> bound = bind_symbols(g, shapes, 0);
    ASSERT_TRUE(bound.ok()) << bound.status().message();
    for (size_t i = 0; i < outputs->size(); ++i) {
      const TensorType& type = g.value(g.outputs()[i]).type;
      ASSERT_EQ((*outputs)[i].shape.size(), type.dims.size());
      for (size_t axis = 0; axis < type.dims.size(); ++axis) {
        const Result<int64_t> size = type.dims[axis].evaluate(*bound);
        if (!size.ok()) continue;  // no input says it
        ASSERT_EQ((*outputs)[i].shape[axis], *size);
      }
    }
    ReferenceState second;
    ASSERT_EQ(*evaluate(g, inputs, &second), *outputs);  // bytes, so NaN is NaN
  }
  EXPECT_GT(evaluated, 40);
}

}  // namespace
}  // namespace hone::graph
