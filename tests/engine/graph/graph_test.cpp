// Dimensions, and what editing a graph keeps true.
#include "engine/graph/graph.h"

#include "engine/graph/text.h"
#include "engine/graph/verify.h"
#include "tests/engine/graph/graph_testing.h"

namespace hone::graph {
namespace {

TEST(Dim, PrintsAndReadsBack) {
  for (const char* text : {"0", "128", "s", "p + s", "2*s", "-s", "s - 3", "2*p - 4*s + 7", "?"})
    EXPECT_EQ(to_string(parse_dim(text).value()), text);
  EXPECT_EQ(to_string(parse_dim(" s+2*s -  s + 4 - 4").value()), "2*s");
  for (const char* text :
       {"", "s +", "2 s", "s*2", "1.5", "s t", "--s", "9999999999999999999999", "s + ?", "s*s", "(s)"})
    EXPECT_EQ(parse_dim(text).status().code(), Code::kInvalidArgument) << text;
}

TEST(Dim, Arithmetic) {
  const Dim s = Dim::symbol("s"), p = Dim::symbol("p");
  EXPECT_EQ(to_string(s + p - s), "p");
  EXPECT_EQ(to_string((s + Dim(2)) * Dim(3)), "3*s + 6");
  EXPECT_TRUE((s * p).is_unknown());
  EXPECT_EQ(to_string(Dim::divide(s * Dim(4) + Dim(8), 4).value()), "s + 2");
  EXPECT_FALSE(Dim::divide(s * Dim(3), 2).has_value());
  EXPECT_EQ(to_string((s * Dim(2)).substitute("s", p + Dim(1))), "2*p + 2");
  EXPECT_EQ((s * Dim(2) + p).evaluate({{"s", 3}, {"p", 10}}).value(), 16);
  EXPECT_FALSE(s.evaluate({{"p", 10}}).ok());
  EXPECT_FALSE(Dim::unknown().evaluate({}).ok());
}

TEST(Dim, WhatDoesNotFitIsUnknown) {
  const Dim huge(INT64_MAX), s = Dim::symbol("s", INT64_MAX);
  EXPECT_TRUE((huge + Dim(1)).is_unknown());
  EXPECT_TRUE((huge * Dim(2)).is_unknown());
  EXPECT_TRUE((s + s).is_unknown());
  EXPECT_TRUE((s * Dim(2)).is_unknown());
  EXPECT_FALSE((s).evaluate({{"s", 2}}).ok());
}

// INT64_MIN has no opposite.
TEST(Dim, TheLeastNumber) {
  EXPECT_EQ(to_string(Dim(INT64_MIN) + Dim::symbol("s")), "s - 9223372036854775808");
  EXPECT_EQ(to_string(Dim::symbol("s", INT64_MIN)), "-9223372036854775808*s");
  EXPECT_FALSE(Dim::divide(Dim(INT64_MIN), -1).has_value());
  EXPECT_EQ(to_string(Dim::divide(Dim::symbol("s") + Dim(3), -1).value()), "-s - 3");
}

TEST(Dim, Equality) {
  const Dim s = Dim::symbol("s"), t = Dim::symbol("t");
  EXPECT_TRUE(surely_equal(s, s) && possibly_equal(s, t) && possibly_equal(s, 4) && possibly_equal(Dim::unknown(), 4));
  EXPECT_FALSE(surely_equal(s, t) || surely_equal(Dim::unknown(), Dim::unknown()) || possibly_equal(s, s + Dim(1)));
}

Graph three() {
  Result<Graph> g = parse(
      "graph @g { input %x : f32[2, 3] %a = neg(%x) : f32[2, 3] %b = add(%a, %a) : f32[2, 3] "
      "%v, %i = top_k(%b) {k = 1} : f32[2, 1], s32[2, 1] output %b, %v }");
  EXPECT_TRUE(g.ok()) << g.status().message();
  return std::move(*g);
}

TEST(GraphEdit, ReplacingAndErasingKeepsUsesAndNames) {
  Graph g = three();
  const ValueId x = *g.find_value("x"), a = *g.find_value("a");
  EXPECT_THAT(g.value(a).uses, ::testing::SizeIs(2));
  g.replace_uses(a, x);
  EXPECT_TRUE(verify(g).ok()) << verify(g).message();
  EXPECT_EQ(g.erase_dead(), 1);
  EXPECT_FALSE(g.find_value("a").has_value());
  EXPECT_EQ(g.add_node(OpKind::neg, {x}, {}, {type_of("f32[2, 3]")}, "a", g.order().front()), g.order().front());
  EXPECT_EQ(g.node(g.order().front()).name, "a");  // the name is free again
  EXPECT_TRUE(verify(g).ok()) << verify(g).message();
}

// One value as many operands of a node, with uses by others before and after: erasing drops the node's uses alone.
TEST(GraphEdit, ErasingDropsEveryUseOfItsOwn) {
  Graph g;
  const ValueId x = g.add_input("x", type_of("f32[1]")), y = g.add_input("y", type_of("f32[1]"));
  const NodeId first = g.add_node(OpKind::neg, {x}, {}, {type_of("f32[1]")});
  std::vector<ValueId> operands(20'000, x);
  operands[7] = y;
  const auto joined = [&] {
    return g.add_node(OpKind::concatenate, operands, {{"axis", int64_t{0}}}, {type_of("f32[20000]")});
  };
  const NodeId many = joined(), more = joined();
  const NodeId last = g.add_node(OpKind::exp, {x}, {}, {type_of("f32[1]")});
  g.erase(many);
  EXPECT_THAT(g.value(y).uses, ::testing::ElementsAre(Use{more, 7}));
  EXPECT_THAT(g.value(x).uses, ::testing::SizeIs(20'001));
  g.replace_uses(x, y);
  EXPECT_THAT(g.value(x).uses, ::testing::IsEmpty());
  EXPECT_THAT(g.value(y).uses, ::testing::SizeIs(20'002));
  EXPECT_TRUE(verify(g).ok()) << verify(g).message();
  g.set_outputs({g.result(first), g.result(last)});
  EXPECT_EQ(g.erase_dead(), 1);
  EXPECT_THAT(g.order(), ::testing::ElementsAre(first, last));
  EXPECT_THAT(g.value(y).uses, ::testing::ElementsAre(Use{first, 0}, Use{last, 0}));
}

TEST(GraphEdit, TakenNamesBecomeOthers) {
  Graph g = three();
  const ValueId x = *g.find_value("x");
  const NodeId again = g.add_node(OpKind::neg, {x}, {}, {type_of("f32[2, 3]")}, "a");
  EXPECT_EQ(g.node(again).name, "a_1");
  g.rename(again, "b");
  EXPECT_EQ(g.node(again).name, "b_1");
  EXPECT_EQ(g.value(g.result(again)).name, "b_1");
  g.rename_result(*g.find_value("i"), "indices");
  EXPECT_TRUE(g.find_value("indices").has_value());
  EXPECT_FALSE(g.find_value("i").has_value());
  EXPECT_TRUE(verify(g).ok()) << verify(g).message();
}

TEST(GraphEdit, AnErasedInputIsGone) {
  Graph g = three();
  const ValueId spare = g.add_input("spare", type_of("f32[2]"));
  EXPECT_EQ(g.find_value("spare"), spare);
  g.erase_input(spare);
  EXPECT_FALSE(g.find_value("spare").has_value());
  EXPECT_EQ(g.value(g.add_input("spare", type_of("f32[2]"))).name, "spare");
  EXPECT_TRUE(verify(g).ok()) << verify(g).message();
}

TEST(GraphEdit, ACopyIsApart) {
  Graph g = three();
  const std::string before = print(g);
  Graph copy = g;
  copy.replace_uses(*copy.find_value("a"), *copy.find_value("x"));
  copy.erase_dead();
  EXPECT_EQ(print(g), before);
  EXPECT_NE(print(copy), before);
}

TEST(GraphTypes, ElementsOfLargeAndOfEmptyTypes) {
  EXPECT_EQ(type_of("f32[2, 3]").elements(), 6);
  EXPECT_EQ(type_of("f32[]").bytes(), 4);
  EXPECT_EQ(type_of("f32[0, 1152921504606846976, 1152921504606846976]").elements(), 0);
  EXPECT_EQ(type_of("f32[1152921504606846976, 1152921504606846976]").elements(), -1);
  EXPECT_EQ(type_of("f32[s]").elements(), -1);
}

}  // namespace
}  // namespace hone::graph
