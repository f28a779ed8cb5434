// Graphs that are no decoder compile as what they are: every op that has a kernel, against the eager reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/half.h"
#include "engine/executable/plan.h"
#include "engine/passes/pass.h"
#include "tests/engine/executable/decoder_graphs.h"

namespace hone::executable {
namespace {

using graph::Attributes;
using graph::Builder;
using graph::Constant;
using graph::Dim;
using graph::OpKind;
using graph::Shape;
using graph::Tensor;
using graph::ValueId;
using testing::HasSubstr;
using Ints = std::vector<int64_t>;

const Dim s = Dim::symbol("s");

class ExecutableOps : public testing::Test {
 protected:
  ExecutableOps() : b("g") { b.symbol({.name = "s", .min = 1, .max = 64}); }

  ValueId input(const char* name, Shape dims, DType dtype = DType::kF32) {
    const ValueId v = b.input(name, {dtype, dims});
    std::vector<int64_t> shape;
    for (const Dim& d : dims) shape.push_back(d.evaluate({{"s", rows}}).value());
    Tensor t = Tensor::make(dtype, shape);
    if (dtype == DType::kF32) {
      const std::vector<float> values = random_floats(static_cast<size_t>(t.elements()), 100 + inputs.size(), 2);
      t = Tensor::f32(shape, values);
    }
    inputs.push_back(std::move(t));
    return v;
  }
  ValueId weights(Shape dims, uint64_t seed = 3) {
    const graph::TensorType type{DType::kF32, std::move(dims)};
    return b.constant(Constant::f32(type, random_floats(static_cast<size_t>(type.elements()), seed, 1)));
  }

  // The values of all outputs by the plan, compared with the reference's.
  void expect_equal() {
    Result<graph::Graph> g = b.finish();
    ASSERT_TRUE(g.ok()) << g.status().message();
    const Result<std::vector<Tensor>> want = graph::evaluate(*g, inputs, nullptr);
    ASSERT_TRUE(want.ok()) << want.status().message();
    passes::Compilation c;
    c.graph = *g;
    const auto passed = passes::run_passes(c);
    ASSERT_TRUE(passed.ok()) << passed.status().message();
    const Result<Engine> engine = Engine::create({.use_database = false});
    ASSERT_TRUE(engine.ok());
    Result<ExecutablePlan> plan = ExecutablePlan::create(*engine, std::move(c));
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    Result<Session> session = plan->session();
    ASSERT_TRUE(session.ok());
    std::vector<Tensor> got = *want;
    std::vector<InputTensor> in;
    std::vector<OutputTensor> out;
    for (const Tensor& t : inputs) in.push_back({t.data.data(), t.shape});
    for (Tensor& t : got) {
      std::fill(t.data.begin(), t.data.end(), std::byte{0xFF});
      out.push_back({t.data.data(), static_cast<int64_t>(t.data.size())});
    }
    const Status ran = session->run(in, out);
    ASSERT_TRUE(ran.ok()) << ran.message();
    for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], (*want)[i]) << "output " << i;
  }

  int64_t rows = 5;
  Builder b;
  std::vector<Tensor> inputs;
};

TEST_F(ExecutableOps, ElementwiseOfEveryKind) {
  const ValueId x = input("x", {s, 19}), y = input("y", {s, 19});
  for (const OpKind op :
       {OpKind::neg, OpKind::abs, OpKind::exp, OpKind::tanh, OpKind::erf, OpKind::logistic, OpKind::silu})
    b.output(b.add(op, {x}));
  const ValueId positive = b.add(OpKind::abs, {x});
  for (const OpKind op : {OpKind::log, OpKind::sqrt, OpKind::rsqrt}) b.output(b.add(op, {positive}));
  for (const OpKind op : {OpKind::add, OpKind::sub, OpKind::mul, OpKind::div, OpKind::max, OpKind::min, OpKind::swiglu})
    b.output(b.add(op, {x, y}));
  for (const char* approximate : {"tanh", "erf"})
    b.output(b.add(OpKind::gelu, {x}, {{"approximate", std::string(approximate)}}));
  expect_equal();
}

TEST_F(ExecutableOps, MasksStayInsideAndBetweenLaunches) {
  const ValueId x = input("x", {s, 19}), y = input("y", {s, 19});
  for (const char* direction : {"EQ", "NE", "LT", "LE", "GT", "GE"}) {
    const ValueId m = b.add(OpKind::compare, {x, y}, {{"direction", std::string(direction)}});
    b.output(b.add(OpKind::select, {m, x, y}));
  }
  const ValueId m = b.add(OpKind::compare, {x, y}, {{"direction", std::string("LT")}});
  const ValueId n = b.add(OpKind::compare, {x, b.add(OpKind::neg, {y})}, {{"direction", std::string("GT")}});
  const ValueId both = b.add(OpKind::logical_and, {m, b.add(OpKind::logical_not, {n})});
  const ValueId turned = b.add(OpKind::transpose, {both}, {{"perm", Ints{1, 0}}});
  const ValueId xt = b.add(OpKind::transpose, {x}, {{"perm", Ints{1, 0}}});
  b.output(b.add(OpKind::select, {turned, xt, b.add(OpKind::exp, {xt})}));
  b.output(b.add_typed(OpKind::convert, {b.add(OpKind::logical_or, {m, n})}, {}, {DType::kF32, {s, 19}}));
  expect_equal();
}

TEST_F(ExecutableOps, IntegersAndConversions) {
  const ValueId x = input("x", {s, 19});
  const graph::TensorType whole{DType::kS32, {s, 19}}, number{DType::kF32, {s, 19}}, truth{DType::kU8, {s, 19}};
  const ValueId row = b.add_typed(OpKind::iota, {}, {{"axis", int64_t{0}}}, whole);
  const ValueId column = b.add_typed(OpKind::iota, {}, {{"axis", int64_t{1}}}, whole);
  const ValueId rounded = b.add_typed(OpKind::convert, {x}, {}, whole);
  const ValueId sum = b.add(OpKind::sub, {b.add(OpKind::add, {row, rounded}), column});
  b.output(sum);
  b.output(b.add_typed(OpKind::convert, {sum}, {}, number));
  const ValueId causal = b.add(OpKind::compare, {column, row}, {{"direction", std::string("LE")}});
  b.output(b.add(OpKind::select, {causal, x, b.add(OpKind::neg, {x})}));
  b.output(b.add(OpKind::select, {causal, row, rounded}));
  const ValueId odd = b.add_typed(OpKind::convert, {sum}, {}, truth);
  const ValueId same = b.add(OpKind::compare, {causal, odd}, {{"direction", std::string("EQ")}});
  b.output(b.add_typed(OpKind::convert, {same}, {}, whole));
  b.output(b.add_typed(OpKind::convert, {b.add_typed(OpKind::convert, {x}, {}, truth)}, {}, number));
  expect_equal();
}

TEST_F(ExecutableOps, BroadcastsAndRowValues) {
  const ValueId x = input("x", {s, 19});
  const ValueId row = weights({19});
  b.output(b.add(OpKind::add, {x, b.add_typed(OpKind::broadcast, {row}, {{"dims", Ints{1}}}, {DType::kF32, {s, 19}})}));
  const ValueId most = b.add(OpKind::reduce, {x}, {{"kind", std::string("max")}, {"axes", Ints{1}}});
  const ValueId wide = b.add_typed(OpKind::broadcast, {most}, {{"dims", Ints{0}}}, {DType::kF32, {s, 19}});
  b.output(b.add(OpKind::sub, {x, wide}));
  b.output(most);
  expect_equal();
}

TEST_F(ExecutableOps, SumsAlongEveryAxis) {
  const ValueId x = input("x", {s, 6, 19});
  for (const char* kind : {"sum", "max", "min"})
    for (const Ints& axes : {Ints{2}, Ints{1}, Ints{0}, Ints{1, 2}, Ints{0, 1}})
      b.output(b.add(OpKind::reduce, {x}, {{"kind", std::string(kind)}, {"axes", axes}}));
  expect_equal();
}

TEST_F(ExecutableOps, NormsAndSoftmax) {
  const ValueId x = input("x", {s, 4, 19});
  const ValueId w = weights({19}), bias = weights({19}, 4);
  b.output(b.rms_norm(x, w, 1e-5));
  b.output(b.layer_norm(x, w, bias, 1e-6));
  b.output(b.add(OpKind::rms_scale, {x}, {{"eps", 1e-5}}));
  b.output(b.softmax(x, 0.25));
  b.output(b.softmax(b.add(OpKind::transpose, {x}, {{"perm", Ints{1, 2, 0}}})));  // over a symbol
  expect_equal();
}

// Factors of rows that the call computes, of rows in two dimensions, and that lie apart.
TEST_F(ExecutableOps, MatmulsScaleRows) {
  const ValueId x = input("x", {s, 4, 19}), factors = input("factors", {s, 4, 3});
  const auto scaled = [&](ValueId by, const char* after, std::vector<ValueId> more) {
    std::vector<ValueId> operands = {x, weights({32, 19}), by};
    operands.insert(operands.end(), more.begin(), more.end());
    b.output(b.add(OpKind::matmul, operands,
                   {{"layout", std::string("nt")}, {"epilogue", "*row_scale" + std::string(after)}}));
  };
  scaled(b.add(OpKind::rms_scale, {x}, {{"eps", 1e-5}}), "+swiglu", {});
  const ValueId column = b.add(OpKind::slice, {factors}, {{"start", Ints{0, 0, 1}}, {"limit", Ints{-1, 4, 2}}});
  scaled(b.reshape(column, {s, 4}), "+bias+residual", {weights({32}), input("residual", {s, 4, 32})});
  expect_equal();
}

TEST_F(ExecutableOps, ShapesOnly) {
  const ValueId x = input("x", {s, 4, 6});
  b.output(b.add(OpKind::transpose, {x}, {{"perm", Ints{2, 0, 1}}}));
  b.output(b.reshape(x, {s * Dim(24)}));
  b.output(b.reshape(b.add(OpKind::transpose, {x}, {{"perm", Ints{0, 2, 1}}}), {s, 24}));
  b.output(b.add(OpKind::slice, {x}, {{"start", Ints{0, 1, 0}}, {"limit", Ints{-1, 3, 6}}, {"stride", Ints{1, 1, 2}}}));
  b.output(b.add(OpKind::concatenate, {x, b.add(OpKind::exp, {x})}, {{"axis", int64_t{2}}}));
  b.output(b.add(OpKind::concatenate, {x, x}, {{"axis", int64_t{0}}}));
  b.output(b.add_typed(OpKind::broadcast, {x}, {{"dims", Ints{1, 2, 3}}}, {DType::kF32, {2, s, 4, 6}}));
  expect_equal();
}

TEST_F(ExecutableOps, MatmulsOfEveryOrder) {
  const ValueId x = input("x", {s, 3, 8}), y = input("y", {8, 3, 7}), z = input("z", {3, 7, 8});
  const auto dot = [&](ValueId l, ValueId r, Ints lb, Ints rb, Ints lc, Ints rc) {
    b.output(b.add(OpKind::dot_general, {l, r},
                   {{"lhs_batch", lb}, {"rhs_batch", rb}, {"lhs_contract", lc}, {"rhs_contract", rc}}));
  };
  dot(x, y, {1}, {1}, {2}, {0});
  dot(x, z, {1}, {0}, {2}, {2});
  dot(x, z, {}, {}, {2}, {2});
  dot(x, y, {}, {}, {1, 2}, {1, 0});
  b.output(b.matmul(x, weights({5, 8})));
  b.output(b.add(OpKind::matmul, {x, weights({8, 5})}, {{"layout", std::string("nn")}}));
  expect_equal();
}

TEST_F(ExecutableOps, EmbeddingsAndIota) {
  const ValueId ids = input("ids", {s}, DType::kS32);
  inputs[0] = Tensor::s32({5}, std::vector<int32_t>{3, 0, 9, 9, 1});
  b.output(b.gather(weights({10, 24}), ids));
  const ValueId count = b.add_typed(OpKind::iota, {}, {{"axis", int64_t{1}}}, {DType::kF32, {s, 24}});
  b.output(b.add(OpKind::mul, {b.gather(weights({10, 24}, 5), ids), count}));
  expect_equal();
}

TEST_F(ExecutableOps, EmbeddingsOf16BitsAreReadWhereTheyLie) {
  const ValueId ids = input("ids", {s}, DType::kS32);
  inputs[0] = Tensor::s32({5}, std::vector<int32_t>{3, 0, 9, 9, 1});
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    std::vector<uint16_t> bits;
    for (const float v : random_floats(10 * 37, 8, 2))
      bits.push_back(dtype == DType::kBf16 ? f32_to_bf16(v) : f32_to_f16(v));
    b.output(b.gather(b.constant(Constant::copy_of({dtype, {10, 37}}, std::as_bytes(std::span(bits)))), ids));
  }
  expect_equal();
}

// Rows of a value of this call: how many there are is known in the call only.
TEST_F(ExecutableOps, ChosenRowsOfWhatIsComputed) {
  const ValueId x = input("x", {s, 24}), y = input("y", {s, 24});
  const ValueId chosen = input("chosen", {3}, DType::kS32);
  inputs[2] = Tensor::s32({3}, std::vector<int32_t>{4, 0, 4});
  b.output(b.gather(b.add(OpKind::add, {x, y}), chosen));
  expect_equal();
}

TEST_F(ExecutableOps, TopKAndRope) {
  const ValueId x = input("x", {s, 33});
  const auto [values, indices] = b.top_k(x, 4);
  b.output(values);
  b.output(indices);
  const ValueId heads = input("heads", {s, 3, 8});
  const ValueId positions = input("positions", {s}, DType::kS32);
  inputs[2] = Tensor::s32({5}, std::vector<int32_t>{7, 0, 100, 100, 3});
  const ValueId f = weights({4});
  b.output(b.rope(heads, f, 2, "half"));
  b.output(b.add(OpKind::rope, {heads, f, positions}, {{"style", std::string("interleaved")}}));
  expect_equal();
}

TEST_F(ExecutableOps, AttentionWithoutACache) {
  const ValueId q = input("q", {s, 6, 16}), k = input("k", {s, 2, 16}), v = input("v", {s, 2, 16});
  b.output(b.attention(q, k, v, {.causal = true}));
  b.output(b.attention(q, k, v, {.causal = false, .scale = 0.3}));
  const ValueId mask = input("mask", {s, s});
  b.output(b.add(OpKind::attention, {q, k, v, mask}, {{"causal", false}}));
  const ValueId qb = input("qb", {2, s, 4, 16}), kb = input("kb", {2, s, 4, 16});
  b.output(b.attention(qb, kb, kb, {.causal = true, .window = 3}));
  expect_equal();
}

TEST_F(ExecutableOps, MasksThatAreComputedHideKeys) {
  const ValueId q = input("q", {s, 4, 16}), k = input("k", {s, 2, 16}), v = input("v", {s, 2, 16});
  const graph::TensorType square{DType::kS32, {s, s}};
  const ValueId row = b.add_typed(OpKind::iota, {}, {{"axis", int64_t{0}}}, square);
  const ValueId column = b.add_typed(OpKind::iota, {}, {{"axis", int64_t{1}}}, square);
  const ValueId seen = b.add(OpKind::compare, {column, row}, {{"direction", std::string("LE")}});
  b.output(b.add(OpKind::attention, {q, k, v, seen}, {{"causal", false}}));
  expect_equal();
}

// What prepared code reads in order is copied where it does not lie so.
TEST_F(ExecutableOps, OperandsThatLieAcross) {
  const auto turned = [&](ValueId x, Ints perm) { return b.add(OpKind::transpose, {x}, {{"perm", std::move(perm)}}); };
  const ValueId table = input("table", {24, 10}), ids = input("ids", {s, 2}, DType::kS32);
  inputs[1] = Tensor::s32({5, 2}, std::vector<int32_t>{3, 8, 0, 8, 9, 8, 9, 8, 1, 8});
  const ValueId firsts = b.add(OpKind::slice, {ids}, {{"start", Ints{0, 0}}, {"limit", Ints{-1, 1}}});
  const ValueId every_other = b.reshape(firsts, {s});
  b.output(b.gather(turned(table, {1, 0}), every_other));
  const ValueId heads = input("heads", {8, s, 3});
  b.output(
      b.add(OpKind::rope, {turned(heads, {1, 2, 0}), weights({4}), every_other}, {{"style", std::string("half")}}));
  const ValueId x = input("x", {16, s});
  b.output(b.matmul(turned(x, {1, 0}), weights({5, 16})));
  const auto [values, indices] = b.top_k(turned(x, {1, 0}), 3);
  b.output(values);
  expect_equal();
}

// A group of rows must not take up what is copied only after it.
TEST_F(ExecutableOps, CopiesComeBeforeWhoReadsThem) {
  const ValueId x = input("x", {s, 4, 6}), y = input("y", {s, 24});
  const ValueId e = b.add(OpKind::exp, {y});
  const ValueId across = b.reshape(b.add(OpKind::transpose, {x}, {{"perm", Ints{0, 2, 1}}}), {s, 24});
  b.output(b.add(OpKind::mul, {e, across}));
  expect_equal();
}

// ---- where shapes alone do not say what is meant ----

TEST_F(ExecutableOps, SquaresOfRowsAndColumns) {
  const ValueId x = input("x", {19, 19});
  const ValueId w = weights({19}), bias = weights({19}, 4);
  b.output(b.rms_norm(x, w, 1e-5));
  b.output(b.layer_norm(x, w, bias, 1e-6));
  const ValueId y = b.add(OpKind::exp, {x});
  b.output(b.add(OpKind::add, {y, b.add(OpKind::transpose, {y}, {{"perm", Ints{1, 0}}})}));
  expect_equal();
}

TEST_F(ExecutableOps, SumsOfSums) {
  const ValueId x = input("x", {s, 4, 19});
  const auto sum = [&](ValueId v, int64_t axis) {
    return b.add(OpKind::reduce, {v}, {{"kind", std::string("sum")}, {"axes", Ints{axis}}});
  };
  const ValueId rows_sum = sum(x, 2);
  const ValueId heads_sum = sum(rows_sum, 1);
  b.output(sum(heads_sum, 0));
  b.output(b.softmax(rows_sum));
  expect_equal();
}

TEST_F(ExecutableOps, MasksOfBytesInEveryOrder) {
  const ValueId q = input("q", {s, 4, 16}), k = input("k", {s, 2, 16}), v = input("v", {s, 2, 16});
  const ValueId turned = input("turned", {s, s}, DType::kU8), one = input("one", {s, 1}, DType::kU8);
  const auto set = [](Tensor& t, size_t every) {
    for (size_t i = 0; i < t.data.size(); ++i) t.data[i] = std::byte{static_cast<unsigned char>(i % every != 1)};
  };
  set(inputs[3], 3);
  set(inputs[4], 4);
  const auto attend = [&](ValueId mask) { b.output(b.add(OpKind::attention, {q, k, v, mask}, {{"causal", false}})); };
  attend(turned);
  attend(b.add(OpKind::transpose, {turned}, {{"perm", Ints{1, 0}}}));
  attend(b.add_typed(OpKind::broadcast, {one}, {{"dims", Ints{0, 1}}}, {DType::kU8, {s, s}}));
  const ValueId chosen =
      b.add_typed(OpKind::broadcast, {b.reshape(one, {s})}, {{"dims", Ints{0}}}, {DType::kU8, {s, 19}});
  const ValueId x = input("x", {s, 19});
  b.output(b.add(OpKind::select, {chosen, x, b.add(OpKind::neg, {x})}));
  expect_equal();
}

TEST_F(ExecutableOps, EpiloguesOfOperandsThatLieDifferently) {
  const ValueId x = b.add(OpKind::exp, {input("x", {s, 128})});
  const ValueId left = b.add(OpKind::slice, {x}, {{"start", Ints{0, 0}}, {"limit", Ints{-1, 64}}});
  const ValueId dense = b.add(OpKind::exp, {input("dense", {s, 64})});
  const auto gated = [&](ValueId a, ValueId gate, ValueId residual) {
    const ValueId y = b.add(OpKind::matmul, {a, weights({64, 64}), gate, residual},
                            {{"layout", std::string("nt")}, {"epilogue", std::string("*gate+residual")}});
    b.output(b.softmax(y));
    b.output(y);
  };
  gated(dense, left, dense);
  gated(left, dense, left);
  gated(left, left, left);
  expect_equal();
}

TEST_F(ExecutableOps, RopeOfHeadsThatShareMemory) {
  const ValueId k = b.add(OpKind::exp, {input("k", {s, 1, 8})});
  const ValueId all = b.add_typed(OpKind::broadcast, {k}, {{"dims", Ints{0, 1, 2}}}, {DType::kF32, {s, 4, 8}});
  b.output(b.softmax(b.rope(all, weights({4}), 1, "half")));
  b.output(b.attention(all,
                       b.add_typed(OpKind::broadcast, {b.add(OpKind::exp, {input("one", {1, 2, 8})})},
                                   {{"dims", Ints{0, 1, 2}}}, {DType::kF32, {s, 2, 8}}),
                       input("v", {s, 2, 8}), {.causal = true}));
  expect_equal();
}

TEST_F(ExecutableOps, OneConstantInTwoRoles) {
  const ValueId w = weights({16, 16});
  b.output(b.matmul(w, w));
  expect_equal();
}

TEST_F(ExecutableOps, LongChains) {
  ValueId x = input("x", {s, 19});
  for (int i = 0; i < 150; ++i) x = b.add(i % 2 ? OpKind::tanh : OpKind::neg, {x});
  b.output(x);
  expect_equal();
}

TEST_F(ExecutableOps, SumsOfNothing) {
  b = Builder("g");
  b.symbol({.name = "s", .min = 0, .max = 64});
  rows = 0;
  const ValueId x = input("x", {4, s});
  for (const char* kind : {"sum", "max", "min"})
    b.output(b.add(OpKind::reduce, {x}, {{"kind", std::string(kind)}, {"axes", Ints{1}}}));
  expect_equal();
}

// Of a graph that is refused, at whatever step: the message.
std::string refusal(Builder& b) {
  Result<graph::Graph> g = b.finish();
  if (!g.ok()) return g.status().message();
  passes::Compilation c;
  c.graph = *std::move(g);
  if (const auto passed = passes::run_passes(c); !passed.ok()) return passed.status().message();
  return ExecutablePlan::create(*Engine::create({.use_database = false}), std::move(c)).status().message();
}

TEST_F(ExecutableOps, WhatCannotBeHadIsNamed) {
  const ValueId x = b.input("x", {DType::kF32, {s, 4, 8}});
  b.output(b.add(OpKind::compare, {x, x}, {{"direction", std::string("LT")}}, "truth"));
  EXPECT_THAT(refusal(b), HasSubstr("output truth is u8"));
  b = Builder("g");
  b.symbol({.name = "s", .min = 1, .max = 64});
  b.output(b.rope(b.input("x", {DType::kF32, {s, 4, 8}}), weights({4}), s - Dim(5), "half", "turned"));
  EXPECT_THAT(refusal(b), HasSubstr("rope turned: its offset s - 5 can be -4"));
}

TEST_F(ExecutableOps, AnIndexOutOfRangeIsNamed) {
  const ValueId ids = b.input("ids", {DType::kS32, {s}});
  b.output(b.gather(weights({10, 24}), ids, "embedding"));
  Result<graph::Graph> g = b.finish();
  ASSERT_TRUE(g.ok());
  passes::Compilation c;
  c.graph = *std::move(g);
  ASSERT_TRUE(passes::run_passes(c).ok());
  Result<ExecutablePlan> plan = ExecutablePlan::create(*Engine::create({.use_database = false}), std::move(c));
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  Result<Session> session = plan->session();
  const std::vector<int32_t> indices = {1, 10};
  const Ints shape = {2};
  std::vector<float> y(48);
  const InputTensor in{indices.data(), shape};
  const OutputTensor out{y.data(), 192};
  EXPECT_THAT(session->run({&in, 1}, {&out, 1}).message(),
              HasSubstr("embedding: index 1 of the table is 10, expected 0..9"));
}

}  // namespace
}  // namespace hone::executable
