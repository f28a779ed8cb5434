// How many CPUs may this process use? The affinity mask and the cgroup's CPU quota both limit it, and containers are
// limited by either. Deciding is a pure function; reading the files takes the root of the file system as an argument.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hone {

struct CpuQuota {
  double cpus = 0;
  int cgroup_version = 0;  // 1 or 2
};

// Content of cgroup v2's cpu.max: "400000 100000" is 4 CPUs; "max 100000", blank or nonsense is no limit.
std::optional<CpuQuota> parse_cpu_max(std::string_view cpu_max);
// Contents of cgroup v1's cpu.cfs_quota_us and cpu.cfs_period_us; a quota of -1 is no limit.
std::optional<CpuQuota> parse_cfs_quota(std::string_view quota_us, std::string_view period_us);

struct UsableCpus {
  int count = 1;
  std::string source;
};
// floor(min(affinity, quota)), at least 1; source is whichever decided: "affinity" or "cgroup2 quota 7.65".
UsableCpus usable_cpus(int affinity, const std::optional<CpuQuota>& quota);

// The tightest quota among this process's cgroup and its ancestors (a limit on any of them binds). `root` is "" for the
// running system.
std::optional<CpuQuota> read_cpu_quota(const std::string& root);

// CPUs in this process's affinity mask; at least 1.
int affinity_cpus();

}  // namespace hone
