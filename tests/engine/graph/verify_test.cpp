// Each kind of damage that a graph can take, on a graph that is legal without it.
#include "engine/graph/verify.h"

#include <functional>

#include "engine/graph/text.h"
#include "tests/engine/graph/graph_testing.h"

namespace hone::graph {
namespace {

using ::testing::HasSubstr;

Graph legal() {
  Result<Graph> graph = parse(R"(graph @g {
  symbol s in 1..64
  position p in 0..64 step s
  input %x : f32[s, 4]
  state %k : f32[64, 2, 2]
  %w = constant dense(1, 2, 3, 4) : f32[4]
  %flags = constant dense(0, 1) : u8[2]
  %h = rms_norm(%x, %w) {eps = 1e-05} : f32[s, 4]
  %rows = reshape(%h) : f32[s, 2, 2]
  %all = kv_append(%k, %rows) : f32[p + s, 2, 2]
  output %all, %h, %flags
})");
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return std::move(*graph);
}

NodeId node_of(const Graph& g, std::string_view name) { return g.value(*g.find_value(name)).node; }

struct Damage {
  std::string error;
  std::function<void(Graph&)> done;
};

class Verify : public ::testing::TestWithParam<Damage> {};
TEST_P(Verify, Finds) {
  Graph g = legal();
  ASSERT_TRUE(verify(g).ok());
  GetParam().done(g);
  const Status s = verify(g);
  ASSERT_FALSE(s.ok()) << print(g);
  EXPECT_EQ(s.code(), Code::kInvalidArgument);
  EXPECT_THAT(s.message(), HasSubstr(GetParam().error));
}

Constant elements(std::string_view type, size_t bytes) {
  return Constant::copy_of(type_of(type), std::vector<std::byte>(bytes));
}

INSTANTIATE_TEST_SUITE_P(
    All, Verify,
    ::testing::Values(
        Damage{"symbol '1s': the name", [](Graph& g) { g.symbols[0].name = "1s"; }},
        Damage{"symbol s is declared twice", [](Graph& g) { g.symbols.push_back(g.symbols[0]); }},
        Damage{"symbol s in 1..0: bounds", [](Graph& g) { g.symbols[0].max = 0; }},
        Damage{"symbol s in -1..64", [](Graph& g) { g.symbols[0].min = -1; }},
        Damage{"symbol s must be a multiple of 0", [](Graph& g) { g.symbols[0].multiple_of = 0; }},
        Damage{"position 'q' is not a symbol", [](Graph& g) { g.position = "q"; }},
        Damage{"position p must be in 0..max", [](Graph& g) { g.symbols[1].min = 1; }},
        Damage{"position p has step p", [](Graph& g) { g.tokens = Dim::symbol("p"); }},
        Damage{"position p has step ?", [](Graph& g) { g.tokens = Dim::unknown(); }},
        Damage{"symbol 'z' is not declared", [](Graph& g) { g.tokens = Dim::symbol("z"); }},
        Damage{"and there is no position", [](Graph& g) { g.position.clear(); }},
        Damage{"state k needs a position", [](Graph& g) { g.position.clear(), g.tokens = 0; }},
        Damage{"operand 0 is value 999", [](Graph& g) { g.node(node_of(g, "h")).operands[0] = 999; }},
        Damage{"operand 1 is value -1", [](Graph& g) { g.node(node_of(g, "h")).operands[1] = -1; }},
        Damage{"which nothing before it defines",
               [](Graph& g) { g.set_operand(node_of(g, "h"), 0, *g.find_value("all")); }},
        Damage{"its list of uses is not",
               [](Graph& g) { g.node(node_of(g, "h")).operands[0] = *g.find_value("w"); }},
        Damage{"has 2 results and must have 1",
               [](Graph& g) { g.node(node_of(g, "h")).results.push_back(*g.find_value("w")); }},
        Damage{"defined twice", [](Graph& g) { g.node(node_of(g, "h")).results[0] = *g.find_value("w"); }},
        Damage{"has id 77", [](Graph& g) { g.node(node_of(g, "h")).id = 77; }},
        Damage{"output 999 is not a value", [](Graph& g) { g.set_outputs({999}); }},
        Damage{"output 3 is not a value",
               [](Graph& g) {
                 g.set_outputs({3});
                 g.erase(g.value(3).node);
               }},
        Damage{"its first result has another name", [](Graph& g) { g.node(node_of(g, "h")).name = "other"; }},
        Damage{"rms_norm: operand 1 (w) is f32[4]: dimension 0 is 4 and must be 5",
               [](Graph& g) { g.set_type(*g.find_value("x"), type_of("f32[s, 5]")); }},
        Damage{"result 0 is f32[s, 5] and must be f32[s, 4]",
               [](Graph& g) { g.set_type(*g.find_value("h"), type_of("f32[s, 5]")); }},
        Damage{"symbol 'z' is not declared", [](Graph& g) { g.set_type(*g.find_value("x"), type_of("f32[z, 4]")); }},
        Damage{"'eps' is missing", [](Graph& g) { g.node(node_of(g, "h")).attributes.clear(); }},
        Damage{"has no attribute 'axis'", [](Graph& g) { g.node(node_of(g, "h")).attributes["axis"] = int64_t{1}; }},
        Damage{"symbol 'z' is not declared",
               [](Graph& g) { g.node(node_of(g, "h")).attributes["offset"] = Dim::symbol("z"); }},
        Damage{"has no elements", [](Graph& g) { g.node(node_of(g, "w")).constant.reset(); }},
        Damage{"its elements are f32[5] and its result f32[4]",
               [](Graph& g) { g.node(node_of(g, "w")).constant = elements("f32[5]", 20); }},
        Damage{"has 12 bytes of elements and f32[4] needs 16",
               [](Graph& g) { g.node(node_of(g, "w")).constant = elements("f32[4]", 12); }},
        Damage{"has 16 bytes of elements and f32[4] needs 4",
               [](Graph& g) { g.node(node_of(g, "w")).constant->splat = true; }},
        Damage{"has 12 bytes of elements and f32[4] needs 16",
               [](Graph& g) {
                 const Constant w = *g.node(node_of(g, "w")).constant;
                 g.node(node_of(g, "w")).constant =
                     Constant::of_runs(w.type, {w.data.subspan(8, 8), w.data.subspan(0, 4)}, w.owner);
               }},
        Damage{"a run of 6 bytes is not one of whole elements",
               [](Graph& g) {
                 const Constant w = *g.node(node_of(g, "w")).constant;
                 g.node(node_of(g, "w")).constant =
                     Constant::of_runs(w.type, {w.data.subspan(0, 6), w.data.subspan(0, 10)}, w.owner);
               }},
        Damage{"input half is bf16[4]: bf16 and f16 are for constants",
               [](Graph& g) { g.add_input("half", type_of("bf16[4]")); }},
        Damage{"output half is f16[2]: bf16 and f16 are for constants",
               [](Graph& g) { g.set_outputs({g.result(g.add_constant(elements("f16[2]", 4), "half"))}); }},
        Damage{"truth values",
               [](Graph& g) {
                 const std::byte two[] = {std::byte{0}, std::byte{2}};
                 g.node(node_of(g, "flags")).constant = Constant::copy_of(type_of("u8[2]"), two);
               }},
        Damage{"has elements, which are for constants",
               [](Graph& g) { g.node(node_of(g, "h")).constant = elements("f32[4]", 16); }},
        Damage{"must be operand 0 of one kv_append",
               [](Graph& g) { g.add_node(OpKind::neg, {*g.find_value("k")}, {}, {type_of("f32[64, 2, 2]")}); }},
        Damage{"must be operand 0 of one kv_append", [](Graph& g) { g.add_state("v", type_of("f32[4, 2, 2]")); }},
        Damage{"must be operand 0 of one kv_append", [](Graph& g) { g.set_outputs({*g.find_value("k")}); }},
        Damage{"state k is f32[s, 2, 2] and must be static",
               [](Graph& g) { g.set_type(*g.find_value("k"), type_of("f32[s, 2, 2]")); }},
        Damage{"operand 0 must be a state",
               [](Graph& g) {
                 const ValueId rows = *g.find_value("rows");
                 g.add_node(OpKind::kv_append, {rows, rows}, {}, {type_of("f32[p + s, 2, 2]")});
               }},
        Damage{"appends s rows and the position goes up by s + 1",
               [](Graph& g) { g.tokens = Dim::symbol("s") + Dim(1); }},
        Damage{"input x aliases output 3 of 3", [](Graph& g) { g.set_alias(g.inputs()[0], 3); }},
        Damage{"input x aliases output 0 and is f32[s, 4] and must be", [](Graph& g) { g.set_alias(g.inputs()[0], 0); }},
        Damage{"as another input does", [](Graph& g) {
                 g.set_alias(g.inputs()[0], 1);
                 g.set_alias(g.add_input("y", type_of("f32[s, 4]")), 1);
               }}));

TEST(VerifyLegal, SurerAndLessSureTypesAreTheSame) {
  Graph g = legal();
  g.set_type(*g.find_value("h"), type_of("f32[?, 4]"));
  EXPECT_TRUE(verify(g).ok()) << verify(g).message();
  g.set_type(*g.find_value("h"), type_of("f32[8, 4]"));
  EXPECT_TRUE(verify(g).ok()) << verify(g).message();
}

TEST(VerifyLegal, AnEmptyGraph) { EXPECT_TRUE(verify(Graph()).ok()); }

}  // namespace
}  // namespace hone::graph
