// Every op: a right use with its result type, wrong uses with what the error says.
#include "engine/graph/infer.h"

#include "tests/engine/graph/graph_testing.h"

namespace hone::graph {
namespace {

using std::string;
using ::testing::HasSubstr;

struct Case {
  OpKind op;
  std::vector<string> operands;
  Attributes attributes;
  string wanted;  // "": none
  string result;  // types, or what the error has in it
};

Result<std::vector<TensorType>> infer(const Case& c) {
  std::vector<TensorType> operands;
  for (const string& t : c.operands) operands.push_back(type_of(t));
  TensorType wanted;
  if (!c.wanted.empty()) wanted = type_of(c.wanted);
  return infer_types({c.op, operands, c.attributes, c.wanted.empty() ? nullptr : &wanted, Dim::symbol("p")});
}

class InferRight : public ::testing::TestWithParam<Case> {};
TEST_P(InferRight, HasTheType) {
  const auto types = infer(GetParam());
  ASSERT_TRUE(types.ok()) << types.status().message();
  EXPECT_EQ(text_of(*types), GetParam().result);
}

class InferWrong : public ::testing::TestWithParam<Case> {};
TEST_P(InferWrong, SaysWhat) {
  const auto types = infer(GetParam());
  ASSERT_FALSE(types.ok()) << text_of(*types);
  EXPECT_EQ(types.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(types.status().message(), HasSubstr(GetParam().result));
  EXPECT_THAT(types.status().message(), ::testing::StartsWith(string(op_info(GetParam().op).name) + ": "));
}

string test_name(const ::testing::TestParamInfo<Case>& info) {
  return string(op_info(info.param.op).name) + "_" + std::to_string(info.index);
}

using enum OpKind;

Attributes with(string name, Attribute value) { return {{std::move(name), std::move(value)}}; }
Attributes dot(Ints lb, Ints rb, Ints lc, Ints rc) {
  return {{"lhs_batch", lb}, {"rhs_batch", rb}, {"lhs_contract", lc}, {"rhs_contract", rc}};
}
Attributes matmul_with(string layout, string epilogue) { return {{"layout", layout}, {"epilogue", epilogue}}; }
const Attributes kNt = with("layout", string("nt")), kNn = with("layout", string("nn"));
const Attributes kCausal = with("causal", true), kHalf = with("style", string("half"));
const Attributes kEps = with("eps", 1e-5);
Attributes rope_at(Attribute offset) { return {{"style", string("half")}, {"offset", std::move(offset)}}; }
Attributes slice_with(Ints start, Ints limit) { return {{"start", start}, {"limit", limit}}; }
Attributes slice_with(Ints start, Ints limit, Ints stride) {
  return {{"start", start}, {"limit", limit}, {"stride", stride}};
}
Attributes reduce_with(string kind, Ints axes) { return {{"kind", kind}, {"axes", axes}}; }
Attributes causal_and(string name, Attribute value) { return {{"causal", true}, {name, value}}; }

INSTANTIATE_TEST_SUITE_P(
    Elements, InferRight,
    ::testing::Values(
        Case{constant, {}, {}, "f32[2, 3]", "f32[2, 3]"},
        Case{iota, {}, with("axis", int64_t{1}), "s32[2, s]", "s32[2, s]"},
        Case{convert, {"f32[s]"}, {}, "u8[?]", "u8[s]"},  //
        Case{neg, {"s32[]"}, {}, "", "s32[]"},            //
        Case{exp, {"f32[s, 4]"}, {}, "", "f32[s, 4]"}, Case{add, {"f32[?, 4]", "f32[s, ?]"}, {}, "", "f32[s, 4]"},
        Case{mul, {"f32[s]", "f32[128]"}, {}, "", "f32[128]"}, Case{max, {"s32[2]", "s32[2]"}, {}, "", "s32[2]"},
        Case{pow, {"f32[2]", "f32[2]"}, {}, "", "f32[2]"}, Case{logical_and, {"u8[2]", "u8[2]"}, {}, "", "u8[2]"},
        Case{compare, {"s32[2]", "s32[2]"}, with("direction", string("LT")), "", "u8[2]"},
        Case{select, {"u8[]", "f32[2]", "f32[2]"}, {}, "", "f32[2]"},
        Case{select, {"u8[2]", "f32[?]", "f32[?]"}, {}, "", "f32[2]"}),
    test_name);

INSTANTIATE_TEST_SUITE_P(
    Elements, InferWrong,
    ::testing::Values(
        Case{constant, {}, {}, "", "result type must be given"}, Case{constant, {}, {}, "f32[s]", "must be static"},
        Case{iota, {}, with("axis", int64_t{2}), "s32[2, s]", "axis 2 is not in 0..1"},
        Case{iota, {}, with("axis", int64_t{0}), "s32[]", "a scalar has no axes"},
        Case{iota, {}, {}, "s32[2]", "attribute 'axis' is missing"},
        Case{iota, {}, with("axis", int64_t{0}), "u8[2]", "must be f32 or s32"},
        Case{iota, {}, with("axis", 0.5), "s32[2]", "attribute 'axis' must be an integer"},
        Case{convert, {"f32[3]"}, {}, "s32[2]", "dimension 0 is 3 and must be 2"},
        Case{convert, {"f32[3]"}, {}, "bf16[3]", "the result is bf16[3]; bf16 and f16 are for weights"},
        Case{add, {"f32[3]", "bf16[3]"}, {}, "", "operand 1 is bf16[3]; bf16 and f16 are for weights: matmul's b"},
        Case{exp, {"s32[3]"}, {}, "", "operand 0 is s32[3] and must be f32"},
        Case{exp, {"f32[3]"}, with("axis", int64_t{0}), "", "has no attribute 'axis': it has none"},
        Case{exp, {}, {}, "", "has 0 operands and takes 1"},
        Case{add, {"f32[3]", "s32[3]"}, {}, "", "operand 1 is s32[3] and must be as operand 0, f32[3]"},
        Case{add, {"f32[3]", "f32[3, 1]"}, {}, "", "must be as operand 0"},
        Case{add, {"f32[s]", "f32[s + 1]"}, {}, "", "dimension 0 is s + 1 and must be s"},
        Case{pow, {"s32[3]", "s32[3]"}, {}, "", "must be f32"},
        Case{logical_or, {"f32[2]", "u8[2]"}, {}, "", "must be u8"},
        Case{compare, {"f32[2]", "f32[2]"}, with("direction", string("LESS")), "", "must be one of \"EQ\""},
        Case{select, {"f32[2]", "f32[2]", "f32[2]"}, {}, "", "operand 0 (c) is f32[2] and must be u8"},
        Case{select, {"u8[3]", "f32[2]", "f32[2]"}, {}, "", "operand 0 (c) is u8[3]"},
        Case{neg, {"f32[-1]"}, {}, "", "operand 0 is f32[-1]: dimension 0 must be in 0..2^40"},
        Case{neg, {"f32[1048576, 1048576, 2]"}, {}, "", "more than 2^40 elements"},
        Case{neg, {"f32[1048576, 1048576, 2, 0]"}, {}, "", "more than 2^40 elements"},
        Case{neg, {"f32[1,1,1,1,1,1,1,1,1,1,1,1,1]"}, {}, "", "13 dimensions; at most 12"}),
    test_name);

INSTANTIATE_TEST_SUITE_P(
    Shapes, InferRight,
    ::testing::Values(Case{broadcast, {"f32[4]"}, with("dims", Ints{1}), "f32[s, 4]", "f32[s, 4]"},
                      Case{broadcast, {"f32[1, 4]"}, with("dims", Ints{0, 2}), "f32[8, 3, 4]", "f32[8, 3, 4]"},
                      Case{broadcast, {"s32[]"}, with("dims", Ints{}), "s32[8]", "s32[8]"},
                      Case{broadcast, {"f32[s]"}, with("dims", Ints{0}), "f32[?, 2]", "f32[s, 2]"},
                      Case{reshape, {"f32[s, 2048]"}, {}, "f32[?, 32, 64]", "f32[s, 32, 64]"},
                      Case{reshape, {"f32[s, 32, 64]"}, {}, "f32[s, ?]", "f32[s, 2048]"},
                      Case{reshape, {"f32[6, 4]"}, {}, "f32[?, 3]", "f32[8, 3]"},
                      Case{reshape, {"f32[s, 4]"}, {}, "f32[2*s, 2]", "f32[2*s, 2]"},
                      Case{reshape, {"f32[s, 4]"}, {}, "f32[4*s]", "f32[4*s]"},
                      Case{reshape, {"f32[?, 4]"}, {}, "f32[s, 2, 2]", "f32[s, 2, 2]"},
                      Case{reshape, {"f32[0, 4]"}, {}, "f32[2, 0]", "f32[2, 0]"},
                      Case{reshape, {"f32[]"}, {}, "f32[1, 1]", "f32[1, 1]"},
                      Case{transpose, {"f32[s, 2, 3]"}, with("perm", Ints{1, 2, 0}), "", "f32[2, 3, s]"},
                      Case{slice, {"f32[8, s]"}, slice_with({2, 0}, {7, -1}, {2, 1}), "", "f32[3, s]"},
                      Case{slice, {"f32[s]"}, slice_with({1}, {-1}), "", "f32[s - 1]"},
                      Case{slice, {"f32[8]"}, slice_with({1}, {-1}), "", "f32[7]"},
                      Case{slice, {"f32[s]"}, slice_with({0}, {4}), "", "f32[4]"},
                      Case{concatenate, {"f32[2, p]", "f32[2, s]"}, with("axis", int64_t{1}), "", "f32[2, p + s]"},
                      Case{gather, {"f32[1000, 64]", "s32[s]"}, {}, "", "f32[s, 64]"},
                      Case{gather, {"f32[1000]", "s32[]"}, {}, "", "f32[]"},
                      Case{gather, {"bf16[1000, 64]", "s32[s]"}, {}, "", "f32[s, 64]"},
                      Case{concatenate, {"f16[2, 3]", "f16[4, 3]"}, with("axis", int64_t{0}), "", "f16[6, 3]"},
                      Case{dynamic_slice, {"f32[8, 4]", "s32[]", "s32[]"}, with("sizes", Ints{2, 4}), "", "f32[2, 4]"},
                      Case{dynamic_update_slice, {"f32[8]", "f32[s]", "s32[]"}, {}, "", "f32[8]"}),
    test_name);

INSTANTIATE_TEST_SUITE_P(
    Shapes, InferWrong,
    ::testing::Values(
        Case{broadcast, {"f32[4]"}, with("dims", Ints{1}), "", "result type must be given"},
        Case{broadcast, {"f32[4]"}, with("dims", Ints{0, 1}), "f32[4, 4]", "dims has 2 entries"},
        Case{broadcast, {"f32[4, 4]"}, with("dims", Ints{1, 1}), "f32[4, 4]", "dims names axis 1 twice"},
        Case{broadcast, {"f32[4]"}, with("dims", Ints{2}), "f32[4, 4]", "dims 2 is not in 0..1"},
        Case{broadcast, {"f32[4]"}, with("dims", Ints{0}), "f32[5, 4]", "dimension 0 is 4 and must be 1 or 5"},
        Case{reshape, {"f32[6, 4]"}, {}, "f32[5, 5]", "not as many elements"},
        Case{reshape, {"f32[6, 4]"}, {}, "f32[?, 5]", "not as many elements"},
        Case{reshape, {"f32[s, 4]"}, {}, "f32[s, 5]", "not as many elements"},
        Case{transpose, {"f32[2, 3]"}, with("perm", Ints{0}), "", "perm has 1 entries"},
        Case{transpose, {"f32[2, 3]"}, with("perm", Ints{0, 0}), "", "perm names axis 0 twice"},
        Case{slice, {"f32[8]"}, slice_with({0}, {9}), "", "limit is beyond the dimension"},
        Case{slice, {"f32[8]"}, slice_with({5}, {4}), "", "start is beyond the limit"},
        Case{slice, {"f32[8]"}, slice_with({-1}, {4}), "", "start must be 0 or more"},
        Case{slice, {"f32[8]"}, slice_with({0}, {4}, {0}), "", "stride must be 1 or more"},
        Case{slice, {"f32[s]"}, slice_with({0}, {-1}, {2}), "", "stride must be 1 where"},
        Case{slice, {"f32[8, 8]"}, slice_with({0}, {4}), "", "one entry for each of the 2"},
        Case{slice, {"f32[8]"}, slice_with({0}, {INT64_MAX}), "", "limit too"},
        Case{concatenate, {"f32[2]", "s32[2]"}, with("axis", int64_t{0}), "", "operand 1 is s32[2]"},
        Case{concatenate, {"f32[2, 3]", "f32[2, 4]"}, with("axis", int64_t{0}), "", "dimension 1 is 4 and must be 3"},
        Case{concatenate, {}, with("axis", int64_t{0}), "", "has 0 operands and takes at least 1"},
        Case{gather, {"f32[]", "s32[2]"}, {}, "", "operand 0 (x) is f32[] and must have 1 or more dimensions"},
        Case{gather, {"f32[4]", "f32[2]"}, {}, "", "operand 1 (indices) is f32[2] and must be s32"},
        Case{gather, {"f32[4]", "f16[2]"}, {}, "", "operand 1 (indices) is f16[2]; bf16 and f16 are for weights"},
        Case{concatenate, {"f32[2]", "f16[2]"}, with("axis", int64_t{0}), "", "operand 1 is f16[2] and must be as"},
        Case{broadcast, {"bf16[4]"}, with("dims", Ints{1}), "bf16[2, 4]", "operand 0 is bf16[4]; bf16 and f16 are for"},
        Case{dynamic_slice, {"f32[8, 4]", "s32[]"}, with("sizes", Ints{2, 4}), "", "has 1 starts"},
        Case{dynamic_slice, {"f32[8]", "s32[1]"}, with("sizes", Ints{2}), "", "operand 1 (start) is s32[1]"},
        Case{dynamic_slice, {"f32[8]", "s32[]"}, with("sizes", Ints{9}), "", "size 9 of dimension 0 is not in 0..8"},
        Case{dynamic_update_slice, {"f32[8]", "f32[9]", "s32[]"}, {}, "", "dimension 0 must be at most 8"},
        Case{dynamic_update_slice, {"f32[8]", "s32[2]", "s32[]"}, {}, "", "must have dtype and rank"}),
    test_name);

INSTANTIATE_TEST_SUITE_P(
    Sums, InferRight,
    ::testing::Values(Case{reduce, {"f32[s, 4, 5]"}, reduce_with("sum", {0, 2}), "", "f32[4]"},
                      Case{reduce, {"s32[4]"}, reduce_with("max", {0}), "", "s32[]"},
                      Case{
                          dot_general, {"f32[2, s, 8]", "f32[2, 16, 8]"}, dot({0}, {0}, {2}, {2}), "", "f32[2, s, 16]"},
                      Case{dot_general, {"f32[3, 4]", "f32[4, 3, 5]"}, dot({}, {}, {0, 1}, {1, 0}), "", "f32[5]"},
                      Case{top_k, {"f32[s, 8]"}, with("k", int64_t{2}), "", "f32[s, 2] s32[s, 2]"}),
    test_name);

INSTANTIATE_TEST_SUITE_P(
    Sums, InferWrong,
    ::testing::Values(
        Case{reduce, {"f32[4]"}, reduce_with("mean", {0}), "", "kind is \"mean\""},
        Case{reduce, {"f32[4]"}, reduce_with("sum", {1}), "", "axes 1 is not in 0..0"},
        Case{reduce, {"u8[4]"}, reduce_with("max", {0}), "", "must be f32 or s32"},
        Case{dot_general, {"f32[2, 4]", "f32[2, 5]"}, dot({}, {}, {1}, {1}), "", "dimension 1 is 5 and must be 4"},
        Case{dot_general, {"f32[2, 4]", "f32[2, 4]"}, dot({1}, {1}, {1}, {1}), "", "axis 1 of operand 0 (lhs) is in"},
        Case{dot_general, {"f32[2, 4]", "f32[2, 4]"}, dot({0}, {}, {1}, {1}), "", "they go in pairs"},
        Case{dot_general, {"f32[2, 4]", "f32[2, 4]"}, {}, "", "'lhs_contract' is missing"},
        Case{top_k, {"f32[s, 8]"}, with("k", int64_t{9}), "", "k is 9 and must be in 1..8"},
        Case{top_k, {"f32[s, 8]"}, with("k", int64_t{0}), "", "k is 0"},
        Case{top_k, {"s32[s, 8]"}, with("k", int64_t{1}), "", "must be f32"}),
    test_name);

const std::vector<string> kExperts = {"f32[s, 8]",     "s32[s, 2]",     "f32[s, 2]",
                                      "f32[4, 16, 8]", "f32[4, 16, 8]", "f32[4, 8, 16]"};
std::vector<string> experts_with(size_t i, string type) {
  std::vector<string> types = kExperts;
  types[i] = std::move(type);
  return types;
}

INSTANTIATE_TEST_SUITE_P(
    Decoder, InferRight,
    ::testing::Values(
        Case{matmul, {"f32[s, 8]", "f32[16, 8]"}, kNt, "", "f32[s, 16]"},
        Case{matmul, {"f32[2, s, 8]", "f32[8, 16]"}, kNn, "", "f32[2, s, 16]"},
        Case{matmul, {"f32[2, s, 8]", "bf16[8, 16]"}, kNn, "", "f32[2, s, 16]"},
        Case{matmul, {"f32[s, 8]", "f16[16, 8]"}, kNt, "", "f32[s, 16]"},
        Case{matmul, {"f32[8]", "f32[16, 8]"}, kNt, "", "f32[16]"},
        Case{matmul,
             {"f32[s, 8]", "f32[16, 8]", "f32[16]", "f32[s, 16]", "f32[s, 16]"},
             matmul_with("nt", "+bias+gelu*gate+residual"),
             "",
             "f32[s, 16]"},
        Case{matmul,
             {"f32[s, 8]", "f32[64, 8]", "f32[64]", "f32[s, 32]"},
             matmul_with("nt", "+bias+swiglu+residual"),
             "",
             "f32[s, 32]"},
        Case{attention, {"f32[s, 8, 64]", "f32[p + s, 2, 64]", "f32[p + s, 2, 32]"}, kCausal, "", "f32[s, 8, 32]"},
        Case{attention,
             {"f32[2, s, 8, 64]", "f32[2, t, 8, 64]", "f32[2, t, 8, 64]", "u8[2, s, t]"},
             causal_and("group", int64_t{1}),
             "",
             "f32[2, s, 8, 64]"},
        Case{attention, {"f32[s, 8, 64]", "f32[t, 8, 64]", "f32[t, 8, 64]", "f32[s, t]"}, kCausal, "", "f32[s, 8, 64]"},
        Case{rms_norm, {"f32[s, 8]", "f32[8]"}, kEps, "", "f32[s, 8]"},
        Case{rms_scale, {"f32[3, s, 8]"}, kEps, "", "f32[3, s]"},
        Case{matmul,
             {"f32[3, s, 8]", "f32[64, 8]", "f32[3, s]", "f32[64]"},
             matmul_with("nt", "*row_scale+bias+swiglu"),
             "",
             "f32[3, s, 32]"},
        Case{layer_norm, {"f32[s, 8]", "f32[8]", "f32[8]"}, kEps, "", "f32[s, 8]"},
        Case{layer_norm, {"f32[s, 8]", "f32[8]"}, kEps, "", "f32[s, 8]"},
        Case{rope, {"f32[s, 4, 64]", "f32[32]"}, rope_at(Dim::symbol("p")), "", "f32[s, 4, 64]"},
        Case{rope, {"f32[s, 4, 64]", "f32[32]", "s32[s]"}, kHalf, "", "f32[s, 4, 64]"},
        Case{softmax, {"f32[s, 4]"}, with("scale", 0.5), "", "f32[s, 4]"},
        Case{silu, {"f32[s, 4]"}, {}, "", "f32[s, 4]"},
        Case{gelu, {"f32[s, 4]"}, with("approximate", string("erf")), "", "f32[s, 4]"},
        Case{swiglu, {"f32[s, 4]", "f32[s, 4]"}, {}, "", "f32[s, 4]"}, Case{experts, kExperts, {}, "", "f32[s, 8]"},
        Case{kv_append, {"f32[512, 2, 64]", "f32[s, 2, 64]"}, {}, "", "f32[p + s, 2, 64]"}),
    test_name);

INSTANTIATE_TEST_SUITE_P(
    Decoder, InferWrong,
    ::testing::Values(
        Case{matmul,
             {"f32[s, 8]", "f32[16, 9]"},
             kNt,
             "",
             "operand 1 (b) is f32[16, 9]: dimension 1 is 9 and must be 8"},
        Case{matmul, {"f32[s, 8]", "f32[16, 8]"}, kNn, "", "dimension 0 is 16 and must be 8"},
        Case{matmul,
             {"bf16[s, 8]", "bf16[16, 8]"},
             kNt,
             "",
             "operand 0 (a) is bf16[s, 8]; bf16 and f16 are for weights"},
        Case{matmul, {"f32[s, 8]", "u8[16, 8]"}, kNt, "", "operand 1 (b) is u8[16, 8] and must be f32 or bf16 or f16"},
        Case{matmul, {"f32[s, 8]", "f32[16, 8]"}, with("layout", string("tn")), "", "layout is \"tn\""},
        Case{matmul, {"f32[s, 8]", "f32[2, 16, 8]"}, kNt, "", "must have 2 dimensions"},
        Case{matmul, {"f32[s, 8]", "f32[16, 8]"}, matmul_with("nt", "+bias"), "", "has no operand for its bias"},
        Case{matmul, {"f32[s, 8]", "f32[16, 8]", "f32[8]"}, matmul_with("nt", "+bias"), "", "is 8 and must be 16"},
        Case{matmul, {"f32[s, 8]", "f32[16, 8]", "f32[16]"}, kNt, "", "has 3 operands and its epilogue '' takes 2"},
        Case{matmul, {"f32[s, 8]", "f32[16, 8]"}, matmul_with("nt", "+foo"), "", "unknown epilogue op 'foo'"},
        Case{matmul, {"f32[s, 8]", "f32[48, 8]"}, matmul_with("nt", "+swiglu"), "", "48, no multiple of 32"},
        Case{matmul, {"f32[s, 8]", "f32[16, 8]", "f32[16]"}, matmul_with("nt", "*gate"), "", "must be as the gate"},
        Case{attention,
             {"f32[s, 8, 64]", "f32[t, 3, 64]", "f32[t, 3, 64]"},
             kCausal,
             "",
             "8 heads, which must be a mult"},
        Case{attention, {"f32[s, 8, 64]", "f32[t, 2, 32]", "f32[t, 2, 64]"}, kCausal, "", "operand 1 (k)"},
        Case{attention, {"f32[s, 8, 64]", "f32[4, 2, 64]", "f32[5, 2, 64]"}, kCausal, "", "the rows of k"},
        Case{attention, {"f32[s, 8, 64]", "f32[t, 2, 64]", "f32[t, 4, 64]"}, kCausal, "", "the heads of k"},
        Case{attention, {"f32[s, 8, 64]", "f32[t, 0, 64]", "f32[t, 0, 64]"}, kCausal, "", "multiple of the 0"},
        Case{attention, {"f32[8, 64]", "f32[t, 2, 64]", "f32[t, 2, 64]"}, kCausal, "", "must have 3 to 4 dimensions"},
        Case{attention,
             {"f32[2, 8, 64]", "f32[4, 8, 64]", "f32[4, 8, 64]", "u8[2, 5]"},
             kCausal,
             "",
             "operand 3 (mask)"},
        Case{attention, {"f32[2, 8, 64]", "f32[4, 8, 64]", "f32[4, 8, 64]", "s32[2, 4]"}, kCausal, "", "f32 or u8"},
        Case{attention,
             {"f32[s, 8, 64]", "f32[t, 2, 64]", "f32[t, 2, 64]"},
             causal_and("group", int64_t{2}),
             "",
             "group is 2 and must be 4"},
        Case{attention,
             {"f32[s, 8, 64]", "f32[t, 2, 64]", "f32[t, 2, 64]"},
             causal_and("scale", INFINITY),
             "",
             "'scale' must be a finite number"},
        Case{attention,
             {"f32[s, 8, 64]", "f32[t, 2, 64]", "f32[t, 2, 64]"},
             causal_and("window", int64_t{-1}),
             "",
             "window is -1"},
        Case{rms_norm, {"f32[s, 8]", "f32[9]"}, kEps, "", "operand 1 (w) is f32[9]"},
        Case{rms_norm, {"f32[s, 8]", "f32[8]"}, with("eps", -1.0), "", "eps is -1"},
        Case{rms_norm, {"f32[s, 8]", "f32[8]"}, {}, "", "'eps' is missing"},
        Case{rms_scale, {"f32[]"}, kEps, "", "must have 1 or more dimensions"},
        Case{rms_scale, {"f32[s, 8]"}, {}, "", "'eps' is missing"},
        Case{matmul,
             {"f32[3, 8]", "f32[16, 8]", "f32[16]"},
             matmul_with("nt", "*row_scale"),
             "",
             "a factor for each row of the result"},
        Case{layer_norm, {"f32[s, 8]", "f32[8]", "f32[9]"}, kEps, "", "operand 2 (b)"},
        Case{rope, {"f32[s, 4, 64]", "f32[64]"}, kHalf, "", "64 entries and must have half of 64"},
        Case{rope, {"f32[4, 64]", "f32[32]"}, kHalf, "", "must have 3 or more dimensions"},
        Case{rope, {"f32[s, 4, 64]", "f32[32]", "s32[s]"}, rope_at(int64_t{1}), "", "one says where rows are"},
        Case{rope, {"f32[3, 4, 64]", "f32[32]", "s32[2]"}, kHalf, "", "operand 2 (positions)"},
        Case{rope, {"f32[s, 4, 64]", "f32[32]"}, rope_at(Dim::unknown()), "", "'offset' must be a dimension"},
        Case{rope, {"f32[s, 4, 64]", "f32[32]"}, with("style", string("neox")), "", "\"half\", \"interleaved\""},
        Case{softmax, {"f32[]"}, {}, "", "1 or more dimensions"},  //
        Case{gelu, {"f32[2]"}, with("approximate", string("none")), "", "\"tanh\", \"erf\""},
        Case{swiglu, {"f32[2]", "f32[3]"}, {}, "", "operand 1 (up)"},
        Case{experts, experts_with(1, "f32[s, 2]"), {}, "", "operand 1 (indices) is f32[s, 2] and must be s32"},
        Case{experts, experts_with(2, "f32[s, 3]"), {}, "", "the columns of indices"},
        Case{experts, experts_with(4, "f32[5, 16, 8]"), {}, "", "the experts of w_gate"},
        Case{experts, experts_with(5, "f32[4, 16, 8]"), {}, "", "operand 5 (w_down)"},
        Case{kv_append, {"f32[512, 2, 64]", "f32[s, 4, 64]"}, {}, "", "as in operand 0 (state)"},
        Case{kv_append, {"f32[4, 2, 64]", "f32[5, 2, 64]"}, {}, "", "holds 4 rows"}),
    test_name);

// A type that every op gets for every operand, whatever it expects: refused or accepted, never worse.
TEST(Infer, EveryOpWithEveryShapeOfOperands) {
  const std::vector<TensorType> types = {type_of("f32[]"), type_of("f32[?]"), type_of("s32[s, 3]"),
                                         type_of("f32[2, 0, 4]"), type_of("u8[?, ?, ?, ?]")};
  int accepted = 0;
#define HONE_GRAPH_OP(name, least, most, results)                                                   \
  for (const TensorType& t : types)                                                                 \
    for (int n = 0; n <= 7; ++n) {                                                                  \
      const std::vector<TensorType> operands(static_cast<size_t>(n), t);                            \
      accepted += infer_types({OpKind::name, operands, {}, &t, Dim()}).ok();                        \
      accepted += infer_types({OpKind::name, operands, {{"axes", Ints{-1}}}, nullptr, Dim()}).ok(); \
    }
#include "engine/graph/ops.inc"
#undef HONE_GRAPH_OP
  EXPECT_GT(accepted, 40);
}

}  // namespace
}  // namespace hone::graph
