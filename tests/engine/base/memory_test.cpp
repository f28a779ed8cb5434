#include "engine/base/memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>

namespace hone {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kMiB = 1 << 20;

class BaseMemory : public testing::Test {
 protected:
  BaseMemory()
      : root_(fs::path(testing::TempDir()) / ("hone_memory_" + std::to_string(getpid()) +
                                              testing::UnitTest::GetInstance()->current_test_info()->name())) {}
  ~BaseMemory() override { fs::remove_all(root_); }

  void put(const std::string& path, const std::string& text) {
    const fs::path file = root_ / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  int64_t available() const { return available_memory(root_.string()); }

  fs::path root_;
};

TEST_F(BaseMemory, MachineThatSaysNothingHasNoLimit) {
  EXPECT_EQ(available(), std::numeric_limits<int64_t>::max());
  put("proc/meminfo", "MemTotal: 5 kB\nMemAvailable: soon\n");
  fs::create_directories(root_ / "proc/self/cgroup");  // a folder in the place of a file
  EXPECT_EQ(available(), std::numeric_limits<int64_t>::max());
}

TEST_F(BaseMemory, MemAvailableIsInKiB) {
  put("proc/meminfo", "MemTotal:       24000000 kB\nMemFree:  1 kB\nMemAvailable:     4096 kB\n");
  EXPECT_EQ(available(), 4 * kMiB);
}

TEST_F(BaseMemory, LimitOfAnAncestorBindsAndPageCacheIsFree) {
  put("proc/meminfo", "MemAvailable: 1048576 kB\n");
  put("proc/self/cgroup", "0::/pod/box\n");
  put("sys/fs/cgroup/pod/box/memory.max", "max\n");
  EXPECT_EQ(available(), 1024 * kMiB);
  put("sys/fs/cgroup/pod/memory.max", std::to_string(100 * kMiB) + "\n");
  put("sys/fs/cgroup/pod/memory.current", std::to_string(60 * kMiB) + "\n");
  EXPECT_EQ(available(), 40 * kMiB);
  put("sys/fs/cgroup/pod/memory.stat", "anon 5\ninactive_file " + std::to_string(50 * kMiB) + "\n");
  EXPECT_EQ(available(), 90 * kMiB);
}

TEST_F(BaseMemory, FirstVersionOfCgroups) {
  put("proc/self/cgroup", "3:cpu,cpuacct:/a\n7:memory:/a\n");
  put("sys/fs/cgroup/memory/a/memory.limit_in_bytes", std::to_string(10 * kMiB));
  put("sys/fs/cgroup/memory/a/memory.usage_in_bytes", std::to_string(12 * kMiB));
  EXPECT_EQ(available(), 0);
}

TEST(BaseMemoryHere, HasSome) { EXPECT_GT(available_memory(""), 0); }

}  // namespace
}  // namespace hone
