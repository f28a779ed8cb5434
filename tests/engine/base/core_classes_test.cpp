#include "engine/base/core_classes.h"

#include <gtest/gtest.h>

#include "tests/engine/base/fake_root.h"

namespace hone {
namespace {

TEST(CoreClasses, CountsCpuLists) {
  EXPECT_EQ(count_cpu_list("0-15\n"), 16);
  EXPECT_EQ(count_cpu_list("0-7,16,18-19"), 11);
  EXPECT_EQ(count_cpu_list("5"), 1);
  EXPECT_EQ(count_cpu_list(""), 0);
  EXPECT_EQ(count_cpu_list("\n"), 0);
  for (const char* wrong : {"a", "1-", "-3", "3-1", "1,,2", "1,", "0-99999999999", "0-9999999", "1;2", "0 1"})
    EXPECT_EQ(count_cpu_list(wrong), std::nullopt) << wrong;
}

using CoreClassesFiles = FakeRoot;

TEST_F(CoreClassesFiles, HybridCpu) {
  write("/sys/devices/system/cpu/online", "0-23\n");
  write("/sys/devices/cpu_core/cpus", "0-15\n");
  write("/sys/devices/cpu_atom/cpus", "16-23\n");
  EXPECT_EQ(read_core_classes(root_), (CoreClasses{.all = 24, .performance = 16, .efficient = 8, .source = "sysfs"}));
}

TEST_F(CoreClassesFiles, OneClass) {
  write("/sys/devices/system/cpu/online", "0-63\n");
  EXPECT_EQ(read_core_classes(root_), (CoreClasses{.all = 64, .performance = 0, .efficient = 0, .source = "sysfs"}));
  write("/sys/devices/cpu_core/cpus", "0-63\n");  // the efficient cores are switched off
  EXPECT_EQ(read_core_classes(root_).performance, 0);
}

TEST_F(CoreClassesFiles, NothingOrNonsense) {
  EXPECT_EQ(read_core_classes(root_), CoreClasses{});
  write("/sys/devices/system/cpu/online", "all of them\n");
  write("/sys/devices/cpu_core/cpus", "0-\n");
  write("/sys/devices/cpu_atom/cpus", "8-9\n");
  EXPECT_EQ(read_core_classes(root_), CoreClasses{});
}

}  // namespace
}  // namespace hone
