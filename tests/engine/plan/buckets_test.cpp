#include "engine/plan/buckets.h"

#include <gtest/gtest.h>

namespace hone::plan {
namespace {

TEST(PlanBuckets, FewRowsAreABucketEach) {
  for (int64_t m = 1; m <= 8; ++m) {
    EXPECT_EQ(bucket_of(m), m - 1);
    EXPECT_EQ(bucket_m(bucket_of(m)), m);
    EXPECT_EQ(bucket_first_m(bucket_of(m)), m);
  }
}

TEST(PlanBuckets, MoreRowsShareAPowerOfTwo) {
  EXPECT_EQ(bucket_of(9), 8);
  EXPECT_EQ(bucket_of(16), 8);
  EXPECT_EQ(bucket_of(17), 9);
  EXPECT_EQ(bucket_m(8), 16);
  EXPECT_EQ(bucket_first_m(8), 9);
  EXPECT_EQ(bucket_m(9), 32);
}

TEST(PlanBuckets, EveryMIsInsideItsBucketAndEveryBucketExists) {
  for (int64_t m = 1; m <= kMaxM / 3; m = m < 100 ? m + 1 : m * 2 - m / 3) {
    const int b = bucket_of(m);
    ASSERT_GE(b, 0);
    ASSERT_LT(b, kBuckets);
    EXPECT_LE(bucket_first_m(b), m);
    EXPECT_GE(bucket_m(b), m);
  }
  EXPECT_EQ(bucket_of(kMaxM), kBuckets - 1);
  EXPECT_EQ(bucket_m(kBuckets - 1), kMaxM);
}

TEST(PlanBuckets, KeysUpToOneBlockShareAPlanAndThenPowersOfTwo) {
  EXPECT_EQ(key_bucket_of(1), 0);
  EXPECT_EQ(key_bucket_of(256), 0);
  EXPECT_EQ(key_bucket_of(257), 1);
  EXPECT_EQ(key_bucket_of(512), 1);
  EXPECT_EQ(key_bucket_of(513), 2);
  for (int64_t kv = 1; kv <= kMaxM / 3; kv = kv < 100 ? kv + 1 : kv * 2 - kv / 3) {
    const int b = key_bucket_of(kv);
    ASSERT_LT(b, kKeyBuckets);
    EXPECT_GE(bucket_keys(b), kv);
    EXPECT_TRUE(b == 0 || bucket_keys(b - 1) < kv) << kv;
  }
  EXPECT_EQ(key_bucket_of(kMaxM), kKeyBuckets - 1);
  EXPECT_EQ(bucket_keys(kKeyBuckets - 1), kMaxM);
}

}  // namespace
}  // namespace hone::plan
