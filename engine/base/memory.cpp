// See memory.h. A cgroup's usage counts its page cache, most of which is dropped when memory runs short; what the
// kernel calls inactive_file is taken off, as `kubectl top` and `docker stats` do, so that having read a model does not
// count.
#include "engine/base/memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <sstream>
#include <string_view>

namespace hone {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream out;
  if (in) out << in.rdbuf();  // a folder or a read error leaves it empty, which is "does not say"
  return out.str();
}

// The number after `key` at the start of a line; `otherwise` when there is none or it is not a number ("max").
int64_t number_after(std::string_view text, std::string_view key, int64_t otherwise) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (!line.starts_with(key)) continue;
    line.remove_prefix(key.size());
    while (line.starts_with(' ')) line.remove_prefix(1);
    int64_t value = 0;
    const auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), value);
    return error == std::errc() && value >= 0 ? value : otherwise;
  }
  return otherwise;
}

struct Names {
  const char *limit, *usage, *droppable;
};
constexpr Names kV2{"memory.max", "memory.current", "inactive_file "};
constexpr Names kV1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "};

int64_t left_in(const std::string& folder, const Names& names) {
  const int64_t limit = number_after(read_file(folder + names.limit), "", kUnlimited);
  if (limit == kUnlimited) return kUnlimited;
  const int64_t usage = number_after(read_file(folder + names.usage), "", 0);
  const int64_t droppable = number_after(read_file(folder + "memory.stat"), names.droppable, 0);
  return std::max<int64_t>(limit - std::max<int64_t>(usage - droppable, 0), 0);
}

// A limit on any ancestor binds. A container often sees its own cgroup mounted as the root while /proc still shows the
// host's path: folders that do not exist say nothing.
int64_t left_on_the_way_up(const std::string& mount, std::string path, const Names& names) {
  int64_t least = kUnlimited;
  while (true) {
    least = std::min(least, left_in(mount + path + "/", names));
    const size_t slash = path.find_last_of('/');
    if (slash == std::string::npos) return least;
    path.resize(slash);
  }
}

}  // namespace

int64_t available_memory(const std::string& root) {
  const int64_t kib = number_after(read_file(root + "/proc/meminfo"), "MemAvailable:", kUnlimited);
  int64_t least = kib > kUnlimited / 1024 ? kUnlimited : kib * 1024;
  // Lines are "id:controllers:path"; v2's is "0::path".
  std::istringstream groups(read_file(root + "/proc/self/cgroup"));
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (controllers.empty()) least = std::min(least, left_on_the_way_up(root + "/sys/fs/cgroup", path, kV2));
    if (controllers == "memory") least = std::min(least, left_on_the_way_up(root + "/sys/fs/cgroup/memory", path, kV1));
  }
  return least;
}

}  // namespace hone
