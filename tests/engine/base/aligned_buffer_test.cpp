#include "engine/base/aligned_buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "engine/base/memory.h"

namespace hone {
namespace {

bool aligned_to(const std::byte* p, uintptr_t to) { return reinterpret_cast<uintptr_t>(p) % to == 0; }

TEST(AlignedBuffer, AlignmentGrowsWithSize) {
  for (auto [bytes, alignment] : std::initializer_list<std::pair<int64_t, uintptr_t>>{
           {1, 64}, {100, 64}, {4096, 4096}, {(2 << 20) - 1, 4096}, {2 << 20, 2 << 20}, {(2 << 20) + 1, 2 << 20}}) {
    Result<AlignedBuffer> buffer = AlignedBuffer::allocate(bytes);
    ASSERT_TRUE(buffer.ok());
    EXPECT_TRUE(aligned_to(buffer->data(), alignment)) << bytes;
    EXPECT_EQ(buffer->size(), bytes);
    buffer->data()[0] = buffer->data()[bytes - 1] = std::byte{1};
  }
}

TEST(AlignedBuffer, EmptyHasNoMemory) {
  Result<AlignedBuffer> buffer = AlignedBuffer::allocate(0, Touch::kNow);
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(buffer->data(), nullptr);
  EXPECT_TRUE(buffer->empty());
}

// mmap would promise it, and the process would be killed while touching it.
TEST(AlignedBuffer, TouchNowRefusesMoreThanIsAvailable) {
  const int64_t available = available_memory("");
  if (available > int64_t{1} << 45) GTEST_SKIP() << "this system does not say how much memory is available";
  Result<AlignedBuffer> buffer = AlignedBuffer::allocate(available + (int64_t{1} << 35), Touch::kNow);
  ASSERT_FALSE(buffer.ok());
  EXPECT_EQ(buffer.status().code(), Code::kResourceExhausted);
  EXPECT_THAT(buffer.status().message(), testing::HasSubstr("GiB of memory are available"));
}

TEST(AlignedBuffer, TouchNowMakesPagesPresent) {
  constexpr int64_t kBytes = 4 << 20;
  Result<AlignedBuffer> buffer = AlignedBuffer::allocate(kBytes, Touch::kNow);
  ASSERT_TRUE(buffer.ok());
  std::vector<unsigned char> present(kBytes / 4096);
  ASSERT_EQ(mincore(buffer->data(), kBytes, present.data()), 0);
  for (unsigned char page : present) ASSERT_TRUE(page & 1);
}

TEST(AlignedBuffer, MoveTransfersOwnership) {
  AlignedBuffer a = AlignedBuffer::allocate(3 << 20).value();
  std::byte* data = a.data();
  AlignedBuffer b(std::move(a));
  EXPECT_EQ(b.data(), data);
  EXPECT_EQ(a.data(), nullptr);  // NOLINT: the moved-from state is part of the contract
  AlignedBuffer c = AlignedBuffer::allocate(64).value();
  c = std::move(b);
  EXPECT_EQ(c.data(), data);
  EXPECT_EQ(c.as<float>().size(), (3u << 20) / 4);
}

TEST(AlignedBuffer, AbsurdSizesAreRefusedByName) {
  for (int64_t bytes : {(int64_t{1} << 47) + 1, std::numeric_limits<int64_t>::max(), int64_t{1} << 47}) {
    Result<AlignedBuffer> buffer = AlignedBuffer::allocate(bytes);
    ASSERT_FALSE(buffer.ok()) << bytes;
    EXPECT_EQ(buffer.status().code(), Code::kResourceExhausted);
    EXPECT_THAT(buffer.status().message(), testing::HasSubstr(std::to_string(bytes)));
  }
  EXPECT_EQ(AlignedBuffer::allocate(-1).status().code(), Code::kInvalidArgument);
}

TEST(AlignedBuffer, ElementCountsDoNotOverflow) {
  Result<AlignedBuffer> buffer = AlignedBuffer::allocate_elements(int64_t{1} << 62, 4);
  ASSERT_FALSE(buffer.ok());
  EXPECT_EQ(buffer.status().code(), Code::kResourceExhausted);
  EXPECT_EQ(AlignedBuffer::allocate_elements(-1, 4).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(AlignedBuffer::allocate_elements(10, 4)->size(), 40);
}

}  // namespace
}  // namespace hone
