#include "engine/passes/views.h"

#include <gtest/gtest.h>

namespace hone::passes {
namespace {

using graph::Dim;
using graph::Shape;

const Dim s = Dim::symbol("s");

std::optional<std::vector<Dim>> reshaped(const Shape& dims, const std::vector<Dim>& strides, const Shape& to) {
  return reshape_strides(dims, strides, to);
}

TEST(Views, DenseStrides) {
  EXPECT_EQ(dense_strides({s, 4, 8}), (std::vector<Dim>{32, 8, 1}));
  EXPECT_EQ(dense_strides({2, s, 8}), (std::vector<Dim>{s * Dim(8), 8, 1}));
  EXPECT_TRUE(is_dense({s, 4, 8}, std::vector<Dim>{32, 8, 1}));
  EXPECT_TRUE(is_dense({s, 1, 8}, std::vector<Dim>{8, 999, 1}));
  EXPECT_FALSE(is_dense({s, 4, 8}, std::vector<Dim>{48, 8, 1}));
}

TEST(Views, SplittingHeadsKeepsTheDistanceOfRows) {
  EXPECT_EQ(reshaped({s, 32}, {96, 1}, {s, 4, 8}), (std::vector<Dim>{96, 8, 1}));
  EXPECT_EQ(reshaped({s, 4, 8}, {96, 8, 1}, {s, 32}), (std::vector<Dim>{96, 1}));
  EXPECT_EQ(reshaped({s, 4, 8}, {96, 8, 1}, {1, s, 32}), (std::vector<Dim>{s * Dim(96), 96, 1}));
}

TEST(Views, RowsThatLieApartAreNotOne) {
  EXPECT_EQ(reshaped({s, 32}, {96, 1}, {s * Dim(32)}), std::nullopt);
  EXPECT_EQ(reshaped({4, 8}, {1, 4}, {32}), std::nullopt);
  EXPECT_EQ(reshaped({s, 32}, {32, 1}, {s * Dim(32)}), (std::vector<Dim>{1}));
}

TEST(Views, SizesOfOneComeAndGo) {
  EXPECT_EQ(reshaped({1, s, 1, 8}, {7, 8, 5, 1}, {s, 8}), (std::vector<Dim>{8, 1}));
  EXPECT_EQ(reshaped({1}, {3}, {}), (std::vector<Dim>{}));
  EXPECT_EQ(reshaped({}, {}, {1, 1}), (std::vector<Dim>{1, 1}));
}

TEST(Views, AFactorThatCutsAcrossRunsIsNone) {
  EXPECT_EQ(reshaped({6, 4}, {8, 1}, {3, 8}), std::nullopt);
  EXPECT_EQ(reshaped({6, 4}, {4, 1}, {3, 8}), (std::vector<Dim>{8, 1}));
  EXPECT_EQ(reshaped({s, 4}, {4, 1}, {2, Dim(2) * s}), (std::vector<Dim>{Dim(2) * s, 1}));
  EXPECT_EQ(reshaped({s, 4}, {8, 1}, {2, Dim(2) * s}), std::nullopt);
}

TEST(Views, BroadcastDimensionsHaveStrideZero) {
  EXPECT_EQ(reshaped({s, 4, 8}, {0, 0, 1}, {s, 2, 2, 8}), (std::vector<Dim>{0, 0, 0, 1}));
}

}  // namespace
}  // namespace hone::passes
