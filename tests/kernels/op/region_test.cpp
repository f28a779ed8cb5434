// From how much work on a call has threads.
#include "kernels/op/region.h"

#include <gtest/gtest.h>

namespace hone::op {
namespace {

TEST(OpRegion, SmallWorkDoesNotWakeThreads) {
  EXPECT_EQ(default_threads(64 * 64, 8), 1);
  EXPECT_EQ(default_threads(1e9, 8), 8);
  EXPECT_EQ(default_threads(20 * 4096.0 * 4096.0, 2), 2);
}

TEST(OpRegion, WhatWasMeasuredDecidesFromWhenThreadsPay) {
  EXPECT_EQ(default_threads(500'000, 8, 500'000), 8);
  EXPECT_EQ(default_threads(500'000, 8, 500'001), 1);
  EXPECT_EQ(default_threads(500'000, 1, 0), 1);
  EXPECT_TRUE(region_pays(500'000, 500'000));
  EXPECT_FALSE(region_pays(500'000, 500'001));
  EXPECT_FALSE(region_pays(500'000, {})) << "at a guess";
}

}  // namespace
}  // namespace hone::op
