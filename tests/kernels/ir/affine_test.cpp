#include <gtest/gtest.h>

#include "kernels/ir/builder.h"
#include "kernels/ir/task.h"
#include "tests/kernels/ir/sample_kernels.h"

namespace hone::ir {
namespace {

const Affine kX = Affine::var(0), kY = Affine::var(1), kZ = Affine::var(2);

TEST(IrAffine, TermsAreSortedAndNeverZero) {
  const Affine e = kZ * 3 + kX - kY * 2 + 7;
  EXPECT_EQ(e, Affine(7) + kX - 2 * kY + 3 * kZ);
  EXPECT_EQ(e.terms().size(), 3u);
  EXPECT_EQ(e.coef(1), -2);
  EXPECT_EQ((e - kX).terms().size(), 2u);
  EXPECT_FALSE((e - kX).uses(0));
  EXPECT_TRUE((kX - kX).is_constant());
  EXPECT_EQ(kX * 0, Affine());
  EXPECT_EQ(Affine::var(3, 0), Affine(0));
}

TEST(IrAffine, AddingItselfDoubles) {
  Affine e = kX + 1;
  e += e;
  EXPECT_EQ(e, 2 * kX + 2);
  e -= e;
  EXPECT_EQ(e, Affine(0));
}

TEST(IrAffine, SubstituteReplacesOneVariable) {
  EXPECT_EQ((kX * 3 + kY).substitute(0, kZ - 2), kY + 3 * kZ - 6);
  EXPECT_EQ((kX * 3).substitute(1, kZ), 3 * kX);
  EXPECT_EQ((kX + kY).substitute(0, -1 * kY), Affine(0));
}

TEST(IrAffine, TaskSpaceCountsAndEnumerates) {
  const Kernel kernel = sample_matmul({.batch = true});
  // Params in order of declaration: m, sa, sc.
  const TaskSpace space = task_space(kernel, {17, 1000, 2000});
  ASSERT_EQ(space.rank, 3);
  EXPECT_EQ(space.axes[1].count, 3);
  EXPECT_EQ(space.count, 3 * 3 * 2);
  int64_t values[3];
  space.values(space.count - 1, values);
  EXPECT_EQ(values[0], 2);
  EXPECT_EQ(values[1], 16);
  EXPECT_EQ(values[2], 2);
  EXPECT_EQ(task_space(kernel, {0, 0, 0}).count, 0);
}

TEST(IrAffine, WorkspacesAreAlignedAndApart) {
  Builder b("w");
  b.buffer({.name = "x", .scope = Scope::kIn, .extents = {4}, .strides = {1}});
  b.buffer({.name = "s", .scope = Scope::kWorkspace, .extents = {3, 5}, .strides = {8, 1}});
  b.buffer({.name = "t", .scope = Scope::kWorkspace, .extents = {1}, .strides = {1}});
  const Kernel kernel = b.finish();
  EXPECT_EQ(workspace_bytes(kernel.buffers[1]), (2 * 8 + 5) * 4);
  EXPECT_EQ(workspace_offsets(kernel), (std::vector<int64_t>{-1, 0, 128}));
  EXPECT_EQ(workspace_size(kernel), 192);
  EXPECT_EQ(kernel.arguments(), std::vector<BufferId>{0});
}

TEST(IrPermute, MapsAreTheOnesOfX86) {
  EXPECT_EQ(permute_lanes(PermuteOp::kUnpackLo32, 0, 4), (std::vector<int>{0, 4, 1, 5}));
  EXPECT_EQ(permute_lanes(PermuteOp::kUnpackHi32, 0, 8), (std::vector<int>{2, 10, 3, 11, 6, 14, 7, 15}));
  EXPECT_EQ(permute_lanes(PermuteOp::kUnpackLo64, 0, 4), (std::vector<int>{0, 1, 4, 5}));
  EXPECT_EQ(permute_lanes(PermuteOp::kUnpackHi64, 0, 4), (std::vector<int>{2, 3, 6, 7}));
  EXPECT_EQ(permute_lanes(PermuteOp::kGroups, 0x31, 8), (std::vector<int>{4, 5, 6, 7, 12, 13, 14, 15}));
  EXPECT_EQ(permute_lanes(PermuteOp::kGroups, 0x88, 16),
            (std::vector<int>{0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27}));
}

}  // namespace
}  // namespace hone::ir
