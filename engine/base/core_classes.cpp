#include "engine/base/core_classes.h"

#include <charconv>
#include <fstream>
#include <iterator>

namespace hone {
namespace {

// CPUs 0 .. 2^20: what the largest kernels have, far below an overflow of the sum.
constexpr int kMaxCpu = 1 << 20;

std::optional<int> take_number(std::string_view& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0 || value > kMaxCpu) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

int count_file(const std::string& path) {
  std::ifstream file(path);
  return count_cpu_list(std::string(std::istreambuf_iterator<char>(file), {})).value_or(0);
}

}  // namespace

std::optional<int> count_cpu_list(std::string_view list) {
  while (!list.empty() && (list.back() == '\n' || list.back() == ' ')) list.remove_suffix(1);
  int count = 0;
  while (!list.empty()) {
    const std::optional<int> first = take_number(list);
    if (!first) return std::nullopt;
    std::optional<int> last = first;
    if (list.starts_with('-')) {
      list.remove_prefix(1);
      last = take_number(list);
    }
    if (!last || *last < *first) return std::nullopt;
    count += *last - *first + 1;
    if (list.empty()) break;
    if (!list.starts_with(',') || list.size() == 1 || count > kMaxCpu) return std::nullopt;
    list.remove_prefix(1);
  }
  return count;
}

CoreClasses read_core_classes(const std::string& root) {
  CoreClasses classes{.all = count_file(root + "/sys/devices/system/cpu/online"),
                      .performance = count_file(root + "/sys/devices/cpu_core/cpus"),
                      .efficient = count_file(root + "/sys/devices/cpu_atom/cpus")};
  // One list alone separates nothing: the other class is switched off.
  if (classes.performance == 0 || classes.efficient == 0) classes.performance = classes.efficient = 0;
  if (classes.all > 0 || classes.performance > 0) classes.source = "sysfs";
  return classes;
}

}  // namespace hone
