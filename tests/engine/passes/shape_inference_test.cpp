// What unknown dimensions become, which guards a call is checked for, and how contradictions read.
#include "engine/passes/shape_inference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/graph/builder.h"
#include "engine/graph/verify.h"

namespace hone::passes {
namespace {

using graph::Builder;
using graph::Dim;
using graph::OpKind;
using graph::ValueId;
using testing::Contains;
using testing::Field;
using testing::HasSubstr;

const Dim kUnknown = Dim::unknown();

Compilation compilation(Builder& b) {
  Result<graph::Graph> g = b.finish();
  EXPECT_TRUE(g.ok()) << g.status().message();
  Compilation c;
  if (g.ok()) c.graph = *std::move(g);
  return c;
}

std::string type_of(const Compilation& c, std::string_view value) {
  return to_string(c.graph.value(*c.graph.find_value(value)).type);
}

const Guard* find(const Compilation& c, std::string_view what, Guard::Kind kind) {
  for (const Guard& g : c.guards)
    if (g.what == what && g.kind == kind) return &g;
  return nullptr;
}

TEST(PassesShapeInference, WhatCallersChooseBecomesASymbol) {
  Builder b("g");
  const ValueId x = b.input("x", {DType::kF32, {kUnknown, 8}});
  const ValueId w = b.input("w", {DType::kF32, {4, 8}});
  b.output(b.matmul(x, w, "y"));
  Compilation c = compilation(b);
  ASSERT_TRUE(shape_inference(c).ok());
  EXPECT_EQ(type_of(c, "x"), "f32[d0, 8]");
  EXPECT_EQ(type_of(c, "y"), "f32[d0, 4]");
  ASSERT_NE(c.graph.find_symbol("d0"), nullptr);
  EXPECT_NE(find(c, "d0", Guard::Kind::kAtLeast), nullptr);
  EXPECT_TRUE(verify(c.graph).ok());
}

TEST(PassesShapeInference, OpsSayWhatIsEqual) {
  Builder b("g");
  b.symbol({.name = "s", .min = 1, .max = 64});
  const ValueId x = b.input("x", {DType::kF32, {Dim::symbol("s"), kUnknown}});
  const ValueId y = b.input("y", {DType::kF32, {kUnknown, 16}});
  const ValueId w = b.input("w", {DType::kF32, {kUnknown}});
  b.output(b.rms_norm(b.add(OpKind::add, {x, y}, {}, "sum"), w, 1e-5, "norm"));
  Compilation c = compilation(b);
  ASSERT_TRUE(shape_inference(c).ok());
  EXPECT_EQ(type_of(c, "x"), "f32[s, 16]");
  EXPECT_EQ(type_of(c, "y"), "f32[s, 16]");
  EXPECT_EQ(type_of(c, "w"), "f32[16]");
  EXPECT_EQ(c.graph.symbols.size(), 1u);
}

TEST(PassesShapeInference, ReshapesAreSolvedForTheirOneUnknown) {
  Builder b("g");
  b.symbol({.name = "s"});
  const ValueId x = b.input("x", {DType::kF32, {Dim::symbol("s"), 2048}});
  b.output(b.add_typed(OpKind::reshape, {x}, {}, {DType::kF32, {kUnknown, 32, 64}}, "heads"));
  const ValueId y = b.input("y", {DType::kF32, {kUnknown}});
  b.output(b.add_typed(OpKind::reshape, {y}, {}, {DType::kF32, {Dim::symbol("s"), 4}}, "rows"));
  Compilation c = compilation(b);
  ASSERT_TRUE(shape_inference(c).ok());
  EXPECT_EQ(type_of(c, "heads"), "f32[s, 32, 64]");
  EXPECT_EQ(type_of(c, "y"), "f32[4*s]");
}

TEST(PassesShapeInference, ASymbolThatMustBeASumIsReplacedAndKeepsItsBounds) {
  Builder b("g");
  b.symbol({.name = "s", .min = 1, .max = 8});
  b.position("p", 32, Dim::symbol("s"));
  b.symbol({.name = "t", .min = 1, .max = 20});
  const Dim s = Dim::symbol("s");
  const ValueId q = b.input("q", {DType::kF32, {s, 2, 4}}), rows = b.input("rows", {DType::kF32, {s, 2, 4}});
  const ValueId mask = b.input("mask", {DType::kF32, {s, Dim::symbol("t")}});
  const ValueId k = b.kv_append(b.state("k0", {DType::kF32, {24, 2, 4}}), rows, "k");
  const ValueId v = b.kv_append(b.state("v0", {DType::kF32, {24, 2, 4}}), rows, "v");
  b.output(b.add(OpKind::attention, {q, k, v, mask}, {{"causal", false}}, "att"));
  Compilation c = compilation(b);
  ASSERT_TRUE(shape_inference(c).ok());
  EXPECT_EQ(type_of(c, "mask"), "f32[s, p + s]");
  EXPECT_EQ(c.graph.find_symbol("t"), nullptr);
  const Guard* t = find(c, "t = p + s", Guard::Kind::kAtMost);
  ASSERT_NE(t, nullptr);
  EXPECT_EQ(to_string(t->right), "20");
  const Guard* state = find(c, "rows of state k0", Guard::Kind::kAtMost);
  ASSERT_NE(state, nullptr);
  EXPECT_EQ(to_string(state->left), "p + s");
  EXPECT_EQ(state->rule, "state k0 holds 24 rows");
  const Guard* position = find(c, "tokens after this call", Guard::Kind::kAtMost);
  ASSERT_NE(position, nullptr);
  EXPECT_EQ(to_string(position->right), "32");
}

TEST(PassesShapeInference, MultiplesAndReadsAreGuarded) {
  Builder b("g");
  b.symbol({.name = "s", .min = 2, .max = 64, .multiple_of = 4});
  const ValueId x = b.input("x", {DType::kF32, {Dim::symbol("s")}});
  b.output(b.add(OpKind::slice, {x}, {{"start", std::vector<int64_t>{2}}, {"limit", std::vector<int64_t>{10}}}, "cut"));
  Compilation c = compilation(b);
  ASSERT_TRUE(shape_inference(c).ok());
  EXPECT_NE(find(c, "s", Guard::Kind::kMultiple), nullptr);
  const Guard* read = find(c, "%x, dimension 0", Guard::Kind::kAtLeast);
  ASSERT_NE(read, nullptr);
  EXPECT_EQ(to_string(read->right), "10");
}

TEST(PassesShapeInference, AContradictionNamesValueDimensionAndSizes) {
  Builder b("g");
  const ValueId x = b.input("x", {DType::kF32, {kUnknown}});
  const ValueId y = b.input("y", {DType::kF32, {4}}), z = b.input("z", {DType::kF32, {5}});
  b.output(b.add(OpKind::add, {x, y}, {}, "one"));
  b.output(b.add(OpKind::add, {x, z}, {}, "two"));
  Compilation c = compilation(b);
  EXPECT_EQ(shape_inference(c).message(), "%z, dimension 0 is 5 and must be 4: add %two takes it with %x, dimension 0");
}

TEST(PassesShapeInference, ASymbolOutsideItsBoundsIsAContradiction) {
  Builder b("g");
  b.symbol({.name = "s", .min = 1, .max = 8});
  const ValueId x = b.input("x", {DType::kF32, {Dim::symbol("s")}}), y = b.input("y", {DType::kF32, {16}});
  b.output(b.add(OpKind::add, {x, y}, {}, "sum"));
  Compilation c = compilation(b);
  const Status s = shape_inference(c);
  EXPECT_EQ(s.code(), Code::kInvalidArgument);
  EXPECT_THAT(s.message(), HasSubstr("s, declared as s in 1..8, and must be 16"));
}

TEST(PassesShapeInference, ASizeThatNothingSaysIsRefused) {
  Builder b("g");
  b.output(b.add_typed(OpKind::iota, {}, {{"axis", int64_t{0}}}, {DType::kS32, {kUnknown}}, "steps"));
  Compilation c = compilation(b);
  EXPECT_EQ(shape_inference(c).message(), "%steps, dimension 0: nothing says how long it is");
}

TEST(PassesShapeInference, ASecondRunChangesNothing) {
  Builder b("g");
  const ValueId x = b.input("x", {DType::kF32, {kUnknown, 8}});
  b.output(b.add(OpKind::exp, {x}, {}, "y"));
  Compilation c = compilation(b);
  ASSERT_TRUE(shape_inference(c).ok());
  const size_t guards = c.guards.size();
  ASSERT_TRUE(shape_inference(c).ok());
  EXPECT_EQ(type_of(c, "y"), "f32[d0, 8]");
  EXPECT_EQ(c.guards.size(), guards);
}

}  // namespace
}  // namespace hone::passes
