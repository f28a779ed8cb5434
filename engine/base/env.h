// Environment variables, validated in one place. A blank variable is an unset one.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/base/machine.h"

namespace hone {

// The trimmed value of `name`; nullopt when unset or blank.
std::optional<std::string> env(const char* name);

// More threads than this serve nobody, and are refused or cut to it wherever a number of threads comes from outside.
inline constexpr int kMaxThreads = 1024;

// The number of threads in force and where it came from, as `hone info` shows them.
struct ThreadSetting {
  int threads = 1;  // at most kMaxThreads
  // "HONE_THREADS", "affinity", "affinity (HONE_THREADS=abc is not a positive number)", "HONE_THREADS=100000, more than
  // 4096"
  std::string source;
};

// HONE_THREADS when it is a positive number, else machine.cpus_usable; more than the usable CPUs is allowed.
// `hone_threads` is the variable's value (nullopt: unset).
ThreadSetting resolve_threads(const std::optional<std::string>& hone_threads, const Machine& machine);
// The same, reading the environment.
ThreadSetting threads_in_force(const Machine& machine);

}  // namespace hone
