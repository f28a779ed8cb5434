// The compile lane of schedules: order, defaults, refusals, and that a second run changes nothing.
#include "engine/passes/schedule_annotation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/graph/builder.h"

namespace hone::passes {
namespace {

using graph::Builder;
using graph::ScheduleHint;
using graph::ValueId;
using testing::HasSubstr;

// q, k, v -> attention "att" -> matmul "proj" -> neg "minus".
Compilation layer() {
  Builder b("layer");
  const ValueId q = b.input("q", {DType::kF32, {4, 8, 16}}), k = b.input("k", {DType::kF32, {4, 2, 16}});
  const ValueId v = b.input("v", {DType::kF32, {4, 2, 16}}), w = b.input("w", {DType::kF32, {8, 16}});
  const ValueId att = b.attention(q, k, v, {}, "att");
  const ValueId proj = b.matmul(att, w, "proj");
  b.output(b.add(graph::OpKind::neg, {proj}, {}, "minus"));
  Result<graph::Graph> g = b.finish();
  EXPECT_TRUE(g.ok()) << g.status().message();
  Compilation c;
  if (g.ok()) c.graph = *std::move(g);
  return c;
}

graph::Node& named(Compilation& c, std::string_view name) {
  return c.graph.node(c.graph.value(*c.graph.find_value(name)).node);
}

const Note* note_of(const Compilation& c, std::string_view node) {
  for (const Note& n : c.notes)
    if (n.node == node) return &n;
  return nullptr;
}

TEST(PassesScheduleAnnotation, AttentionIsSplitOnBatchAndHeadsByDefault) {
  Compilation c = layer();
  ASSERT_TRUE(schedule_annotation(c).ok());
  EXPECT_EQ(named(c, "att").schedule, (ScheduleHint{{"batch", "heads"}, {}}));
  EXPECT_FALSE(named(c, "proj").schedule.has_value());
  EXPECT_FALSE(named(c, "minus").schedule.has_value());
}

TEST(PassesScheduleAnnotation, AHintOfTheNodeGoesBeforeTheAmbientOne) {
  Compilation c = layer();
  c.graph.ambient_schedule = ScheduleHint{{"rows"}, {}};
  named(c, "att").schedule = ScheduleHint{{"He-ads", " HEADS"}, 8};
  ASSERT_TRUE(schedule_annotation(c).ok());
  EXPECT_EQ(named(c, "att").schedule, (ScheduleHint{{"heads"}, 8}));
  EXPECT_EQ(named(c, "proj").schedule, (ScheduleHint{{"rows"}, {}}));
  EXPECT_THAT(note_of(c, "att")->why, HasSubstr("parallelism 8 is advisory"));
}

TEST(PassesScheduleAnnotation, OneWrongDimensionRefusesTheWholeHint) {
  Compilation c = layer();
  named(c, "att").schedule = ScheduleHint{{"batch", "keys"}, {}};
  ASSERT_TRUE(schedule_annotation(c).ok());
  EXPECT_FALSE(named(c, "att").schedule.has_value()) << "a refused hint must not be exported";
  const Note* n = note_of(c, "att");
  ASSERT_NE(n, nullptr);
  EXPECT_EQ(n->what, "attention: hint refused");
  EXPECT_EQ(n->why, "its own hint: dimension 'keys' cannot be split; batch, heads would be honoured");
}

TEST(PassesScheduleAnnotation, RefusesWhatIsNoHint) {
  const ScheduleHint wrong[] = {{{}, {}}, {{" "}, {}}, {{"batch", ""}, {}}, {{"heads"}, 0}, {{"heads"}, -2}};
  for (const ScheduleHint& hint : wrong) {
    Compilation c = layer();
    named(c, "att").schedule = hint;
    ASSERT_TRUE(schedule_annotation(c).ok());
    EXPECT_FALSE(named(c, "att").schedule.has_value());
  }
  Compilation c = layer();
  named(c, "minus").schedule = ScheduleHint{{"rows"}, {}};
  ASSERT_TRUE(schedule_annotation(c).ok());
  EXPECT_FALSE(named(c, "minus").schedule.has_value());
  EXPECT_THAT(note_of(c, "minus")->why, HasSubstr("no dimension of it may be split"));
}

TEST(PassesScheduleAnnotation, ASecondRunChangesNothing) {
  Compilation c = layer();
  named(c, "att").schedule = ScheduleHint{{"keys"}, {}};
  c.graph.ambient_schedule = ScheduleHint{{"rows"}, 2};
  ASSERT_TRUE(schedule_annotation(c).ok());
  const size_t notes = c.notes.size();
  ASSERT_TRUE(schedule_annotation(c).ok());
  EXPECT_EQ(c.notes.size(), notes);
  EXPECT_FALSE(named(c, "att").schedule.has_value()) << "neither the default nor the ambient hint";
  EXPECT_EQ(named(c, "proj").schedule, (ScheduleHint{{"rows"}, 2}));
}

}  // namespace
}  // namespace hone::passes
