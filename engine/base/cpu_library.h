// Descriptions of real CPUs, for HONE_CPU=name: "what would be chosen on that machine". The texts are cpus/*.json,
// embedded when hone is built; each says in "source" which machine it is and where its numbers are published.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace hone {

struct CpuDescription {
  std::string_view name;  // of the file, without .json
  std::string_view json;
};
std::span<const CpuDescription> cpu_library();  // by name

// The description that a value of HONE_CPU stands for: a name of the library, else the content of the file of that
// name. Error: invalid_argument, naming the library's names or the file.
Result<std::string> find_cpu_description(const std::string& name_or_path);

}  // namespace hone
