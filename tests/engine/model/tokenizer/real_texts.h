// The texts beside a real vocabulary, and the ids that its own tokenizer makes of them.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace hone::model::testing {

// PATH.inp has texts, each ended by a line of its own; PATH.out a line of ids for each.
template <typename Visit>
void each_real_text(const std::string& path, Visit visit) {
  std::ifstream inputs(path + ".inp", std::ios::binary), expected(path + ".out");
  std::ostringstream read;
  read << inputs.rdbuf();
  const std::string all = read.str(), end_of_text = "\n__ggml_vocab_test__\n";
  size_t count = 0, at = 0;
  for (std::string line; std::getline(expected, line); ++count) {
    const size_t end = all.find(end_of_text, at);
    ASSERT_NE(end, std::string::npos);
    std::istringstream numbers(line);
    std::vector<int32_t> ids;
    for (int32_t id; numbers >> id;) ids.push_back(id);
    visit(all.substr(at, end - at), ids);
    at = end + end_of_text.size();
  }
  EXPECT_EQ(at, all.size());
  EXPECT_GE(count, 40u);
}

}  // namespace hone::model::testing
