// What every refusal of a command looks like: nothing on stdout, then one line that says what is wrong and one that
// repeats it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/tools/run_hone.h"
#include "tests/tools/scratch.h"

namespace hone::cli_test {

inline void expect_refused(const Outcome& o, int code, const std::string& what) {
  EXPECT_EQ(o.code, code) << o.err;
  EXPECT_THAT(o.out, testing::IsEmpty());
  const std::vector<std::string> lines = lines_of(o.err);
  ASSERT_GE(lines.size(), 2u) << o.err;
  EXPECT_THAT(lines[lines.size() - 2], testing::AllOf(testing::StartsWith("hone: error: "), testing::HasSubstr(what)));
  EXPECT_THAT(lines.back(), testing::StartsWith("hone: repeat: "));
}

}  // namespace hone::cli_test
