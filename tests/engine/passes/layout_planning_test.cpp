// Which values get rows apart, and which stay dense for which reason.
#include "engine/passes/layout_planning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/engine/passes/exported.h"

namespace hone::passes {
namespace {

using testing::HasSubstr;

// x [rows, 1024] -> norm "h" -> matmul "m"; `more` adds readers.
Compilation planned(Dim rows, int64_t columns, const std::function<void(Exported&, ValueId, ValueId)>& more = {},
                    LayoutPolicy policy = LayoutPolicy::kPadded) {
  Exported e;
  if (!rows.is_static()) e.symbol({.name = "s", .min = 1, .max = 64});
  const ValueId x = e.f32("x", {rows, columns});
  const ValueId h = e.rms_norm(x, e.weights("n", {columns}), 1e-5, "h");
  const ValueId m = e.matmul(h, e.f32("w", {columns, columns}), "m");
  e.output(m);
  if (more) more(e, h, m);
  Compilation c = e.compilation();
  c.policy.layout = policy;
  c.graph.layouts["m"] = "tiled";
  EXPECT_TRUE(layout_planning(c).ok());
  return c;
}

int64_t row_of(const Compilation& c, std::string_view value) {
  const auto at = c.layouts.find(*c.graph.find_value(value));
  return at == c.layouts.end() ? 0 : at->second.row;
}

TEST(PassesLayoutPlanning, RowsThatCollideLieApart) {
  const Compilation c = planned(Dim::symbol("s"), 1024);
  EXPECT_EQ(row_of(c, "h"), 1040);
  EXPECT_EQ(row_of(c, "x"), 0) << "the caller's";
  EXPECT_EQ(c.graph.layouts.at("h"), "rows=1040");
  EXPECT_FALSE(c.graph.layouts.contains("m")) << "an imported layout is no claim of this plan";
  EXPECT_THAT(note(c, "rows 1040 floats apart"), HasSubstr("4096 bytes collide in the L1 where m reads several"));
}

TEST(PassesLayoutPlanning, DenseWhereThePolicyTheSizeOrTheRowsSaySo) {
  EXPECT_TRUE(planned(8, 1024, {}, LayoutPolicy::kDense).layouts.empty());
  EXPECT_TRUE(planned(8, 1000).layouts.empty());
  EXPECT_TRUE(planned(1, 1024).layouts.empty());
}

TEST(PassesLayoutPlanning, EveryReaderMustTakeThem) {
  const Compilation output = planned(8, 1024, [](Exported& e, ValueId h, ValueId) { e.output(h); });
  EXPECT_TRUE(output.layouts.empty());
  EXPECT_EQ(note(output, "rows stay dense"), "callers read it");
  const Compilation residual = planned(8, 1024, [](Exported& e, ValueId h, ValueId m) {
    e.output(e.add(OpKind::matmul, {m, e.f32("v", {1024, 1024}), h},
                   {{"layout", std::string("nt")}, {"epilogue", std::string("+residual")}}));
  });
  EXPECT_EQ(row_of(residual, "h"), 0);
  EXPECT_THAT(note(residual, "rows stay dense"), HasSubstr("lies as it does"));
  const Compilation fine = planned(8, 1024, [](Exported& e, ValueId h, ValueId) {
    e.output(e.un(OpKind::exp, e.reshape(h, {2, 4, 1024})));
  });
  EXPECT_EQ(row_of(fine, "h"), 1040) << "views keep it";
}

TEST(PassesLayoutPlanning, HeadsThatMakeARowStayDense) {
  Exported e;
  const ValueId q = e.f32("q", {8, 16, 64});
  const ValueId att = e.attention(q, q, q, {}, "att");
  e.output(e.matmul(e.reshape(att, {8, 1024}), e.f32("w", {32, 1024})));
  Compilation c = e.compilation();
  c.policy.layout = LayoutPolicy::kPadded;
  ASSERT_TRUE(layout_planning(c).ok());
  EXPECT_TRUE(c.layouts.empty());
  EXPECT_THAT(note(c, "rows stay dense"), HasSubstr("several of its own"));
}

}  // namespace
}  // namespace hone::passes
