#include "engine/base/cpu_library.h"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <sstream>

namespace hone {
namespace {

constexpr std::array kLibrary = {
#define HONE_CPU_DESCRIPTION(name, json) CpuDescription{name, json},
#include "engine/base/cpu_library_data.inc"  // made by CMake
#undef HONE_CPU_DESCRIPTION
};

}  // namespace

std::span<const CpuDescription> cpu_library() { return kLibrary; }

Result<std::string> find_cpu_description(const std::string& name_or_path) {
  std::string names;
  for (const CpuDescription& cpu : kLibrary) {
    if (cpu.name == name_or_path) return std::string(cpu.json);
    names += fmt::format("{}{}", names.empty() ? "" : ", ", cpu.name);
  }
  std::ifstream file(name_or_path);
  std::ostringstream content;
  // Not by iterators: they throw for a folder, which can be opened but not read.
  if (file && content << file.rdbuf()) return content.str();
  return invalid_argument(
      fmt::format("cannot read this file, nor is it one of {}; give a JSON machine description or unset it", names));
}

}  // namespace hone
