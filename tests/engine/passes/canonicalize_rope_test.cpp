// RoPE in the forms that frameworks print, and what only looks like it.
//
// cos and sin are of the same f32 angle, in double and rounded instead of f32: a unit in the last place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/passes/canonicalize.h"
#include "tests/engine/passes/exported.h"

namespace hone::passes {
namespace {

using testing::HasSubstr;

constexpr double kBound = 1e-6;
constexpr int64_t kS = 5, kH = 3, kD = 8;

Compilation canonical(Exported& e, ValueId output) {
  e.output(output);
  Compilation c = e.compilation();
  const graph::Graph before = c.graph;
  const Status s = canonicalize(c);
  EXPECT_TRUE(s.ok()) << s.message();
  EXPECT_TRUE(verify(c.graph).ok()) << verify(c.graph).message();
  std::vector<graph::Tensor> inputs = random_inputs(before);
  for (graph::Tensor& t : inputs)
    if (t.dtype == DType::kS32)
      for (size_t i = 0; i < t.as<int32_t>().size(); ++i) t.as<int32_t>()[i] = 3 * static_cast<int32_t>(i) + 2;
  expect_same(before, c.graph, kBound, inputs);
  return c;
}

// theta^(-2j / d), computed in the graph.
ValueId frequencies(Exported& e) {
  const ValueId steps = e.times(e.iota(0, {kD / 2}, DType::kF32), -2.0 / kD);
  return e.bin(OpKind::pow, e.fill(10000, {kD / 2}), steps);
}
// [s, d/2]
ValueId angles(Exported& e, ValueId positions) {
  const Shape shape = {e.dims(positions)[0], kD / 2};
  return e.mul(e.broadcast(e.convert(positions, DType::kF32), {0}, shape), e.broadcast(frequencies(e), {1}, shape));
}

// x [s, h, d] with halves apart, as JAX models write it.
ValueId halves(Exported& e, ValueId x, ValueId c, ValueId s) {
  const ValueId x1 = e.slice_last(x, 0, kD / 2), x2 = e.slice_last(x, kD / 2, kD);
  return e.concat_last(e.bin(OpKind::sub, e.mul(x1, c), e.mul(x2, s)), e.bin(OpKind::add, e.mul(x2, c), e.mul(x1, s)));
}
// x * cos + rotate_half(x) * sin, as transformers write it.
ValueId rotate_half(Exported& e, ValueId x, ValueId c, ValueId s) {
  const ValueId x1 = e.slice_last(x, 0, kD / 2), x2 = e.slice_last(x, kD / 2, kD);
  return e.bin(OpKind::add, e.mul(x, c), e.mul(e.concat_last(e.un(OpKind::neg, x2), x1), s));
}

TEST(PassesCanonicalizeRope, HalvesOfPositionsFromZero) {
  Exported e;
  const ValueId x = e.f32("x", {kS, kH, kD});
  const ValueId a = angles(e, e.iota(0, {kS}));
  const Shape half = {kS, kH, kD / 2};
  const Compilation c = canonical(e, halves(e, x, e.broadcast(e.un(OpKind::cos, a), {0, 2}, half),
                                            e.broadcast(e.un(OpKind::sin, a), {0, 2}, half)));
  const graph::Node* n = first(c, OpKind::rope);
  ASSERT_NE(n, nullptr) << print(c);
  EXPECT_EQ(n->text("style"), "half");
  EXPECT_EQ(n->operands.size(), 2u);
  EXPECT_EQ(n->dim("offset"), Dim(0));
  EXPECT_EQ(count(c, OpKind::concatenate) + count(c, OpKind::cos), 0) << print(c);
}

TEST(PassesCanonicalizeRope, RotateHalfWithHeadsFirstAndAnOffset) {
  for (const bool inside : {false, true}) {  // cos of the joined angles, or the joined cos
    Exported e;
    const ValueId x = e.f32("x", {2, kH, kS, kD});
    const ValueId a = angles(e, e.bin(OpKind::add, e.iota(0, {kS}), e.fill_s32(7, {kS})));
    const auto spread = [&](OpKind op) {
      const ValueId twice = inside ? e.un(op, e.concat_last(a, a)) : e.concat_last(e.un(op, a), e.un(op, a));
      return e.broadcast(twice, {2, 3}, {2, kH, kS, kD});
    };
    const Compilation c = canonical(e, rotate_half(e, x, spread(OpKind::cos), spread(OpKind::sin)));
    const graph::Node* n = first(c, OpKind::rope);
    ASSERT_NE(n, nullptr) << print(c);
    EXPECT_EQ(n->dim("offset"), Dim(7));
    EXPECT_EQ(count(c, OpKind::transpose), 2) << "rows before heads, and back";
  }
}

TEST(PassesCanonicalizeRope, PositionsThatAreGiven) {
  Exported e;
  const ValueId x = e.f32("x", {kS, kH, kD});
  const ValueId a = angles(e, e.s32("positions", {kS}));
  const Shape half = {kS, kH, kD / 2};
  const Compilation c = canonical(e, halves(e, x, e.broadcast(e.un(OpKind::cos, a), {0, 2}, half),
                                            e.broadcast(e.un(OpKind::sin, a), {0, 2}, half)));
  ASSERT_EQ(count(c, OpKind::rope), 1) << print(c);
  EXPECT_EQ(first(c, OpKind::rope)->operands.size(), 3u);
}

TEST(PassesCanonicalizeRope, OneRowAtAPositionThatIsGiven) {
  Exported e;
  const ValueId x = e.f32("x", {1, kH, kD});
  const ValueId a = angles(e, e.reshape(e.s32("position", {}), {1}));
  const Shape half = {1, kH, kD / 2};
  const Compilation c = canonical(e, halves(e, x, e.broadcast(e.un(OpKind::cos, a), {0, 2}, half),
                                            e.broadcast(e.un(OpKind::sin, a), {0, 2}, half)));
  ASSERT_EQ(count(c, OpKind::rope), 1) << print(c);
}

TEST(PassesCanonicalizeRope, AnOuterProductOfPositionsAndFrequencies) {
  Exported e;
  const ValueId x = e.f32("x", {kS, kH, kD});
  const ValueId p = e.reshape(e.convert(e.iota(0, {kS}), DType::kF32), {kS, 1});
  const ValueId a = e.dot(p, e.reshape(frequencies(e), {1, kD / 2}), {}, {}, {1}, {0});
  const Shape half = {kS, kH, kD / 2};
  const Compilation c = canonical(e, halves(e, x, e.broadcast(e.un(OpKind::cos, a), {0, 2}, half),
                                            e.broadcast(e.un(OpKind::sin, a), {0, 2}, half)));
  EXPECT_EQ(count(c, OpKind::rope), 1) << print(c);
}

TEST(PassesCanonicalizeRope, InterleavedPairs) {
  for (const bool strided : {false, true}) {
    Exported e;
    const ValueId x = e.f32("x", {kS, kH, kD});
    const ValueId a = angles(e, e.iota(0, {kS}));
    const Shape half = {kS, kH, kD / 2}, one = {kS, kH, kD / 2, 1};
    const ValueId pairs = e.reshape(x, {kS, kH, kD / 2, 2});
    const ValueId x1 = strided ? e.slice_last(x, 0, kD - 1, 2) : e.reshape(e.slice_last(pairs, 0, 1), half);
    const ValueId x2 = strided ? e.slice_last(x, 1, kD, 2) : e.reshape(e.slice_last(pairs, 1, 2), half);
    const ValueId c = e.broadcast(e.un(OpKind::cos, a), {0, 2}, half),
                  s = e.broadcast(e.un(OpKind::sin, a), {0, 2}, half);
    const ValueId y1 = e.bin(OpKind::sub, e.mul(x1, c), e.mul(x2, s));
    const ValueId y2 = e.bin(OpKind::add, e.mul(x1, s), e.mul(x2, c));
    const auto column = [&](ValueId v) { return strided ? e.broadcast(v, {0, 1, 2}, one) : e.reshape(v, one); };
    const Compilation r = canonical(e, e.reshape(e.concat_last(column(y1), column(y2)), {kS, kH, kD}));
    ASSERT_EQ(count(r, OpKind::rope), 1) << print(r);
    EXPECT_EQ(first(r, OpKind::rope)->text("style"), "interleaved");
    EXPECT_EQ(count(r, OpKind::slice), 0);
  }
}

TEST(PassesCanonicalizeRope, EachAngleTwiceForInterleavedPairs) {
  Exported e;
  const ValueId x = e.f32("x", {kS, kH, kD});
  const ValueId a = angles(e, e.iota(0, {kS}));
  const auto twice = [&](OpKind op) {
    const ValueId pairs = e.broadcast(e.un(op, a), {0, 1}, {kS, kD / 2, 2});
    return e.broadcast(e.reshape(pairs, {kS, kD}), {0, 2}, {kS, kH, kD});
  };
  const Shape half = {kS, kH, kD / 2}, one = {kS, kH, kD / 2, 1};
  const ValueId pairs = e.reshape(x, {kS, kH, kD / 2, 2});
  const ValueId x1 = e.reshape(e.slice_last(pairs, 0, 1), half), x2 = e.reshape(e.slice_last(pairs, 1, 2), half);
  const ValueId turned =
      e.reshape(e.concat_last(e.reshape(e.un(OpKind::neg, x2), one), e.reshape(x1, one)), {kS, kH, kD});
  const Compilation r =
      canonical(e, e.bin(OpKind::add, e.mul(x, twice(OpKind::cos)), e.mul(turned, twice(OpKind::sin))));
  ASSERT_EQ(count(r, OpKind::rope), 1) << print(r);
  EXPECT_EQ(first(r, OpKind::rope)->text("style"), "interleaved");
}

// cos or sin of [rows, columns] of f32 angles; each angle twice, as `style` says, or once ('1').
ValueId table(Exported& e, bool sine, int64_t rows, char style, float wrong = 0) {
  std::vector<float> all;
  const int64_t columns = style == '1' ? kD / 2 : kD;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t k = style == 'h' ? j % (kD / 2) : style == 'i' ? j / 2 : j;
      const float f = std::pow(10000.0f, -2.0f * static_cast<float>(k) / kD);
      const float angle = static_cast<float>(r) * f;
      all.push_back((sine ? std::sin(angle) : std::cos(angle)) + (r == rows - 1 ? wrong : 0));
    }
  return e.constant(graph::Constant::f32({DType::kF32, {rows, columns}}, all), sine ? "sin" : "cos");
}

TEST(PassesCanonicalizeRope, RowsOfTables) {
  for (int form = 0; form < 4; ++form) {
    SCOPED_TRACE(form);
    Exported e;
    const ValueId x = e.f32("x", {kS, kH, kD});
    const ValueId picks = form == 1 ? e.s32("positions", {kS}) : form == 2 ? e.s32("start", {}) : -1;
    const auto rows_of = [&](bool sine) {
      const ValueId t = table(e, sine, form == 0 ? kS : 2048, form == 3 ? 'h' : '1');
      if (form == 1) return e.gather(t, picks);
      if (form == 2)
        return e.add(OpKind::dynamic_slice,
                     {t, picks, e.constant(graph::Constant::s32({DType::kS32, {}}, std::vector<int32_t>{0}))},
                     {{"sizes", Axes{kS, kD / 2}}});
      if (form == 3) return e.add(OpKind::slice, {t}, {{"start", Axes{3, 0}}, {"limit", Axes{3 + kS, -1}}});
      return t;
    };
    ValueId y;
    if (form == 3) {
      const Shape all = {kS, kH, kD};
      y = rotate_half(e, x, e.broadcast(rows_of(false), {0, 2}, all), e.broadcast(rows_of(true), {0, 2}, all));
    } else {
      const Shape half = {kS, kH, kD / 2};
      y = halves(e, x, e.broadcast(rows_of(false), {0, 2}, half), e.broadcast(rows_of(true), {0, 2}, half));
    }
    const Compilation c = canonical(e, y);
    ASSERT_EQ(count(c, OpKind::rope), 1) << print(c);
    EXPECT_EQ(first(c, OpKind::rope)->operands.size(), form == 1 || form == 2 ? 3u : 2u);
    EXPECT_EQ(first(c, OpKind::rope)->dim("offset").value_or(Dim(0)), Dim(form == 3 ? 3 : 0));
  }
}

TEST(PassesCanonicalizeRope, TablesOfSomethingElseStayTables) {
  Exported e;
  const ValueId x = e.f32("x", {kS, kH, kD});
  const Shape half = {kS, kH, kD / 2};
  const ValueId y = halves(e, x, e.broadcast(table(e, false, kS, '1', 1e-4f), {0, 2}, half),
                           e.broadcast(table(e, true, kS, '1'), {0, 2}, half));
  const Compilation c = canonical(e, y);
  EXPECT_EQ(count(c, OpKind::rope), 0);
  EXPECT_THAT(note(c, "not rope"), HasSubstr("its tables are not cos and sin"));
}

TEST(PassesCanonicalizeRope, WhatIsNoRope) {
  const Shape half = {kS, kH, kD / 2};
  const auto reason = [&](int form) {
    Exported e;
    const ValueId x = e.f32("x", {kS, kH, kD});
    const ValueId a = angles(e, e.iota(0, {kS}));
    const ValueId b = form == 0 ? angles(e, e.bin(OpKind::add, e.iota(0, {kS}), e.fill_s32(1, {kS}))) : a;
    ValueId c = e.broadcast(e.un(OpKind::cos, a), {0, 2}, half), s = e.broadcast(e.un(OpKind::sin, b), {0, 2}, half);
    if (form == 1) std::swap(c, s);  // sin for cos
    if (form == 2) s = e.f32("s", half), c = e.f32("c", half);
    ValueId y = halves(e, x, c, s);
    if (form == 3) {  // turned the other way round
      const ValueId x1 = e.slice_last(x, 0, kD / 2), x2 = e.slice_last(x, kD / 2, kD);
      y = e.concat_last(e.bin(OpKind::add, e.mul(x1, c), e.mul(x2, s)), e.bin(OpKind::sub, e.mul(x2, c), e.mul(x1, s)));
    }
    const Compilation r = canonical(e, y);
    EXPECT_EQ(count(r, OpKind::rope), 0) << form;
    return note(r, "not rope");
  };
  EXPECT_THAT(reason(0), HasSubstr("different angles"));
  EXPECT_THAT(reason(1), HasSubstr("not cos and sin"));
  EXPECT_THAT(reason(2), HasSubstr("not cos and sin"));
  EXPECT_EQ(reason(3), "");
}

}  // namespace
}  // namespace hone::passes
