// Single operations in every way of writing them that a module of modules/ does not have: text in, numbers out.
#include "tests/engine/graph/stablehlo/stablehlo_testing.h"

namespace hone::graph::stablehlo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The outputs of @main(%x: tensor<3x4xf32>, %i: tensor<2xi32>) with x = 0 .. 11 and i as given.
std::vector<Tensor> run(const std::string& body, const std::string& results, std::vector<int32_t> i = {0, 1}) {
  const std::string text =
      "func.func public @main(%x: tensor<3x4xf32>, %i: tensor<2xi32>) -> " + results + " {\n" + body + "\n}";
  std::vector<float> x(12);
  for (size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>(k);
  return evaluate_or_throw(import_or_throw(text), {Tensor::f32({3, 4}, x), Tensor::s32({2}, i)});
}
std::vector<float> floats(const Tensor& t) { return {t.as<float>().begin(), t.as<float>().end()}; }
std::vector<int32_t> ints(const Tensor& t) { return {t.as<int32_t>().begin(), t.as<int32_t>().end()}; }

std::string replaced(std::string text, const std::vector<std::pair<std::string, std::string>>& pairs) {
  for (const auto& [from, to] : pairs)
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  return text;
}

// ---- gather ----

std::string gather(const std::string& operands, const std::string& numbers, const std::string& sizes,
                   const std::string& types) {
  return "%g = \"stablehlo.gather\"(" + operands + ") <{dimension_numbers = #stablehlo.gather<" + numbers +
         ">, indices_are_sorted = false, slice_sizes = array<i64: " + sizes + ">}> : " + types + "\n";
}

TEST(StablehloGather, RowsAndTheirClamp) {
  const std::string body =
      gather("%x, %i", "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1",
             "1, 4", "(tensor<3x4xf32>, tensor<2xi32>) -> tensor<2x4xf32>") +
      "return %g : tensor<2x4xf32>";
  EXPECT_THAT(floats(run(body, "tensor<2x4xf32>", {2, 0})[0]), ElementsAre(8, 9, 10, 11, 0, 1, 2, 3));
  // Out of range is the nearest row, as StableHLO says.
  EXPECT_THAT(floats(run(body, "tensor<2x4xf32>", {7, -5})[0]), ElementsAre(8, 9, 10, 11, 0, 1, 2, 3));
}

TEST(StablehloGather, ColumnsAndWhereWindowsStand) {
  // x[:, i], the window first in the result.
  EXPECT_THAT(
      floats(run(
          gather("%x, %i", "offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1",
                 "3, 1", "(tensor<3x4xf32>, tensor<2xi32>) -> tensor<3x2xf32>") +
              "return %g : tensor<3x2xf32>",
          "tensor<3x2xf32>", {3, 1})[0]),
      ElementsAre(3, 1, 7, 5, 11, 9));
}

TEST(StablehloGather, PointsOfTwoIndices) {
  // x[i[0], i[1]]: one vector of two indices.
  EXPECT_THAT(floats(run(gather("%x, %i", "collapsed_slice_dims = [0, 1], start_index_map = [0, 1]", "1, 1",
                                "(tensor<3x4xf32>, tensor<2xi32>) -> tensor<f32>") +
                             "return %g : tensor<f32>",
                         "tensor<f32>", {2, 1})[0]),
              ElementsAre(9));
  // The map says which index is which.
  EXPECT_THAT(floats(run(gather("%x, %i", "collapsed_slice_dims = [0, 1], start_index_map = [1, 0]", "1, 1",
                                "(tensor<3x4xf32>, tensor<2xi32>) -> tensor<f32>") +
                             "return %g : tensor<f32>",
                         "tensor<f32>", {3, 1})[0]),
              ElementsAre(7));
  // Windows of one that stay are dimensions of 1; a part of a dimension that is not indexed is its beginning.
  EXPECT_THAT(floats(run("%r = stablehlo.reshape %i : (tensor<2xi32>) -> tensor<2x1xi32>\n" +
                             gather("%x, %r", "offset_dims = [1, 2], start_index_map = [0], index_vector_dim = 1",
                                    "1, 2", "(tensor<3x4xf32>, tensor<2x1xi32>) -> tensor<2x1x2xf32>") +
                             "return %g : tensor<2x1x2xf32>",
                         "tensor<2x1x2xf32>", {1, 2})[0]),
              ElementsAre(4, 5, 8, 9));
}

// jnp.take_along_axis: a batch dimension of operand and indices.
TEST(StablehloGather, BatchDimensions) {
  EXPECT_THAT(floats(run("%c = stablehlo.constant dense<[[[3], [0]], [[1], [1]], [[2], [9]]]> : tensor<3x2x1xi32>\n" +
                             gather("%x, %c",
                                    "collapsed_slice_dims = [1], operand_batching_dims = [0], "
                                    "start_indices_batching_dims = [0], start_index_map = [1], "
                                    "index_vector_dim = 2",
                                    "1, 1", "(tensor<3x4xf32>, tensor<3x2x1xi32>) -> tensor<3x2xf32>") +
                             "return %g : tensor<3x2xf32>",
                         "tensor<3x2xf32>")[0]),
              ElementsAre(3, 0, 5, 5, 10, 11));
}

// x[..., 2:] as frameworks write it: one window, its start a constant.
TEST(StablehloGather, AWindowAtAConstantIsASlice) {
  const std::string text = R"(func.func @main(%x: tensor<3x4xf32>) -> tensor<3x2xf32> {
    %c = stablehlo.constant dense<START> : tensor<i32>
    %i = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<1xi32>
    )" +
                           gather("%x, %i", "offset_dims = [0, 1], start_index_map = [1]", "3, 2",
                                  "(tensor<3x4xf32>, tensor<1xi32>) -> tensor<3x2xf32>") +
                           "return %g : tensor<3x2xf32>\n}";
  const auto window = [&](const std::string& start) {
    const Graph graph = import_or_throw(replaced(text, {{"START", start}}));
    EXPECT_EQ(graph.order().size(), 1u);
    EXPECT_EQ(graph.node(graph.order()[0]).op, OpKind::slice);
    std::vector<float> x(12);
    for (size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>(k);
    return floats(evaluate_or_throw(graph, {Tensor::f32({3, 4}, x)})[0]);
  };
  EXPECT_THAT(window("1"), ElementsAre(1, 2, 5, 6, 9, 10));
  EXPECT_THAT(window("2"), ElementsAre(2, 3, 6, 7, 10, 11));
  // The window stays within x.
  EXPECT_THAT(window("3"), ElementsAre(2, 3, 6, 7, 10, 11));
  EXPECT_THAT(window("-9"), ElementsAre(0, 1, 4, 5, 8, 9));
}

TEST(StablehloGather, AWindowAtAValueIsADynamicSlice) {
  const std::string body = gather("%x, %i", "offset_dims = [0], collapsed_slice_dims = [0], start_index_map = [1, 0]",
                                  "1, 3", "(tensor<3x4xf32>, tensor<2xi32>) -> tensor<3xf32>") +
                           "return %g : tensor<3xf32>";
  EXPECT_THAT(floats(run(body, "tensor<3xf32>", {1, 2})[0]), ElementsAre(9, 10, 11));
  EXPECT_THAT(floats(run(body, "tensor<3xf32>", {0, 1})[0]), ElementsAre(4, 5, 6));
  EXPECT_THAT(floats(run(body, "tensor<3xf32>", {7, -7})[0]), ElementsAre(1, 2, 3));
}

TEST(StablehloGather, IndicesThatAreSurelyInRangeAreNotClamped) {
  const std::string text =
      "func.func @main(%x: tensor<3x4xf32>) -> tensor<2x4xf32> {\n%c = stablehlo.constant dense<[2, 1]> : "
      "tensor<2xi32>\n" +
      gather("%x, %c", "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1",
             "1, 4", "(tensor<3x4xf32>, tensor<2xi32>) -> tensor<2x4xf32>") +
      "return %g : tensor<2x4xf32>\n}";
  EXPECT_EQ(import_or_throw(text).order().size(), 2u);
}

// ---- functions ----

TEST(StablehloForms, CallsOfWhatStablehloDoesNotHave) {
  const std::string top =
      "%v:2 = stablehlo.custom_call @mhlo.topk(%x) {mhlo.attributes = {k = 2 : i64, largest = true}, mhlo.version = 1 "
      ": i64} : (tensor<3x4xf32>) -> (tensor<3x2xf32>, tensor<3x2xi32>)\n";
  const std::vector<Tensor> both =
      run(top + "return %v#1, %v#0 : tensor<3x2xi32>, tensor<3x2xf32>", "(tensor<3x2xi32>, tensor<3x2xf32>)");
  EXPECT_THAT(ints(both[0]), ElementsAre(3, 2, 3, 2, 3, 2));
  EXPECT_THAT(floats(both[1]), ElementsAre(3, 2, 7, 6, 11, 10));
  const std::string generic =
      "%v, %w = \"chlo.top_k\"(%x) <{k = 1 : i64}> : (tensor<3x4xf32>) -> (tensor<3x1xf32>, tensor<3x1xi32>)\n";
  EXPECT_THAT(floats(run(generic + "return %v : tensor<3x1xf32>", "tensor<3x1xf32>")[0]), ElementsAre(3, 7, 11));
  for (const std::string op : {"stablehlo.custom_call @mhlo.erf(%x) {mhlo.attributes = {}, mhlo.version = 1 : i64} : "
                               "(tensor<3x4xf32>) -> tensor<3x4xf32>",
                               "\"chlo.erf\"(%x) : (tensor<3x4xf32>) -> tensor<3x4xf32>",
                               "stablehlo.composite \"chlo.erf\" %x {decomposition = @chlo.erf.impl, version = 1 : "
                               "i32} : (tensor<3x4xf32>) -> tensor<3x4xf32>"})
    EXPECT_NEAR(floats(run("%0 = " + op + "\nreturn %0 : tensor<3x4xf32>", "tensor<3x4xf32>")[0])[1], 0.84270079, 1e-7)
        << op;
  EXPECT_NEAR(floats(run("%0 = chlo.erfc %x : tensor<3x4xf32> -> tensor<3x4xf32>\n%1 = stablehlo.multiply %x, %0 : "
                         "tensor<3x4xf32>\nreturn %1 : tensor<3x4xf32>",
                         "tensor<3x4xf32>")[0])[1],
              0.15729921, 1e-7);
  EXPECT_THAT(floats(run("%0 = stablehlo.custom_call @Sharding(%x) {backend_config = \"\", mhlo.sharding = "
                         "\"{replicated}\"} : (tensor<3x4xf32>) -> tensor<3x4xf32>\nreturn %0 : tensor<3x4xf32>",
                         "tensor<3x4xf32>")[0])[5],
              5);
}

// What XLA and Shardy say of devices and of the order of bytes changes no value.
TEST(StablehloForms, LayoutsAndShardings) {
  const std::string body = R"(
    %0 = stablehlo.transpose %x, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[4,3]{0,1}"} : (tensor<3x4xf32>) -> tensor<4x3xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{"x", ?}, {}], replicated={"y"}> : tensor<4x3xf32>
    %2 = "sdy.sharding_constraint"(%1) <{sharding = #sdy.sharding<@mesh, [{}, {}]>}> : (tensor<4x3xf32>) -> tensor<4x3xf32>
    %3 = stablehlo.reshape %2 {source_layout = dense<[0, 1]> : tensor<2xindex>, operand_layouts = [dense<0> : tensor<1xindex>]} : (tensor<4x3xf32>) -> tensor<12xf32>
    return %3 : tensor<12xf32>)";
  EXPECT_THAT(floats(run(body, "tensor<12xf32>")[0]), ElementsAre(0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11));
}

// A function that is called twice has its elements once.
TEST(StablehloForms, ConstantsOfFunctionsAreShared) {
  const Graph graph = import_or_throw(R"(module {
    func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = call @f(%x) : (tensor<2xf32>) -> tensor<2xf32>
      %1 = call @f(%0) : (tensor<2xf32>) -> tensor<2xf32>
      return %1 : tensor<2xf32>
    }
    func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
      %c = stablehlo.constant dense<[3.0, 5.0]> : tensor<2xf32>
      %0 = stablehlo.multiply %x, %c : tensor<2xf32>
      return %0 : tensor<2xf32>
    }
  })");
  std::vector<const std::byte*> elements;
  for (const NodeId id : graph.order())
    if (graph.node(id).op == OpKind::constant) elements.push_back(graph.node(id).constant->data.data());
  ASSERT_EQ(elements.size(), 2u);
  EXPECT_EQ(elements[0], elements[1]);
  EXPECT_THAT(floats(evaluate_or_throw(graph, {Tensor::f32({2}, std::vector<float>{1, 2})})[0]), ElementsAre(9, 50));
}

TEST(StablehloForms, FunctionsAreInlinedWithTheirOwnNames) {
  const std::string text = R"(module @m {
    sdy.mesh @mesh = <["x"=2]>
    func.func public @main(%a: tensor<2xf32>, %b: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
      %0:2 = call @swap(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
      %1 = stablehlo.composite "my.difference" %0#0, %0#1 {decomposition = @difference} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      %2 = stablehlo.optimization_barrier %1 : tensor<2xf32>
      return %2, %0#0 : tensor<2xf32>, tensor<2xf32>
    }
    func.func private @swap(%b: tensor<2xf32>, %a: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
      return %a, %b : tensor<2xf32>, tensor<2xf32>
    }
    func.func private @difference(%0: tensor<2xf32>, %1: tensor<2xf32>) -> tensor<2xf32> {
      %2 = stablehlo.subtract %0, %1 : tensor<2xf32>
      return %2 : tensor<2xf32>
    }
  })";
  const std::vector<Tensor> out =
      evaluate_or_throw(import_or_throw(text),
                        {Tensor::f32({2}, std::vector<float>{1, 2}), Tensor::f32({2}, std::vector<float>{10, 20})});
  EXPECT_THAT(floats(out[0]), ElementsAre(9, 18));
  EXPECT_THAT(floats(out[1]), ElementsAre(10, 20));
}

// ---- reductions ----

TEST(StablehloForms, ReductionsAndTheirInitialValues) {
  const auto reduced = [](const std::string& op, const std::string& init) {
    return floats(
        run("%c = stablehlo.constant dense<" + init +
                "> : tensor<f32>\n%0 = stablehlo.reduce(%x init: %c) applies stablehlo." + op +
                " across dimensions = [0] : (tensor<3x4xf32>, tensor<f32>) -> tensor<4xf32>\nreturn %0 : tensor<4xf32>",
            "tensor<4xf32>")[0]);
  };
  EXPECT_THAT(reduced("add", "0.0"), ElementsAre(12, 15, 18, 21));
  EXPECT_THAT(reduced("add", "1.0"), ElementsAre(13, 16, 19, 22));
  EXPECT_THAT(reduced("maximum", "0xFF800000"), ElementsAre(8, 9, 10, 11));
  EXPECT_THAT(reduced("maximum", "9.5"), ElementsAre(9.5, 9.5, 10, 11));
  EXPECT_THAT(reduced("minimum", "inf"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(reduced("minimum", "-1.0"), ElementsAre(-1, -1, -1, -1));
}

TEST(StablehloForms, ReductionsWithABody) {
  const std::string body = R"(%c = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %c) across dimensions = [0, 1] : (tensor<3x4xf32>, tensor<f32>) -> tensor<f32>
     reducer(%arg0: tensor<f32>, %arg1: tensor<f32>)  {
      %1 = stablehlo.add %arg1, %arg0 : tensor<f32>
      stablehlo.return %1 : tensor<f32>
    }
    return %0 : tensor<f32>)";
  EXPECT_THAT(floats(run(body, "tensor<f32>")[0]), ElementsAre(66));
}

// Of truth values: along an axis of 1, as jnp.take writes it, a reshape; else numbers; an initial value takes part.
TEST(StablehloForms, ReductionsOfTruthValues) {
  const auto reduced = [](const std::string& op, const std::string& init, const std::string& axes,
                          const std::string& to) {
    const std::string text = R"(func.func @main() -> tensor<TOxi32> {
      %x = stablehlo.constant dense<[[[true], [true], [false]], [[true], [true], [true]], [[false], [false], [false]]]> : tensor<3x3x1xi1>
      %c = stablehlo.constant dense<INIT> : tensor<i1>
      %0 = stablehlo.reduce(%x init: %c) applies stablehlo.OP across dimensions = [AXES] : (tensor<3x3x1xi1>, tensor<i1>) -> tensor<TOxi1>
      %1 = stablehlo.convert %0 : (tensor<TOxi1>) -> tensor<TOxi32>
      return %1 : tensor<TOxi32>
    })";
    return import_or_throw(replaced(text, {{"TO", to}, {"INIT", init}, {"OP", op}, {"AXES", axes}}));
  };
  const auto numbers = [](const Graph& graph) { return ints(evaluate_or_throw(graph, {})[0]); };
  EXPECT_THAT(numbers(reduced("and", "true", "1", "3x1")), ElementsAre(0, 1, 0));
  EXPECT_THAT(numbers(reduced("or", "false", "1", "3x1")), ElementsAre(1, 1, 0));
  EXPECT_THAT(numbers(reduced("and", "false", "1", "3x1")), ElementsAre(0, 0, 0));
  EXPECT_THAT(numbers(reduced("or", "true", "1, 2", "3")), ElementsAre(1, 1, 1));
  const Graph moved = reduced("and", "true", "2", "3x3");
  EXPECT_THAT(numbers(moved), ElementsAre(1, 1, 0, 1, 1, 1, 0, 0, 0));
  ASSERT_EQ(moved.order().size(), 3u);
  EXPECT_EQ(moved.node(moved.order()[1]).op, OpKind::reshape);
  // All and any of nothing.
  for (const bool all : {true, false}) {
    const std::string text = R"(func.func @main(%x: tensor<2x0xi1>) -> tensor<2xi32> {
      %c = stablehlo.constant dense<INIT> : tensor<i1>
      %0 = stablehlo.reduce(%x init: %c) applies stablehlo.OP across dimensions = [1] : (tensor<2x0xi1>, tensor<i1>) -> tensor<2xi1>
      %1 = stablehlo.convert %0 : (tensor<2xi1>) -> tensor<2xi32>
      return %1 : tensor<2xi32>
    })";
    const Graph graph = import_or_throw(replaced(text, {{"INIT", all ? "true" : "false"}, {"OP", all ? "and" : "or"}}));
    EXPECT_THAT(ints(evaluate_or_throw(graph, {Tensor::make(DType::kU8, {2, 0})})[0]), testing::Each(all ? 1 : 0));
  }
}

// ---- elements ----

TEST(StablehloForms, Elements) {
  const auto one = [](const std::string& op) {
    return floats(run(
        "%a = stablehlo.constant dense<2.0> : tensor<f32>\n%b = stablehlo.constant dense<9.0> : tensor<f32>\n%0 = " +
            op + "\nreturn %0 : tensor<3x4xf32>",
        "tensor<3x4xf32>")[0]);
  };
  EXPECT_THAT(one("stablehlo.clamp %a, %x, %b : (tensor<f32>, tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xf32>"),
              ElementsAre(2, 2, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9));
  EXPECT_THAT(one("chlo.square %x : tensor<3x4xf32> -> tensor<3x4xf32>")[3], 9);
  EXPECT_THAT(one("stablehlo.exponential %x {mhlo.sharding = \"{replicated}\"} : tensor<3x4xf32>").size(), 12u);
}

TEST(StablehloForms, TruthValues) {
  const std::string body = R"(%t = stablehlo.constant dense<[true, true, false, false]> : tensor<4xi1>
    %f = stablehlo.constant dense<[true, false, true, false]> : tensor<4xi1>
    %0 = stablehlo.xor %t, %f : tensor<4xi1>
    %1 = stablehlo.and %t, %f : tensor<4xi1>
    %2 = stablehlo.not %1 : tensor<4xi1>
    %3 = stablehlo.or %0, %1 : tensor<4xi1>
    %4 = stablehlo.compare EQ, %3, %2, UNSIGNED : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
    %5 = stablehlo.convert %4 : (tensor<4xi1>) -> tensor<4xi32>
    return %5 : tensor<4xi32>)";
  EXPECT_THAT(ints(run(body, "tensor<4xi32>")[0]), ElementsAre(0, 1, 1, 0));
}

TEST(StablehloForms, IntegersOf64BitsBecome32) {
  std::vector<std::string> notes;
  const std::string text = R"(func.func @main(%a: tensor<2xi64>) -> tensor<2xi64> {
    %c = stablehlo.constant dense<"0xFEFFFFFFFFFFFFFF0300000000000000"> : tensor<2xi64>
    %0 = stablehlo.add %a, %c : tensor<2xi64>
    %1 = stablehlo.convert %0 : (tensor<2xi64>) -> tensor<2xi32>
    %2 = stablehlo.convert %1 : (tensor<2xi32>) -> tensor<2xi64>
    return %2 : tensor<2xi64>
  })";
  const Graph graph = import_or_throw(text, {.notes = &notes});
  EXPECT_THAT(notes, ElementsAre("line 1: %a is i64 and is taken as s32",
                                 "line 3: stablehlo.add is of i64 and computed in s32, where a larger result wraps"));
  EXPECT_THAT(ints(evaluate_or_throw(graph, {Tensor::s32({2}, std::vector<int32_t>{5, 5})})[0]), ElementsAre(3, 8));
}

// i32 wraps, in values and in what is known of them.
TEST(StablehloForms, IntegersOf32BitsWrap) {
  EXPECT_THAT(ints(run(R"(%a = stablehlo.constant dense<2000000000> : tensor<i32>
    %b = stablehlo.add %a, %a : tensor<i32>
    %c = stablehlo.constant dense<1000> : tensor<i32>
    %d = stablehlo.divide %b, %c : tensor<i32>
    return %d : tensor<i32>)",
                       "tensor<i32>")[0]),
              ElementsAre(-294967));
}

// ---- literals ----

TEST(StablehloForms, Literals) {
  const auto literal = [](const std::string& text) {
    return floats(run("%0 = stablehlo.constant " + text + " : tensor<2x2xf32>\nreturn %0 : tensor<2x2xf32>",
                      "tensor<2x2xf32>")[0]);
  };
  EXPECT_THAT(literal("dense<[[1.0, -2.5e-1], [0x40490FDB, 3.0]]>"), ElementsAre(1, -0.25, 3.14159274f, 3));
  EXPECT_THAT(literal("dense<-3.40282347E+38>"), testing::Each(-3.40282347e38f));
  EXPECT_THAT(literal("dense<\"0x0000803F\">"), testing::Each(1.0f));
  EXPECT_THAT(literal("dense<\"0x0000803F000000400000404000008040\">"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(literal("dense<[[inf, -inf], [0.0, 1.0]]>"), ElementsAre(INFINITY, -INFINITY, 0, 1));
  EXPECT_TRUE(std::isnan(literal("dense<0x7FC00000>")[3]));
}

// ---- shapes ----

TEST(StablehloForms, DynamicShapes) {
  const std::string text =
      R"(func.func @main(%x: tensor<?x4xf32>) -> (tensor<?x8xf32>, tensor<?xi32>, tensor<?x2xf32>) {
    %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
    %c8 = stablehlo.constant dense<8> : tensor<1xi32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %0 = stablehlo.divide %n, %two : tensor<i32>
    %1 = stablehlo.reshape %0 : (tensor<i32>) -> tensor<1xi32>
    %2 = stablehlo.concatenate %1, %c8, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %3 = stablehlo.dynamic_reshape %x, %2 : (tensor<?x4xf32>, tensor<2xi32>) -> tensor<?x8xf32>
    %4 = stablehlo.add %n, %two : tensor<i32>
    %5 = stablehlo.reshape %4 : (tensor<i32>) -> tensor<1xi32>
    %6 = stablehlo.dynamic_iota %5, dim = 0 : (tensor<1xi32>) -> tensor<?xi32>
    %start = stablehlo.constant dense<[0, 1]> : tensor<2xi32>
    %one = stablehlo.constant dense<1> : tensor<2xi32>
    %7 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
    %c3 = stablehlo.constant dense<3> : tensor<1xi32>
    %8 = stablehlo.concatenate %7, %c3, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %9 = stablehlo.real_dynamic_slice %x, %start, %8, %one : (tensor<?x4xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x2xf32>
    return %3, %6, %9 : tensor<?x8xf32>, tensor<?xi32>, tensor<?x2xf32>
  })";
  // Half of an even number of rows.
  EXPECT_FALSE(import_stablehlo(text).ok());
  const ImportOptions named{.dimensions = {{"x", 0, {.name = "n", .min = 2, .max = 64, .multiple_of = 2}}}};
  const Result<Graph> graph = import_stablehlo(text, named);
  ASSERT_FALSE(graph.ok());  // n / 2 is no sum of symbols, so it is a value and no size
  EXPECT_THAT(
      std::string(graph.status().message()),
      HasSubstr("line 8: stablehlo.dynamic_reshape: the shape must be of numbers, get_dimension_size and sums"));
  std::string without = text;
  without.replace(without.find("stablehlo.divide"), 16, "stablehlo.add   ");
  without.replace(without.find("dense<8>"), 8, "dense<2>");
  for (size_t at; (at = without.find("?x8")) != std::string::npos;) without.replace(at, 3, "?x?");
  // 2 + n rows of 2 have 4 n elements where n = 2.
  const std::vector<Tensor> out =
      evaluate_or_throw(import_or_throw(without, {.dimensions = {{"x", 0, {.name = "n", .min = 2, .max = 64}}}}),
                        {Tensor::f32({2, 4}, std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7})});
  EXPECT_THAT(out[0].shape, ElementsAre(4, 2));
  EXPECT_THAT(ints(out[1]), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(floats(out[2]), ElementsAre(1, 2, 5, 6));
}

TEST(StablehloForms, OpenDimensionsAreUnknown) {
  const Graph graph = import_or_throw(
      "func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {\n%0 = stablehlo.tanh %x : tensor<?x4xf32>\nreturn %0 "
      ": tensor<?x4xf32>\n}");
  EXPECT_TRUE(graph.value(graph.inputs()[0]).type.dims[0].is_unknown());
  EXPECT_FALSE(import_stablehlo("func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }",
                                {.dimensions = {{"x", 0, {.name = "n"}}}})
                   .ok());
  EXPECT_FALSE(import_stablehlo("func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }",
                                {.dimensions = {{"y", 0, {.name = "n"}}}})
                   .ok());
}

// ---- names ----

TEST(StablehloForms, InputsAndNodesAreCalledAsTheTextCallsThem) {
  const std::string text = R"(#loc = loc(unknown)
    #loc1 = loc("params['w'][0]")
    module @jit_f attributes {jax.uses_shape_polymorphism = false} {
      func.func public @main(%arg0: tensor<f32> loc("x"), %arg1: tensor<f32> {mhlo.sharding = "{replicated}", sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>} loc(#loc1), %arg2: tensor<f32> {jax.arg_info = "steps"}, %arg3: tensor<f32> loc(unknown)) -> (tensor<f32> {jax.result_info = ""}) {
        %0 = stablehlo.add %arg0, %arg1 : tensor<f32> loc(#loc5)
        %1 = stablehlo.multiply %arg2, %arg3 : tensor<f32> loc("file.py":1:2 to :3)
        %2 = stablehlo.add %0, %1 : tensor<f32> loc(callsite(#loc5 at #loc1))
        return %2 : tensor<f32> loc(#loc)
      } loc(#loc)
    } loc(#loc)
    #loc5 = loc("jit(f)/jit(main)/layer/add"(#loc))
  )";
  const Graph graph = import_or_throw(text);
  std::vector<std::string> names;
  for (const ValueId v : graph.inputs()) names.push_back(graph.value(v).name);
  EXPECT_THAT(names, ElementsAre("x", "params_w_0", "steps", "arg3"));
  EXPECT_EQ(graph.node(graph.order()[0]).name, "layer_add");
  EXPECT_EQ(graph.name, "jit_f");
}

}  // namespace
}  // namespace hone::graph::stablehlo
