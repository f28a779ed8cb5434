#include "engine/base/env.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <limits>
#include <utility>

#include "engine/base/printable.h"

namespace hone {
namespace {

std::string trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(kBlanks) - first + 1));
}

}  // namespace

std::optional<std::string> env(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  std::string text = trim(value);
  if (text.empty()) return std::nullopt;
  return text;
}

ThreadSetting resolve_threads(const std::optional<std::string>& hone_threads, const Machine& machine) {
  const auto setting = [](int threads, std::string source) -> ThreadSetting {
    if (threads <= kMaxThreads) return {.threads = threads, .source = std::move(source)};
    return {.threads = kMaxThreads, .source = fmt::format("{}, more than {}", source, kMaxThreads)};
  };
  const std::string text = hone_threads ? trim(*hone_threads) : "";
  if (text.empty()) return setting(machine.cpus_usable, machine.cpus_source);
  int threads = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), threads);
  const bool number = end == text.data() + text.size() && text.front() != '-';
  if (number && error == std::errc::result_out_of_range) threads = std::numeric_limits<int>::max();
  if (number && threads > kMaxThreads) return setting(threads, "HONE_THREADS=" + printable(text));
  if (number && threads > 0) return setting(threads, "HONE_THREADS");
  return setting(machine.cpus_usable,
                 fmt::format("{} (HONE_THREADS={} is not a positive number)", machine.cpus_source, printable(text)));
}

ThreadSetting threads_in_force(const Machine& machine) { return resolve_threads(env("HONE_THREADS"), machine); }

}  // namespace hone
