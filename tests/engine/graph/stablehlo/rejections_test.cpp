// What the importer refuses, and how it says so: one line, with the line of the text, what is wrong, and what is right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engine/graph/stablehlo/import.h"
#include "engine/graph/stablehlo/op_table.h"

namespace hone::graph::stablehlo {
namespace {

using ::testing::HasSubstr;

struct Rejection {
  const char* name;
  const char*
      text;  // the body of @main(%x: tensor<2x3xf32>, %i: tensor<2xi32>), from line 2 on; or all, if it has a func
  Code code;
  const char* message;  // a part of it
};

constexpr auto kInvalid = Code::kInvalidArgument;
constexpr auto kUnsupported = Code::kUnsupported;

const Rejection kRejections[] = {
    {"UnknownOp", "%0 = stablehlo.sort %x : tensor<2x3xf32>", kUnsupported,
     "line 2: stablehlo.sort is not supported; supported are: stablehlo.abs, stablehlo.add, "},
    {"UnknownOpGeneric", "%0 = \"stablehlo.sort\"(%x) ({}) : (tensor<2x3xf32>) -> tensor<2x3xf32>", kUnsupported,
     "line 2: stablehlo.sort is not supported; supported are: "},
    {"Bf16", "%0 = stablehlo.convert %x : (tensor<2x3xf32>) -> tensor<2x3xbf16>", kUnsupported,
     "line 2: element type bf16 is not supported; supported are f32, i32, i64 (which becomes s32) and i1"},
    {"F64", "%0 = stablehlo.constant dense<1.0> : tensor<f64>", kUnsupported,
     "line 2: element type f64 is not supported"},
    {"F16", "%0 = stablehlo.constant dense<1.0> : tensor<f16>", kUnsupported,
     "line 2: element type f16 is not supported"},
    {"Unranked", "%0 = stablehlo.add %x, %x : tensor<*xf32>", kUnsupported,
     "line 2: type tensor<*xf32> is not supported"},
    {"Undefined", "%0 = stablehlo.add %x, %y : tensor<2x3xf32>", kInvalid, "line 2: %y is not defined"},
    {"DefinedTwice", "%0 = stablehlo.add %x, %x : tensor<2x3xf32>\n%0 = stablehlo.add %x, %x : tensor<2x3xf32>",
     kInvalid, "line 3: %0 is defined twice"},
    {"WrongResultType", "%0 = stablehlo.add %x, %x : tensor<2x4xf32>", kInvalid,
     "line 2: stablehlo.add: its result is f32[2, 3] and is written as f32[2, 4]"},
    {"WrongOperandType", "%0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>", kInvalid,
     "line 2: stablehlo.transpose: operand 0 is f32[2, 3] and is written as f32[3, 2]"},
    {"DotContraction",
     "%0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<2x3xf32>) -> "
     "tensor<2x3xf32>",
     kInvalid, "line 2: stablehlo.dot_general: "},
    {"DotAlgorithm",
     "%0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1], algorithm = <lhs_precision_type = tf32> : "
     "(tensor<2x3xf32>, "
     "tensor<2x3xf32>) -> tensor<2x2xf32>",
     kUnsupported, "line 2: stablehlo.dot_general: an algorithm is not supported"},
    {"DotPrecision",
     "%0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1], precision = [LOW, LOW] : (tensor<2x3xf32>, "
     "tensor<2x3xf32>) -> "
     "tensor<2x2xf32>",
     kUnsupported, "precision LOW is none of DEFAULT, HIGH, HIGHEST"},
    {"UnknownKey", "%0 = stablehlo.transpose %x, permutation_of = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>",
     kInvalid, "stablehlo.transpose has no attribute 'permutation_of'"},
    {"UnknownAttribute", "%0 = stablehlo.tanh %x {rounding = 3 : i32} : tensor<2x3xf32>", kUnsupported,
     "line 2: stablehlo.tanh: attribute 'rounding' is not supported"},
    {"AttributeTwice",
     "%0 = stablehlo.transpose %x, dims = [1, 0], dims = [0, 1] : (tensor<2x3xf32>) -> tensor<3x2xf32>", kInvalid,
     "dims is given twice"},
    {"MissingAttribute", "%0 = \"stablehlo.transpose\"(%x) : (tensor<2x3xf32>) -> tensor<3x2xf32>", kInvalid,
     "line 2: stablehlo.transpose: attribute permutation is missing"},
    {"TotalOrder",
     "%0 = stablehlo.compare LT, %x, %x, TOTALORDER : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>",
     kUnsupported, "compare_type TOTALORDER on f32 is not supported; supported is FLOAT"},
    {"UnsignedIntegers", "%0 = stablehlo.compare LT, %i, %i, UNSIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>",
     kUnsupported, "compare_type UNSIGNED on s32 is not supported; supported is SIGNED"},
    {"CompareDirection", "%0 = stablehlo.compare LESS, %x, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>",
     kInvalid, "comparison_direction 'LESS' is none of EQ, NE, LT, LE, GT, GE"},
    {"ReduceBody",
     "%c = stablehlo.constant dense<1.0> : tensor<f32>\n%0 = stablehlo.reduce(%x init: %c) applies stablehlo.multiply "
     "across dimensions = "
     "[1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>",
     kUnsupported,
     "line 3: stablehlo.reduce: a body of stablehlo.multiply is not supported; supported are stablehlo.add"},
    {"ReduceOtherBody",
     "%c = stablehlo.constant dense<0.0> : tensor<f32>\n%0 = stablehlo.reduce(%x init: %c) across dimensions = [1] : "
     "(tensor<2x3xf32>, "
     "tensor<f32>) -> tensor<2xf32>\n reducer(%a: tensor<f32>, %b: tensor<f32>) {\n %1 = stablehlo.add %a, %a : "
     "tensor<f32>\n "
     "stablehlo.return %1 : tensor<f32>\n}",
     kUnsupported, "line 3: stablehlo.reduce: its body must be one operation on its two arguments"},
    {"TopKSmallest",
     "%0:2 = chlo.top_k(%x, k = 2) {largest = false} : tensor<2x3xf32> -> (tensor<2x2xf32>, tensor<2x2xi32>)",
     kUnsupported, "line 2: chlo.top_k: the smallest elements are not supported"},
    {"CustomCall", "%0 = stablehlo.custom_call @lapack(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>", kUnsupported,
     "@lapack is not supported; supported are @mhlo.erf, @mhlo.topk, @Sharding"},
    {"I64TooLarge", "%0 = stablehlo.constant dense<4294967296> : tensor<i64>", kInvalid,
     "line 2: 4294967296 does not fit s32, which is what integers become"},
    {"I64Sum", "%a = stablehlo.constant dense<2147483647> : tensor<i64>\n%b = stablehlo.add %a, %a : tensor<i64>",
     kUnsupported, "line 3: stablehlo.add: 4294967294 does not fit s32, which is what integers become"},
    {"I64Product",
     "%a = stablehlo.constant dense<65536> : tensor<2x2xi64>\n%s = stablehlo.constant dense<32768> : tensor<i64>\n"
     "%b = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<i64>) -> tensor<2x2xi64>\n"
     "%c = stablehlo.multiply %a, %b : tensor<2x2xi64>",
     kUnsupported, "line 5: stablehlo.multiply: 2147483648 does not fit s32, which is what integers become"},
    {"Erfc",
     "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n%0 = chlo.erfc %x : tensor<2xf32> -> tensor<2xf32>\n%1 = "
     "stablehlo.multiply %0, %x : tensor<2xf32>\n%2 = stablehlo.log %0 : tensor<2xf32>\n%3 = stablehlo.add %1, %2 : "
     "tensor<2xf32>\nreturn %3 : tensor<2xf32>\n}",
     kUnsupported, "line 2: chlo.erfc: supported only where all that uses it is a product, as in GELU"},
    {"ErfcResult",
     "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n%0 = chlo.erfc %x : tensor<2xf32> -> tensor<2xf32>\n"
     "return %0 : tensor<2xf32>\n}",
     kUnsupported, "line 2: chlo.erfc: supported only where all that uses it is a product, as in GELU"},
    {"LiteralShape", "%0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<3xf32>", kInvalid,
     "line 2: literal: a list of 2 where the type says 3"},
    {"LiteralDepth", "%0 = stablehlo.constant dense<[[1.0], [2.0]]> : tensor<2xf32>", kInvalid,
     "line 2: literal: lists are nested deeper than the type says"},
    {"LiteralElement", "%0 = stablehlo.constant dense<[1.0, x]> : tensor<2xf32>", kInvalid,
     "line 2: 'x' in a literal of f32: expected a number"},
    {"BlobLength", "%0 = stablehlo.constant dense<\"0x0000803F00\"> : tensor<2xf32>", kInvalid,
     "line 2: a blob of 5 bytes for 2 elements of f32"},
    {"BlobDigit", "%0 = stablehlo.constant dense<\"0x0000803G\"> : tensor<f32>", kInvalid,
     "line 2: a blob has a character that is no hexadecimal digit"},
    {"ResourceMissing", "%0 = stablehlo.constant dense_resource<__elided__> : tensor<2xf32>", kInvalid,
     "line 2: dense_resource<__elided__> has no blob in dialect_resources"},
    {"GatherWindow",
     "%0 = \"stablehlo.gather\"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2], start_index_map "
     "= [1], index_vector_dim = 1>, "
     "slice_sizes = array<i64: 2, 2>}> : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<2x2x2xf32>",
     kUnsupported, "line 2: stablehlo.gather: windows of 2 along dimension 1, which is indexed, are not supported"},
    {"GatherUnknownNumbers",
     "%0 = \"stablehlo.gather\"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset = [0]>, slice_sizes = "
     "array<i64: 1, 3>}> : "
     "(tensor<2x3xf32>, tensor<2xi32>) -> tensor<2x3xf32>",
     kInvalid, "line 2: stablehlo.gather: dimension_numbers has no offset"},
    {"OpenDimensionAsValue", "%0 = stablehlo.get_dimension_size %x, dim = 2 : (tensor<2x3xf32>) -> tensor<i32>",
     kInvalid, "line 2: stablehlo.get_dimension_size: dimension 2 of f32[2, 3]"},
    {"DynamicShape", "%0 = stablehlo.dynamic_reshape %x, %i : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<?x?xf32>",
     kUnsupported,
     "line 2: stablehlo.dynamic_reshape: the shape must be of numbers, get_dimension_size and sums of them"},
    {"SliceLimit",
     "%s = stablehlo.constant dense<0> : tensor<2xi32>\n%l = stablehlo.constant dense<[2, -1]> : tensor<2xi32>\n"
     "%t = stablehlo.constant dense<1> : tensor<2xi32>\n%0 = stablehlo.real_dynamic_slice %x, %s, %l, %t : "
     "(tensor<2x3xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x?xf32>",
     kInvalid, "line 5: stablehlo.real_dynamic_slice: the limit of dimension 1 is -1 and must be at least 0"},
    {"SliceStart",
     "%s = stablehlo.constant dense<[0, -1]> : tensor<2xi32>\n%l = stablehlo.constant dense<[2, 3]> : tensor<2xi32>\n"
     "%t = stablehlo.constant dense<1> : tensor<2xi32>\n%0 = stablehlo.real_dynamic_slice %x, %s, %l, %t : "
     "(tensor<2x3xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x?xf32>",
     kInvalid, "line 5: stablehlo.real_dynamic_slice: the start of dimension 1 is -1 and must be at least 0"},
    {"SliceStride",
     "%s = stablehlo.constant dense<0> : tensor<2xi32>\n%l = stablehlo.constant dense<[2, 3]> : tensor<2xi32>\n"
     "%t = stablehlo.constant dense<[1, 0]> : tensor<2xi32>\n%0 = stablehlo.real_dynamic_slice %x, %s, %l, %t : "
     "(tensor<2x3xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x?xf32>",
     kInvalid, "line 5: stablehlo.real_dynamic_slice: the stride of dimension 1 is 0 and must be at least 1"},
    {"ReduceTruthBody",
     "%t = stablehlo.constant dense<true> : tensor<2xi1>\n%c = stablehlo.constant dense<false> : tensor<i1>\n%0 = "
     "stablehlo.reduce(%t init: %c) applies stablehlo.xor across dimensions = [0] : (tensor<2xi1>, tensor<i1>) -> "
     "tensor<i1>",
     kUnsupported, "line 4: stablehlo.reduce: a body of stablehlo.xor on i1 is not supported; supported are "},
    {"FunctionTwice", "module { func.func @main() { return }\nfunc.func @main() { return } }", kInvalid,
     "line 2: function @main is there twice"},
    {"NoReturn", "func.func @main() { }", kInvalid, "a function must end in return"},
    {"AfterReturn", "return %x : tensor<2x3xf32>\n%0 = stablehlo.add %x, %x : tensor<2x3xf32>", kInvalid,
     "line 2: operations after a return"},
    {"Syntax", "%0 = stablehlo.add %x %x : tensor<2x3xf32>", kInvalid, "line 2, column "},
    {"OpenString", "%0 = \"stablehlo.add", kInvalid, "line 2, column 6: a string is not closed"},
    {"OpenType", "%0 = stablehlo.add %x, %x : tensor<2x3xf32", kInvalid,
     "line 2, column 29: a tensor type is not closed"},
    {"NoMain", "module { func.func @other() { return } }", kInvalid, "the module has no function @main"},
    {"Recursion",
     "module { func.func @main(%x: tensor<f32>) -> tensor<f32> { %0 = call @main(%x) : (tensor<f32>) -> "
     "tensor<f32>\nreturn %0 : tensor<f32> } }",
     kUnsupported, "line 1: calls are nested deeper than 64; recursion is not supported"},
    {"Callee", "%0 = call @f(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>", kInvalid,
     "line 2: func.call: the module has no function @f"},
    {"Alias",
     "module { func.func @main(%x: tensor<f32> {tf.aliasing_output = 1 : i32}) -> tensor<f32> { return %x : "
     "tensor<f32> } }",
     kInvalid, "line 1: tf.aliasing_output of %x must be the number of a result of its type"},
    {"Blocks", "module { func.func @main() {\n^bb0:\n return\n^bb1:\n return } }", kInvalid,
     "branches between blocks are not supported"},
    {"Empty", "module { }", kInvalid, "expected a module with a function"},
};

std::string module_of(const Rejection& r) {
  const std::string text = r.text;
  if (text.find("func.func") != std::string::npos || text.starts_with("module")) return text;
  return "func.func public @main(%x: tensor<2x3xf32>, %i: tensor<2xi32>) -> tensor<2x3xf32> {\n" + text +
         "\nreturn %x : tensor<2x3xf32>\n}";
}

class StablehloRejection : public testing::TestWithParam<Rejection> {};

TEST_P(StablehloRejection, SaysWhatIsWrong) {
  const Result<Graph> graph = import_stablehlo(module_of(GetParam()));
  ASSERT_FALSE(graph.ok());
  EXPECT_EQ(graph.status().code(), GetParam().code) << graph.status().message();
  EXPECT_THAT(std::string(graph.status().message()), HasSubstr(GetParam().message));
  EXPECT_EQ(std::string(graph.status().message()).find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(All, StablehloRejection, testing::ValuesIn(kRejections),
                         [](const auto& of) { return std::string(of.param.name); });

// One list: what the message names is what the table has.
TEST(StablehloRejections, TheListOfOpsIsTheTable) {
  const std::string message(unsupported_op(1, "stablehlo.sort").message());
  for (const OpRow& row : op_table()) {
    if (row.handler != OpHandler::misplaced_return) {
      EXPECT_THAT(message, HasSubstr(std::string(row.name)));
    }
  }
}

// Text that has no end of brackets.
TEST(StablehloRejections, DepthIsBounded) {
  const std::string deep(100'000, '[');
  EXPECT_FALSE(import_stablehlo("module attributes {a = " + deep + "} { func.func @main() { return } }").ok());
  std::string regions = "func.func @main() {\n";
  for (int i = 0; i < 100'000; ++i) regions += "\"x.y\"() ({\n";
  EXPECT_FALSE(import_stablehlo(regions).ok());
}

std::string message_of(const std::string& text) {
  const Result<Graph> graph = import_stablehlo(text);
  return graph.ok() ? "" : std::string(graph.status().message());
}

// Lists that a reader would go through again and again; and one value a million times over.
TEST(StablehloRejections, ListsAreBounded) {
  const auto list = [](int n, const std::string& item, const std::string& between) {
    std::string text;
    for (int i = 0; i < n; ++i) text += (i ? between : "") + item + (item == "a" ? std::to_string(i) + " = 1" : "");
    return text;
  };
  const std::string head = "func.func @main(%x: tensor<1xf32>) {\n";
  const auto joined = [&](int n) {
    return "stablehlo.concatenate " + list(n, "%x", ", ") + ", dim = 0 : (" + list(n, "tensor<1xf32>", ", ") +
           ") -> tensor<" + std::to_string(n) + "xf32>\n";
  };
  EXPECT_EQ(message_of(head + "%0 = " + joined(4096) + "return }"), "");
  EXPECT_THAT(message_of(head + "%0 = " + joined(4097) + "return }"), HasSubstr("expected at most 4096 operands"));
  EXPECT_THAT(message_of(head + list(4097, "%r", ", ") + " = stablehlo.tanh %x : tensor<1xf32>\nreturn }"),
              HasSubstr("expected at most 4096 results"));
  EXPECT_EQ(message_of("module attributes {" + list(4096, "a", ", ") + "} { " + head + "return } }"), "");
  EXPECT_THAT(message_of("module attributes {" + list(4097, "a", ", ") + "} { " + head + "return } }"),
              HasSubstr("expected at most 4096 entries"));
  std::string twice = "func.func private @f0(%x: tensor<1xf32>) {\n%0 = " + joined(4096) + "return }\n";
  for (int i = 1; i < 9; ++i)
    twice += "func.func private @f" + std::to_string(i) + "(%x: tensor<1xf32>) {\ncall @f" + std::to_string(i - 1) +
             "(%x) : (tensor<1xf32>) -> ()\ncall @f" + std::to_string(i - 1) +
             "(%x) : (tensor<1xf32>) -> ()\nreturn }\n";
  EXPECT_THAT(message_of(twice + head + "call @f8(%x) : (tensor<1xf32>) -> ()\nreturn }"),
              HasSubstr("line 2: more than 1000000 operands after inlining"));
}

// A call in a call in a call, each twice: the text is short, what it means is not.
TEST(StablehloRejections, InliningIsBounded) {
  std::string text =
      "func.func @f0(%x: tensor<f32>) -> tensor<f32> {\n%0 = stablehlo.add %x, %x : tensor<f32>\nreturn %0 : "
      "tensor<f32>\n}\n";
  for (int i = 1; i < 40; ++i)
    text += "func.func @f" + std::to_string(i) + "(%x: tensor<f32>) -> tensor<f32> {\n%0 = call @f" +
            std::to_string(i - 1) + "(%x) : (tensor<f32>) -> tensor<f32>\n%1 = call @f" + std::to_string(i - 1) +
            "(%0) : (tensor<f32>) -> tensor<f32>\nreturn %1 : tensor<f32>\n}\n";
  const Result<Graph> graph = import_stablehlo(text, {.function = "f39"});
  ASSERT_FALSE(graph.ok());
  EXPECT_THAT(std::string(graph.status().message()), HasSubstr("operations after inlining"));
}

}  // namespace
}  // namespace hone::graph::stablehlo
