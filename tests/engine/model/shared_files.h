// Files that are shared beside the source tree: real models and vocabularies. A test that needs one skips where they
// are missing.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace hone::test_files {

// "models/stories260K.gguf" -> a path; "" where the file is missing.
inline std::string shared_file(const std::string& name) {
  const std::filesystem::path path = std::filesystem::path(HONE_SOURCE_DIR).parent_path() / "shared" / name;
  return std::filesystem::exists(path) ? path.string() : "";
}

}  // namespace hone::test_files

#define HONE_SHARED_FILE(variable, name)                              \
  const std::string variable = ::hone::test_files::shared_file(name); \
  if (variable.empty()) GTEST_SKIP() << "there is no ../shared/" << name
