// The list as a whole: order, names, printing, and that each pass is good for something.
#include "engine/passes/pass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/graph/stablehlo/stablehlo_testing.h"
#include "tests/engine/passes/exported.h"

namespace hone::passes {
namespace {

using testing::HasSubstr;

Compilation module() {
  Compilation c;
  c.graph = graph::stablehlo::import_or_throw(graph::stablehlo::module_text("decoder_layer"));
  return c;
}

Compilation run(Compilation c, std::string_view without, std::string_view last = {}) {
  RunOptions options;
  options.without = without;
  options.last = last;
  const auto times = run_passes(c, options);
  EXPECT_TRUE(times.ok()) << times.status().message();
  return c;
}

TEST(PassesPass, EachRunsOnceInOrderAndIsTimed) {
  Compilation c = module();
  std::vector<std::string> seen;
  RunOptions options;
  options.after = [&](const Pass& p, const Compilation&) { seen.emplace_back(p.name); };
  const auto times = run_passes(c, options);
  ASSERT_TRUE(times.ok()) << times.status().message();
  ASSERT_EQ(seen.size(), passes().size());
  for (size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i], passes()[i].name);
    EXPECT_EQ((*times)[i].pass, passes()[i].name);
    EXPECT_GE((*times)[i].ns, 0);
    EXPECT_FALSE(passes()[i].summary.empty());
  }
  EXPECT_EQ(seen.front(), "shape_inference");
  EXPECT_EQ(seen.back(), "plan_memory");
}

TEST(PassesPass, StopsAndLeavesOutByName) {
  Compilation c = module();
  RunOptions options;
  options.last = "canonicalize";
  EXPECT_EQ(run_passes(c, options)->size(), 2u);
  options.last = "vectorize";
  EXPECT_THAT(run_passes(c, options).status().message(),
              HasSubstr("'vectorize' is no pass; there are shape_inference"));
  options.last = {};
  options.without = "canonicalise";
  EXPECT_FALSE(run_passes(c, options).ok());
}

TEST(PassesPass, AGraphThatIsNoneIsRefused) {
  Compilation c = module();
  graph::Graph& g = c.graph;
  g.set_type(g.outputs()[0], {DType::kF32, {3}});
  EXPECT_EQ(run_passes(c).status().code(), Code::kInvalidArgument);
}

TEST(PassesPass, PrintsGraphGuardsDispatchesMemoryAndNotes) {
  const std::string all = print(run(module(), ""));
  for (const char* part : {"graph @", "guards\n", "rows of state", "dispatches\n", "attention", "buffers\n", "places\n",
                           "memory: ", "notes\n", "decoder_fusion: "})
    EXPECT_THAT(all, HasSubstr(part));
  const std::string some = print(run(module(), "", "canonicalize"), "canonicalize");
  EXPECT_THAT(some, HasSubstr("  canonicalize: "));
  EXPECT_THAT(some, testing::Not(HasSubstr("dispatches")));
}

size_t launches(const Compilation& c) {
  size_t n = 0;
  for (const Dispatch& d : c.dispatches) n += d.kind != DispatchKind::kView;
  return n;
}

TEST(PassesPass, ALayerTakesElevenLaunches) {
  // norm, qkv, rope, append, attention, o, norm, gate-up, down: nine, and what the row programs make of the rest.
  const Compilation c = run(module(), "");
  EXPECT_LE(launches(c), 11u) << print(c);
  EXPECT_EQ(count(c, OpKind::matmul), 4);
}

TEST(PassesPass, WithoutOneTheResultIsAnother) {
  const Compilation whole = run(module(), "");
  EXPECT_TRUE(run(module(), "shape_inference", "shape_inference").guards.empty());
  EXPECT_FALSE(run(module(), "", "shape_inference").guards.empty() && whole.guards.empty());
  EXPECT_EQ(count(run(module(), "canonicalize", "schedule_annotation"), OpKind::attention), 0);
  EXPECT_GT(launches(run(module(), "decoder_fusion")), launches(whole));
  const Compilation unfolded = run(module(), "specialize_constants", "schedule_annotation");
  EXPECT_GT(count(unfolded, OpKind::concatenate), 0);
  EXPECT_EQ(count(whole, OpKind::concatenate), 0);
  EXPECT_TRUE(first(whole, OpKind::attention)->schedule.has_value());
  EXPECT_FALSE(first(run(module(), "schedule_annotation"), OpKind::attention)->schedule.has_value());
}

TEST(PassesPass, WithoutLayoutPlanningRowsAreDense) {
  const auto graph = [] {
    Exported e;
    const ValueId x = e.f32("x", {8, 1024});
    e.output(e.matmul(e.rms_norm(x, e.weights("n", {1024}), 1e-5, "h"), e.weights("w", {16, 1024})));
    Compilation c = e.compilation();
    c.policy.layout = LayoutPolicy::kPadded;
    return c;
  };
  const Compilation padded = run(graph(), ""), dense = run(graph(), "layout_planning");
  const ValueId h = *padded.graph.find_value("h");
  EXPECT_EQ(padded.placements.at(h).strides[0], Dim(1040));
  EXPECT_EQ(dense.placements.at(h).strides[0], Dim(1024));
}

TEST(PassesPass, AGraphThatIsNoDecoderCompilesAsWhatItIs) {
  Exported e;
  const ValueId x = e.f32("x", {4, 8});
  const ValueId y = e.matmul(e.matmul(x, e.weights("a", {8, 8})), e.weights("b", {8, 8}));
  e.output(e.matmul(y, e.weights("c", {8, 8})));
  Compilation c = e.compilation();
  const graph::Graph before = c.graph;
  ASSERT_TRUE(run_passes(c).ok());
  EXPECT_EQ(count(c, OpKind::matmul), 3);
  EXPECT_EQ(count(c, OpKind::attention), 0);
  expect_same(before, c.graph, 0);
}

}  // namespace
}  // namespace hone::passes
