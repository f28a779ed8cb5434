#include "engine/base/cpu_library.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <filesystem>
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
  // A folder, a device or a pipe is no description, and some of them never end.
  std::error_code error;
  constexpr std::uintmax_t kMostBytes = 1 << 20;
  if (std::filesystem::is_regular_file(name_or_path, error) &&
      std::filesystem::file_size(name_or_path, error) <= kMostBytes) {
    std::ifstream file(name_or_path);
    std::ostringstream content;
    if (file && content << file.rdbuf()) return content.str();
  }
  return invalid_argument(
      fmt::format("cannot read this file, nor is it one of {}; give a JSON machine description or unset it", names));
}

}  // namespace hone
