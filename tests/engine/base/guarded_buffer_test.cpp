#include "engine/base/guarded_buffer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

namespace hone {
namespace {

TEST(GuardedBuffer, IsPoisonedWithNaN) {
  for (Guard guard : {Guard::kAfter, Guard::kBefore}) {
    GuardedBuffer buffer = GuardedBuffer::create(37 * 4, guard).value();
    ASSERT_EQ(buffer.as<float>().size(), 37u);
    for (float f : buffer.as<float>()) EXPECT_TRUE(std::isnan(f));
  }
}

TEST(GuardedBuffer, SizesAroundAPage) {
  for (int64_t bytes : {0, 1, 4, 4095, 4096, 4097, 9000}) {
    for (Guard guard : {Guard::kAfter, Guard::kBefore}) {
      GuardedBuffer buffer = GuardedBuffer::create(bytes, guard).value();
      EXPECT_EQ(buffer.size(), bytes);
      for (int64_t i = 0; i < bytes; ++i) buffer.data()[i] = std::byte{0};
      EXPECT_TRUE(buffer.slack_intact()) << bytes;
    }
  }
}

TEST(GuardedBuffer, SeesWritesIntoTheSlack) {
  GuardedBuffer after = GuardedBuffer::create(12, Guard::kAfter).value();
  after.data()[-1] = std::byte{0};
  EXPECT_FALSE(after.slack_intact());
  after.poison();
  EXPECT_TRUE(after.slack_intact());
  GuardedBuffer before = GuardedBuffer::create(12, Guard::kBefore).value();
  before.data()[12] = std::byte{0};
  EXPECT_FALSE(before.slack_intact());
}

// The volatile access may not be removed; the fault ends the child only.
TEST(GuardedBufferDeathTest, FaultsPastTheEnd) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  GuardedBuffer buffer = GuardedBuffer::create(4 * 9, Guard::kAfter).value();
  EXPECT_DEATH(
      {
        volatile std::byte* p = buffer.data() + buffer.size();
        *p = std::byte{1};
      },
      "");
  EXPECT_DEATH(
      {
        volatile std::byte* p = buffer.data() + buffer.size();
        std::byte read = *p;
        (void)read;
      },
      "");
}

TEST(GuardedBufferDeathTest, FaultsBeforeTheStart) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  GuardedBuffer buffer = GuardedBuffer::create(4 * 9, Guard::kBefore).value();
  EXPECT_DEATH(
      {
        volatile std::byte* p = buffer.data() - 1;
        *p = std::byte{1};
      },
      "");
}

TEST(GuardedBuffer, MovesAndRefusesAbsurdSizes) {
  GuardedBuffer a = GuardedBuffer::create(8).value();
  GuardedBuffer b(std::move(a));
  a = std::move(b);
  EXPECT_EQ(a.size(), 8);
  EXPECT_EQ(GuardedBuffer::create(-1).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(GuardedBuffer::create(std::numeric_limits<int64_t>::max()).status().code(), Code::kResourceExhausted);
}

}  // namespace
}  // namespace hone
