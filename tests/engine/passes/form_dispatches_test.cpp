// How graphs are cut into launches, and the reasons.
#include "tests/engine/passes/dispatch_testing.h"

namespace hone::passes {
namespace {

using graph::OpKind;
using graph::ValueId;
using testing::HasSubstr;

class FormDispatches : public DispatchTest {};

TEST_F(FormDispatches, ANormJoinsTheSumBeforeIt) {
  const ValueId h = b.add(OpKind::add, {rows("x", 32), rows("y", 32)}, {}, "h");
  const ValueId n = b.rms_norm(h, ones({32}), 1e-5, "n");
  b.output(b.matmul(n, ones({8, 32}), "m"));
  b.output(h);
  ASSERT_TRUE(form().ok());
  EXPECT_EQ(count(DispatchKind::kRows), 1);
  EXPECT_EQ(named("h").outputs.size(), 2u);
  EXPECT_THAT(named("h").why, HasSubstr("n joins: saves a launch and a load of f32[s, 32]"));
}

TEST_F(FormDispatches, OpsOfOtherRowsAreLaunchesOfTheirOwn) {
  const ValueId a = b.add(OpKind::exp, {rows("x", 32)}, {}, "a");
  const ValueId folded = b.reshape(a, {s, 4, 8}, "folded");
  b.output(b.softmax(folded, 1, "soft"));
  ASSERT_TRUE(form().ok());
  EXPECT_EQ(count(DispatchKind::kRows), 2);
  EXPECT_EQ(count(DispatchKind::kView), 1);
}

TEST_F(FormDispatches, ARowsOneValueStaysInTheProgram) {
  const ValueId x = rows("x", 32);
  const ValueId sum =
      b.add(OpKind::reduce, {x}, {{"kind", std::string("sum")}, {"axes", std::vector<int64_t>{1}}}, "sum");
  const ValueId column = b.reshape(sum, {s, 1}, "column");
  const ValueId wide =
      b.add_typed(OpKind::broadcast, {column}, {{"dims", std::vector<int64_t>{0, 1}}}, {DType::kF32, {s, 32}}, "wide");
  b.output(b.add(OpKind::div, {x, wide}, {}, "share"));
  ASSERT_TRUE(form().ok());
  ASSERT_EQ(c.dispatches.size(), 1u);
  EXPECT_EQ(c.dispatches[0].nodes.size(), 4u);
  EXPECT_EQ(c.dispatches[0].outputs.size(), 1u);
}

TEST_F(FormDispatches, TooManyStreamsAreTwoLaunches) {
  ValueId sum = rows("x0", 32);
  for (int i = 1; i < 12; ++i) sum = b.add(OpKind::add, {sum, rows(("x" + std::to_string(i)).c_str(), 32)});
  b.output(sum);
  ASSERT_TRUE(form().ok());
  EXPECT_EQ(count(DispatchKind::kRows), 2);
  EXPECT_THAT(c.dispatches[1].why, HasSubstr("9 streams are more than 8"));
}

TEST_F(FormDispatches, LongRowsThatAreWalkedTwiceDoNotJoin) {
  const int64_t columns = kMaxRowBytes / 4;
  const ValueId h = b.add(OpKind::add, {rows("x", columns), rows("y", columns)}, {}, "h");
  b.output(b.rms_norm(h, ones({columns}), 1e-5, "n"));
  ASSERT_TRUE(form().ok());
  EXPECT_EQ(count(DispatchKind::kRows), 2);
  EXPECT_THAT(named("n").why, HasSubstr("is more than 256 KiB, and is walked more than once"));
}

TEST_F(FormDispatches, OutputsHaveMemoryOfTheirOwn) {
  const ValueId x = rows("x", 32);
  const ValueId y = b.add(OpKind::exp, {x}, {}, "y");
  b.output(x);
  b.output(y);
  b.output(y);
  b.output(b.reshape(y, {s, 4, 8}, "view"));
  ASSERT_TRUE(all().ok());
  EXPECT_EQ(count(DispatchKind::kRows), 4);
  std::set<int> buffers;
  for (const ValueId v : c.graph.outputs()) {
    buffers.insert(c.placements.at(v).buffer);
    EXPECT_EQ(c.buffers[static_cast<size_t>(c.placements.at(v).buffer)].kind, Buffer::Kind::kOutput);
  }
  EXPECT_EQ(buffers.size(), 4u);
}

TEST_F(FormDispatches, KeysWithoutTheirValuesAreRefused) {
  b.position("p", 64, s);
  const ValueId state = b.state("k", {DType::kF32, {64, 2, 8}});
  const ValueId keys = b.kv_append(state, b.input("rows", {DType::kF32, {s, 2, 8}}), "keys");
  b.output(keys);
  const Status status = form();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("kv_append keys"));
}

TEST_F(FormDispatches, AnOpWithoutAKernelIsNamed) {
  const ValueId x = rows("x", 8);
  b.output(b.add(OpKind::pow, {x, x}, {}, "power"));
  EXPECT_THAT(form().message(), HasSubstr("pow power: no kernel computes it"));
}

}  // namespace
}  // namespace hone::passes
