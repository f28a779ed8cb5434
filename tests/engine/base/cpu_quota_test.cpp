#include "engine/base/cpu_quota.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/engine/base/fake_root.h"

namespace hone {
namespace {

TEST(CpuQuota, ParsesCpuMax) {
  EXPECT_DOUBLE_EQ(parse_cpu_max("400000 100000\n")->cpus, 4);
  EXPECT_DOUBLE_EQ(parse_cpu_max("765000 100000\n")->cpus, 7.65);
  EXPECT_EQ(parse_cpu_max("400000 100000\n")->cgroup_version, 2);
  EXPECT_FALSE(parse_cpu_max("max 100000\n").has_value());
  EXPECT_FALSE(parse_cpu_max("max").has_value());
  EXPECT_FALSE(parse_cpu_max("").has_value());
  EXPECT_FALSE(parse_cpu_max("400000 0").has_value());
  EXPECT_FALSE(parse_cpu_max("-1 100000").has_value());
  EXPECT_FALSE(parse_cpu_max("lots of nonsense").has_value());
}

TEST(CpuQuota, ParsesCfsQuota) {
  EXPECT_DOUBLE_EQ(parse_cfs_quota("400000\n", "100000\n")->cpus, 4);
  EXPECT_FALSE(parse_cfs_quota("-1\n", "100000\n").has_value());
  EXPECT_FALSE(parse_cfs_quota("", "").has_value());
  EXPECT_FALSE(parse_cfs_quota("400000", "").has_value());
}

// Case r2: a quota of 4 CPUs on a bigger machine gives 4; 7.65 gives 7.
TEST(CpuQuota, CaseR2QuotaLimits) {
  UsableCpus four = usable_cpus(64, parse_cpu_max("400000 100000"));
  EXPECT_EQ(four.count, 4);
  EXPECT_EQ(four.source, "cgroup2 quota 4");
  UsableCpus seven = usable_cpus(64, parse_cpu_max("765000 100000"));
  EXPECT_EQ(seven.count, 7);
  EXPECT_EQ(seven.source, "cgroup2 quota 7.65");
  EXPECT_EQ(usable_cpus(64, parse_cpu_max("max 100000")).count, 64);
}

TEST(CpuQuota, TheTighterOneDecidesAndOneIsTheLeast) {
  EXPECT_EQ(usable_cpus(2, parse_cpu_max("400000 100000")).count, 2);
  EXPECT_EQ(usable_cpus(2, parse_cpu_max("400000 100000")).source, "affinity");
  EXPECT_EQ(usable_cpus(8, parse_cfs_quota("50000", "100000")).count, 1);
  EXPECT_EQ(usable_cpus(8, parse_cfs_quota("50000", "100000")).source, "cgroup1 quota 0.5");
  EXPECT_EQ(usable_cpus(0, std::nullopt).count, 1);
}

using CpuQuotaFiles = FakeRoot;

TEST_F(CpuQuotaFiles, V2TakesTheTightestAncestor) {
  write("/proc/self/cgroup", "0::/slice/app\n");
  write("/sys/fs/cgroup/slice/app/cpu.max", "800000 100000\n");
  write("/sys/fs/cgroup/slice/cpu.max", "300000 100000\n");
  ASSERT_TRUE(read_cpu_quota(root_).has_value());
  EXPECT_DOUBLE_EQ(read_cpu_quota(root_)->cpus, 3);
}

TEST_F(CpuQuotaFiles, V2InAContainerSeesOnlyTheRoot) {
  write("/proc/self/cgroup", "0::/docker/0123\n");
  write("/sys/fs/cgroup/cpu.max", "150000 100000\n");
  ASSERT_TRUE(read_cpu_quota(root_).has_value());
  EXPECT_DOUBLE_EQ(read_cpu_quota(root_)->cpus, 1.5);
}

TEST_F(CpuQuotaFiles, V1JointControllers) {
  write("/proc/self/cgroup", "5:memory:/m\n3:cpu,cpuacct:/job\n0::/\n");
  write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "250000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  ASSERT_TRUE(read_cpu_quota(root_).has_value());
  EXPECT_DOUBLE_EQ(read_cpu_quota(root_)->cpus, 2.5);
  EXPECT_EQ(read_cpu_quota(root_)->cgroup_version, 1);
}

// Case r2, in a nested group of either version: 7.65 CPUs give 7 threads.
TEST_F(CpuQuotaFiles, CaseR2FractionalQuotaOfANestedGroup) {
  write("/proc/self/cgroup", "0::/a/b/c\n");
  write("/sys/fs/cgroup/a/cpu.max", "max 100000\n");
  write("/sys/fs/cgroup/a/b/cpu.max", "765000 100000\n");
  write("/sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n");
  EXPECT_EQ(usable_cpus(64, read_cpu_quota(root_)).count, 7);
  EXPECT_EQ(usable_cpus(64, read_cpu_quota(root_)).source, "cgroup2 quota 7.65");

  write("/proc/self/cgroup", "4:cpu,cpuacct:/x/y\n");
  write("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "382500\n");
  write("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "50000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/x/y/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/cpu,cpuacct/x/y/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(usable_cpus(64, read_cpu_quota(root_)).count, 7);
  EXPECT_EQ(usable_cpus(64, read_cpu_quota(root_)).source, "cgroup1 quota 7.65");
}

// Docker with v1: /proc has the host's path, the mount shows the container's own group as the root.
TEST_F(CpuQuotaFiles, V1InAContainerSeesOnlyTheRoot) {
  write("/proc/self/cgroup", "3:cpu,cpuacct:/docker/0123\n1:name=systemd:/docker/0123\n");
  write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  ASSERT_TRUE(read_cpu_quota(root_).has_value());
  EXPECT_DOUBLE_EQ(read_cpu_quota(root_)->cpus, 1.5);
}

// A cgroup namespace shows a process outside of its root as "/..".
TEST_F(CpuQuotaFiles, RootOfANamespaceAndPathsAboveIt) {
  write("/sys/fs/cgroup/cpu.max", "200000 100000\n");
  for (const char* line : {"0::/\n", "0::/../other\n"}) {
    write("/proc/self/cgroup", line);
    ASSERT_TRUE(read_cpu_quota(root_).has_value()) << line;
    EXPECT_DOUBLE_EQ(read_cpu_quota(root_)->cpus, 2) << line;
  }
}

TEST_F(CpuQuotaFiles, HybridMountsReadBothVersions) {
  write("/proc/self/cgroup", "2:cpu:/job\n0::/job\n");
  write("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "300000\n");
  write("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  write("/sys/fs/cgroup/unified/job/cpu.max", "max 100000\n");
  EXPECT_DOUBLE_EQ(read_cpu_quota(root_)->cpus, 3);
  write("/sys/fs/cgroup/unified/job/cpu.max", "100000 100000\n");
  EXPECT_DOUBLE_EQ(read_cpu_quota(root_)->cpus, 1);
}

TEST_F(CpuQuotaFiles, AQuotaWithoutAPeriodIsNone) {
  write("/proc/self/cgroup", "3:cpu:/\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n");
  EXPECT_FALSE(read_cpu_quota(root_).has_value());
  write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "0\n");
  EXPECT_FALSE(read_cpu_quota(root_).has_value());
}

TEST_F(CpuQuotaFiles, NoFilesNoLimit) {
  EXPECT_FALSE(read_cpu_quota(root_).has_value());
  write("/proc/self/cgroup", "nonsense\n::\n1:cpu:\n");
  EXPECT_FALSE(read_cpu_quota(root_).has_value());
}

// Case r3: an affinity mask of one CPU counts as one.
TEST(CpuQuota, CaseR3AffinityOfOneCpu) {
  int count = 0;
  std::thread([&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    ASSERT_EQ(sched_setaffinity(0, sizeof(set), &set), 0);
    count = affinity_cpus();
  }).join();
  EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace hone
