// A folder of its own for each test that runs the binary, gone when the test is over.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace hone::cli_test {

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

class Scratch : public testing::Test {
 protected:
  Scratch() {
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    scratch_ = std::filesystem::path(testing::TempDir()) /
               ("hone_" + std::to_string(getpid()) + "_" + test.test_suite_name() + "_" + test.name());
    std::filesystem::remove_all(scratch_);
    std::filesystem::create_directories(scratch_);
  }
  ~Scratch() override { std::filesystem::remove_all(scratch_); }

  std::string file(const std::string& name) const { return (scratch_ / name).string(); }
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(file(name), std::ios::binary) << content;
    return file(name);
  }

  std::filesystem::path scratch_;
};

}  // namespace hone::cli_test
