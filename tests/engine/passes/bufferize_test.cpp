// Where values lie: views, copies, in place.
#include "tests/engine/passes/dispatch_testing.h"

namespace hone::passes {
namespace {

using graph::Builder;
using graph::Dim;
using graph::OpKind;
using graph::ValueId;
using testing::HasSubstr;

class Bufferize : public DispatchTest {};

TEST_F(Bufferize, HeadsAreViewsOfTheProjection) {
  const ValueId qkv = b.matmul(rows("x", 32), ones({96, 32}), "qkv");
  const ValueId q = b.add(OpKind::slice, {qkv},
                          {{"start", std::vector<int64_t>{0, 0}}, {"limit", std::vector<int64_t>{-1, 32}}}, "q");
  const ValueId k = b.add(OpKind::slice, {qkv},
                          {{"start", std::vector<int64_t>{0, 32}}, {"limit", std::vector<int64_t>{-1, 64}}}, "k");
  const ValueId v = b.add(OpKind::slice, {qkv},
                          {{"start", std::vector<int64_t>{0, 64}}, {"limit", std::vector<int64_t>{-1, 96}}}, "v");
  const ValueId heads = b.reshape(k, {s, 4, 8}, "heads");
  b.output(b.attention(b.reshape(q, {s, 4, 8}), heads, b.reshape(v, {s, 4, 8}), {}, "a"));
  ASSERT_TRUE(all().ok());
  EXPECT_EQ(count(DispatchKind::kRows), 0);
  EXPECT_EQ(place("heads").buffer, place("qkv").buffer);
  EXPECT_EQ(place("heads").offset, Dim(32));
  EXPECT_EQ(place("heads").strides, (std::vector<Dim>{96, 8, 1}));
}

TEST_F(Bufferize, RopeTurnsInPlaceOnlyWhatNobodyElseReads) {
  for (const bool shared : {false, true}) {
    b = Builder("g");
    b.symbol({.name = "s", .min = 1, .max = 128});
    const ValueId q = b.matmul(rows("x", 32), ones({32, 32}), "q");
    const ValueId heads = b.reshape(q, {s, 4, 8}, "heads");
    b.output(
        b.softmax(b.rope(heads, b.constant(graph::Constant::splat_f32({DType::kF32, {4}}, 1)), 0, "half", "turned")));
    if (shared) b.output(b.softmax(q));
    ASSERT_TRUE(all().ok());
    EXPECT_EQ(place("turned").buffer == place("q").buffer, !shared);
  }
}

TEST_F(Bufferize, ATransposedReshapeIsACopy) {
  const ValueId y = b.matmul(rows("x", 32), ones({32, 32}), "y");
  const ValueId turned = b.add(OpKind::transpose, {y}, {{"perm", std::vector<int64_t>{1, 0}}}, "turned");
  b.output(b.softmax(b.reshape(turned, {4, 8, s}, "split")));
  b.output(b.add(OpKind::exp, {b.reshape(turned, {s * Dim(32)}, "flat")}));
  ASSERT_TRUE(all().ok());
  EXPECT_EQ(place("split").buffer, place("y").buffer);
  EXPECT_NE(place("flat").buffer, place("y").buffer);
  EXPECT_THAT(named("flat").why, HasSubstr("no strides express this reshape"));
}

}  // namespace
}  // namespace hone::passes
