#include "engine/base/cpu_quota.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

namespace hone {
namespace {

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    size_t end = text.find_first_of(separators);
    if (end != 0) parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return parts;
}

std::optional<int64_t> parse_positive(std::string_view text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value <= 0) return std::nullopt;
  return value;
}

std::optional<CpuQuota> quota_of(std::string_view quota, std::string_view period, int version) {
  std::optional<int64_t> q = parse_positive(quota), p = parse_positive(period);
  if (!q || !p) return std::nullopt;
  return CpuQuota{.cpus = static_cast<double>(*q) / static_cast<double>(*p), .cgroup_version = version};
}

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void keep_tightest(std::optional<CpuQuota>& tightest, const std::optional<CpuQuota>& quota) {
  if (quota && (!tightest || quota->cpus < tightest->cpus)) tightest = quota;
}

// Calls read(folder) for mount + path and every ancestor down to the mount. A container often sees its own cgroup
// mounted as the root while /proc still shows the host's path: folders that do not exist simply have no limit.
template <typename Read>
void walk_up(const std::string& mount, std::string path, Read read) {
  while (true) {
    read(mount + path + "/");
    size_t slash = path.find_last_of('/');
    if (slash == std::string::npos) return;
    path.resize(slash);
  }
}

}  // namespace

std::optional<CpuQuota> parse_cpu_max(std::string_view cpu_max) {
  std::vector<std::string_view> parts = split(cpu_max, " \t\n");
  if (parts.empty()) return std::nullopt;
  return quota_of(parts[0], parts.size() > 1 ? parts[1] : "100000", 2);
}

std::optional<CpuQuota> parse_cfs_quota(std::string_view quota_us, std::string_view period_us) {
  std::vector<std::string_view> quota = split(quota_us, " \t\n"), period = split(period_us, " \t\n");
  if (quota.size() != 1 || period.size() != 1) return std::nullopt;
  return quota_of(quota[0], period[0], 1);
}

UsableCpus usable_cpus(int affinity, const std::optional<CpuQuota>& quota) {
  affinity = std::max(affinity, 1);
  if (!quota || quota->cpus >= affinity) return {.count = affinity, .source = "affinity"};
  return {.count = std::max(1, static_cast<int>(std::floor(quota->cpus))),
          .source = fmt::format("cgroup{} quota {:.6g}", quota->cgroup_version, quota->cpus)};
}

std::optional<CpuQuota> read_cpu_quota(const std::string& root) {
  std::optional<CpuQuota> tightest;
  auto read_v2 = [&](const std::string& folder) {
    keep_tightest(tightest, parse_cpu_max(read_file(folder + "cpu.max")));
  };
  auto read_v1 = [&](const std::string& folder) {
    keep_tightest(tightest,
                  parse_cfs_quota(read_file(folder + "cpu.cfs_quota_us"), read_file(folder + "cpu.cfs_period_us")));
  };
  // Lines are "id:controllers:path"; v2's is "0::path".
  std::string cgroups = read_file(root + "/proc/self/cgroup");
  for (std::string_view line : split(cgroups, "\n")) {
    size_t first = line.find(':');
    size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    std::string_view controllers = line.substr(first + 1, second - first - 1);
    std::string path(line.substr(second + 1));
    if (path == "/") path.clear();
    if (controllers.empty()) {
      walk_up(root + "/sys/fs/cgroup", path, read_v2);
      walk_up(root + "/sys/fs/cgroup/unified", path, read_v2);
    }
    std::vector<std::string_view> names = split(controllers, ",");
    if (std::find(names.begin(), names.end(), "cpu") == names.end()) continue;
    walk_up(root + "/sys/fs/cgroup/" + std::string(controllers), path, read_v1);
    if (names.size() > 1) walk_up(root + "/sys/fs/cgroup/cpu", path, read_v1);
  }
  return tightest;
}

int affinity_cpus() {
  // A mask of 1024 CPUs is refused with EINVAL on a machine that has more, so grow until the kernel's fits.
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
    cpu_set_t* set = CPU_ALLOC(cpus);
    if (set == nullptr) break;
    size_t bytes = CPU_ALLOC_SIZE(cpus);
    bool read = sched_getaffinity(0, bytes, set) == 0;
    int count = read ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (read) return std::max(count, 1);
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace hone
