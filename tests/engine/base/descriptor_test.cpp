// A descriptor has one owner, and what is written arrives whole.
#include "engine/base/descriptor.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <thread>

namespace hone {
namespace {

bool is_open(int fd) { return fcntl(fd, F_GETFD) != -1; }

TEST(BaseDescriptor, ClosesOnceWhoeverHasIt) {
  int ends[2] = {};
  ASSERT_EQ(pipe(ends), 0);
  {
    Descriptor first(ends[0]);
    Descriptor second(std::move(first));
    EXPECT_EQ(first.get(), -1);
    Descriptor third(-1);
    third = std::move(second);
    EXPECT_EQ(third.get(), ends[0]);
    EXPECT_TRUE(is_open(ends[0]));
  }
  EXPECT_FALSE(is_open(ends[0]));
  Descriptor other(ends[1]);
  EXPECT_TRUE(other.close());
  EXPECT_FALSE(is_open(ends[1]));
  EXPECT_TRUE(other.close()) << "there is nothing left to close";
}

TEST(BaseDescriptor, WritesMoreThanAPipeHolds) {
  int ends[2] = {};
  ASSERT_EQ(pipe(ends), 0);
  const Descriptor in(ends[0]);
  Descriptor out(ends[1]);
  const std::string sent(1 << 20, 'x');
  size_t received = 0;
  std::thread reader([&] {
    std::string part(10'000, '\0');
    for (ssize_t got = 0; (got = read(in.get(), part.data(), part.size())) > 0;) received += static_cast<size_t>(got);
  });
  EXPECT_TRUE(write_all(out.get(), sent));
  out.close();
  reader.join();
  EXPECT_EQ(received, sent.size());
}

TEST(BaseDescriptor, AFullDiskIsSaid) {
  const Descriptor full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  if (full.get() < 0) GTEST_SKIP() << "there is no /dev/full";
  EXPECT_FALSE(write_all(full.get(), "x"));
  EXPECT_EQ(errno, ENOSPC);
}

}  // namespace
}  // namespace hone
