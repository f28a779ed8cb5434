#include "engine/graph/text.h"

#include <set>

#include "engine/base/random.h"
#include "engine/graph/builder.h"
#include "tests/engine/graph/graph_testing.h"
#include "tests/engine/graph/random_graph.h"

namespace hone::graph {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kLayer = R"(graph @layer {
  symbol s in 1..4096
  symbol t in 16..512 multiple 16
  position p in 0..4096 step s
  input %x : f32[s, 4]
  input %mask : u8[s, t] aliases 1
  state %k0 : f32[512, 2, 2]
  %norm = constant dense(1, 0.5, -2, 1e-05) : f32[4]
  %big = constant "big" : f32[4, 8]
  %zero = constant splat(0x7fc00000) : f32[100]
  %h = rms_norm(%x, %norm) {eps = 1e-05} : f32[s, 4]
  %v, %i = top_k(%h) {k = 2} : f32[s, 2], s32[s, 2]
  %rows = reshape(%h) : f32[s, 2, 2]
  %"a b" = rope(%rows, %"a\x0ab") {offset = p + 2, style = "half"} : f32[s, 2, 2]
  %all = kv_append(%k0, %"a b") : f32[p + s, 2, 2]
  schedule %h = {parallel_dims = ["rows"], parallelism = 8}
  schedule = {parallel_dims = []}
  layout "h" = "padded"
  output %all, %mask
}
)";

std::string layer() {
  std::string text(kLayer);
  const std::string inv = R"(  %"a\x0ab" = constant dense(1) : f32[1])";
  return text.insert(text.find("  %norm"), inv + "\n");
}

Result<Constant> eight_by_four(const std::string& name, const TensorType& type) {
  if (name != "big") return not_found("no constant " + name);
  return Constant::f32(type, std::vector<float>(32, 0.25F));
}

TEST(GraphText, CanonicalTextReadsBackAsItself) {
  const Result<Graph> graph = parse(layer(), eight_by_four);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(print(*graph), layer());
  EXPECT_EQ(graph->position, "p");
  EXPECT_EQ(graph->node(graph->order().back()).line, 16);
  EXPECT_EQ(graph->find_symbol("t")->multiple_of, 16);
  EXPECT_EQ(graph->value(graph->inputs()[1]).aliases_output, 1);
  EXPECT_EQ(graph->constant(*graph->find_value("big"))->f32_at(31), 0.25F);
  EXPECT_TRUE(std::isnan(graph->constant(*graph->find_value("zero"))->f32_at(5)));
  EXPECT_TRUE(graph->find_value("i").has_value());
  EXPECT_EQ(graph->node(graph->value(*graph->find_value("h")).node).schedule->parallelism, 8);
}

TEST(GraphText, SpacesAndCommentsAreFree) {
  const auto a = parse("graph @g { // one\n input %x:f32[ 2 ,3 ]\n%y=neg( %x ):f32[2,3] output %y }\n// end");
  ASSERT_TRUE(a.ok()) << a.status().message();
  EXPECT_EQ(print(*a), "graph @g {\n  input %x : f32[2, 3]\n  %y = neg(%x) : f32[2, 3]\n  output %y\n}\n");
}

TEST(GraphText, WhatTheBuilderMadeReadsBack) {
  Builder b("built");
  b.symbol({.name = "s", .min = 1, .max = 64});
  b.position("p", 64, Dim::symbol("s"));
  const ValueId x = b.input("x", type_of("f32[s, 2, 4]"));
  const ValueId f = b.constant(Constant::f32(type_of("f32[2]"), std::vector<float>{1, 0.01F}), "inv_freq");
  const ValueId q = b.rope(x, f, Dim::symbol("p"), "half", "q");
  const ValueId k = b.kv_append(b.state("k", type_of("f32[64, 2, 4]")), q);
  b.output(b.attention(q, k, k, {.window = 8, .softcap = 30}, "att"));
  const Result<Graph> graph = b.finish();
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const std::string text = print(*graph);
  EXPECT_THAT(text, HasSubstr("%att = attention(%q, %kv_append, %kv_append) "
                              "{causal = true, softcap = 30, window = 8} : f32[s, 2, 4]"));
  const Result<Graph> again = parse(text);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(print(*again), text);
}

TEST(GraphText, RandomGraphsReadBack) {
  std::set<OpKind> ops;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const Graph graph = random_graph(random, 30, false);
    const std::string text = print(graph);
    const Result<Graph> again = parse(text, [&](const std::string& name, const TensorType&) -> Result<Constant> {
      return *graph.constant(*graph.find_value(name));
    });
    ASSERT_TRUE(again.ok()) << again.status().message() << "\n" << text;
    ASSERT_EQ(print(*again), text);
    ASSERT_EQ(again->order().size(), graph.order().size());
    for (size_t i = 0; i < graph.order().size(); ++i) {
      const Node &a = graph.node(graph.order()[i]), &b = again->node(again->order()[i]);
      ops.insert(a.op);
      ASSERT_EQ(a.op, b.op);
      ASSERT_EQ(a.name, b.name);
      ASSERT_EQ(a.schedule, b.schedule);
      if (!a.constant) continue;
      ASSERT_EQ(a.constant->type, b.constant->type);
      ASSERT_EQ(a.constant->splat, b.constant->splat);
      ASSERT_TRUE(std::equal(a.constant->data.begin(), a.constant->data.end(), b.constant->data.begin(),
                             b.constant->data.end()));
    }
  }
  EXPECT_GT(ops.size(), 40U);  // the generator reaches nearly all
}

struct Bad {
  std::string text, error;
};
class GraphTextWrong : public ::testing::TestWithParam<Bad> {};
TEST_P(GraphTextWrong, SaysWhereAndWhat) {
  const Result<Graph> graph = parse(GetParam().text);
  ASSERT_FALSE(graph.ok()) << print(*graph);
  EXPECT_EQ(graph.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(graph.status().message(), StartsWith(GetParam().error));
}

std::string with(const std::string& lines) { return "graph @g {\ninput %x : f32[2, 3]\n" + lines + "\n}"; }
std::string symbols(int n) {
  std::string text;
  for (int i = 0; i < n; ++i) text += "symbol a" + std::to_string(i) + " in 0..1\n";
  return text;
}

INSTANTIATE_TEST_SUITE_P(
    All, GraphTextWrong,
    ::testing::Values(
        Bad{"", "line 1, column 1: expected 'graph', found the end of the text"},
        Bad{"graph g {}", "line 1, column 7: expected '@' and the name of the graph, found 'g'"},
        Bad{"graph @g {", "line 1, column 11: expected a statement or '}'"},
        Bad{"graph @g {} x", "line 1, column 13: expected the end of the text, found 'x'"},
        Bad{with("frobnicate"), "line 3, column 1: expected symbol, position, input"},
        Bad{with("%x = neg(%x) : f32[2, 3]"), "line 3, column 1: %x is defined twice"},
        Bad{with("%y = neg(%z) : f32[2, 3]"), "line 3, column 10: %z is not defined before this"},
        Bad{with("%y = sort(%x) : f32[2, 3]"), "line 3, column 6: there is no op 'sort'"},
        Bad{with("%y = neg(%x) : f32[2, 4]"), "line 3, column 6: neg: %y is f32[2, 4] and must be f32[2, 3]"},
        Bad{with("%y = neg(%x) : f32[2, s]"), "line 3, column 16: symbol 's' is not declared"},
        Bad{with("%y = neg(%x) : f64[2, 3]"), "line 3, column 16: 'f64' is no element type"},
        Bad{with("%y = neg(%x) : f32[2, 3"), "line 4, column 1: expected ',' or ']'"},
        Bad{with("%y = neg(%x) : f32[2, -3]"), "line 3, column 16: the type is f32[2, -3]: dimension 1"},
        Bad{with("%y = neg(%x) : f32[2, 99999999999999999999]"), "line 3, column 23: '99999999999999999999' is no dim"},
        Bad{with("%y, %z = neg(%x) : f32[2, 3]"),
            "line 3, column 10: neg has 1 results; there are 2 names and 1 types"},
        Bad{with("%y, %y = top_k(%x) {k = 1} : f32[2, 1], s32[2, 1]"), "line 3, column 5: %y is defined twice"},
        Bad{with("%y = neg(%x) {axis = 1} : f32[2, 3]"), "line 3, column 15: neg has no attribute 'axis'"},
        Bad{with("%y = softmax(%x) {scale = 1e999} : f32[2, 3]"), "line 3, column 27: '1e999' is no finite number"},
        Bad{with("%y = softmax(%x) {scale = 1, scale = 1} : f32[2, 3]"),
            "line 3, column 30: the attribute is there twice"},
        Bad{with("%y = slice(%x) {start = [0, 99999999999999999999]} : f32[2]"),
            "line 3, column 29: an integer does not fit"},
        Bad{with("%y = transpose(%x) {perm = [[1]]} : f32[2]"), "line 3, column 29: expected an integer, found '['"},
        Bad{with("%y = gelu(%x) {approximate = \"tanh} : f32[2, 3]"), "line 3, column 30: a text: the closing quote"},
        Bad{with("%y = gelu(%x) {approximate = \"\\q\"} : f32[2, 3]"), "line 3, column 31: after \\ there must be"},
        Bad{with("%y = constant dense(1, 2) : f32[3]"), "line 4, column 1: f32[3] needs 3 elements and there are 2"},
        Bad{with("%y = constant dense(1, x) : f32[2]"), "line 3, column 24: 'x' is no f32"},
        Bad{with("%y = constant dense(0x7fc0) : f32[1]"), "line 3, column 21: '0x7fc0' is no f32 in hexadecimal"},
        Bad{with("%y = constant dense(2147483648) : s32[1]"), "line 3, column 21: '2147483648' is no s32"},
        Bad{with("%y = constant dense(2) : u8[1]"), "line 3, column 21: '2' is no truth value"},
        Bad{with("%y = constant splat(1) : f32[9999999, 9999999]"), "line 3, column 26: the type is"},
        Bad{with("%y = constant \"w\" : f32[3]"),
            "line 3, column 15: the elements of constant \"w\" are not in the text"},
        Bad{with("%y = constant : f32[3]"), "line 3, column 15: expected dense(..), splat(..)"},
        Bad{with("symbol s in 4..1"), "line 4, column 1: symbol s in 4..1: bounds"},
        Bad{with("symbol s in 0..1\nsymbol s in 0..1"), "line 4, column 8: symbol s is declared twice"},
        Bad{with("position p in 0..8 step s"),
            "line 4, column 1: the step of the position: symbol 's' is not declared"},
        Bad{with("position p in 0..8 step ?"), "line 4, column 1: position p has step ?"},
        Bad{with("position p in 0..8 step 1\nposition q in 0..8 step 1"),
            "line 4, column 10: the position is p already"},
        Bad{with("state %k : f32[2, 3]"), "line 4, column 1: state k needs a position"},
        Bad{with("input %y : f32[2] aliases 7"), "line 4, column 1: input y aliases output 7 of 0"},
        Bad{with("schedule %x = {parallel_dims = []}"), "line 3, column 10: that is not the name of a node"},
        Bad{with("schedule = {parallel_dims = []} schedule = {parallel_dims = []}"),
            "line 3, column 42: the schedule is"},
        Bad{with("output %x\noutput %x"), "line 4, column 8: the outputs are there twice"},
        Bad{"graph @g {\n" + symbols(1025) + "}", "line 1026, column 8: more than 1024 symbols"},
        Bad{"graph @" + std::string(2000, 'a') + " {}", "line 1, column 8: the name of the graph is longer than 1000"},
        Bad{with("%y = neg(%x) : f32[" + std::string(300, '1') + "]"),
            "line 3, column 20: a dimension of more than 200"},
        Bad{std::string("graph @g \0{}", 12), "line 1, column 10: expected '{', found '\\x00'"}));

// Whatever is cut off or nested, the parser answers.
TEST(GraphText, EveryPrefixIsRefusedInOneLine) {
  const std::string text = layer();
  for (size_t n = 0; n < text.size() - 2; ++n) {
    const Result<Graph> graph = parse(text.substr(0, n), eight_by_four);
    ASSERT_FALSE(graph.ok()) << n;
    ASSERT_THAT(graph.status().message(), StartsWith("line "));
    ASSERT_EQ(graph.status().message().find('\n'), std::string::npos);
  }
}

TEST(GraphText, DeepNestingIsRefusedWithoutRecursion) {
  EXPECT_FALSE(parse(with("%y = transpose(%x) {perm = " + std::string(1000000, '['))).ok());
  EXPECT_FALSE(parse("graph @g {" + std::string(1000000, '{')).ok());
}

TEST(GraphText, LongListsAreRefused) {
  std::string list = "%x";
  for (int i = 0; i < 5000; ++i) list += ", %x";
  EXPECT_THAT(parse(with("%y = concatenate(" + list + ") {axis = 0} : f32[2, 3]")).status().message(),
              HasSubstr("more than 4096 operands"));
}

TEST(GraphText, ASourceMayRefuseOrGiveAnotherType) {
  const std::string text = with("%y = constant \"w\" : f32[2]\noutput %y");
  EXPECT_EQ(parse(text, eight_by_four).status().message(), "no constant w");
  const auto other = [](const std::string&, const TensorType&) -> Result<Constant> {
    return Constant::splat_f32(type_of("f32[3]"), 0);
  };
  EXPECT_THAT(parse(text, other).status().message(), HasSubstr("is f32[3] where it was found and f32[2] here"));
}

}  // namespace
}  // namespace hone::graph
