// Lists of problems: comments, weights, ranges, errors with file and line, and the list that is built in.
#include "kernels/op/shape_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

namespace hone::op {
namespace {

using testing::HasSubstr;

TEST(OpShapeFile, CommentsWeightsAndRanges) {
  const auto shapes = parse_shapes(
      "# header\n"
      "\n"
      "matmul:f32:m=1,n=2,k=3\r\n"
      "  matmul:f32:m={4,5},n=2,k=3:+relu \t 2.5   # twice\n"
      "matmul:f32:m=6,n=2,k=3 1e3",
      "list");
  ASSERT_TRUE(shapes.ok()) << shapes.status().to_string();
  ASSERT_EQ(shapes->size(), 4u);
  EXPECT_EQ(to_string((*shapes)[0].problem), "matmul:f32:m=1,n=2,k=3");
  EXPECT_EQ((*shapes)[0].weight, 1);
  EXPECT_EQ(to_string((*shapes)[2].problem), "matmul:f32:m=5,n=2,k=3:+relu");
  EXPECT_EQ((*shapes)[1].weight, 2.5);
  EXPECT_EQ((*shapes)[2].weight, 2.5);
  EXPECT_EQ((*shapes)[3].weight, 1000);
}

TEST(OpShapeFile, ErrorsNameFileAndLine) {
  const std::pair<std::string, std::string> cases[] = {
      {"# nothing\n\n", "list: no problems in it"},
      {"", "list: no problems in it"},
      {"matmul:f32:m=1,n=2,k=3\nmatmul:f32:m=1,n=2\n", "list:2: problem 'matmul:f32:m=1,n=2': key 'k' is missing"},
      {"\n\nmatmul:f32:m=1,n=2,k=3 heavy", "list:3: the weight after the problem must be a positive number"},
      {"matmul:f32:m=1,n=2,k=3 -1", "list:1: the weight"},
      {"matmul:f32:m=1,n=2,k=3 0", "list:1: the weight"},
      {"matmul:f32:m=1,n=2,k=3 nan", "list:1: the weight"},
      {"matmul:f32:m=1,n=2,k=3 1 2", "list:1: expected one problem and at most one weight"},
      {"matmul:f32:m=1-60000,n=2,k=3\nmatmul:f32:m=1-60000,n=2,k=3", "list:2: more than 100000 problems in one list"},
      {std::string("\0\xff", 2), "list:1: problem '\\x00\\xff': op"},
  };
  for (const auto& [text, what] : cases) {
    const auto shapes = parse_shapes(text, "list");
    ASSERT_FALSE(shapes.ok()) << text;
    EXPECT_THAT(shapes.status().message(), HasSubstr(what));
    EXPECT_EQ(shapes.status().message().find('\n'), std::string::npos);
  }
}

TEST(OpShapeFile, ReadsFilesAndExplainsFailures) {
  const std::filesystem::path folder = testing::TempDir();
  const std::string path = (folder / "hone_shape_file_test.txt").string();
  std::ofstream(path) << "matmul:f32:m=1,n=2,k=3 7\n";
  const auto shapes = read_shape_file(path);
  ASSERT_TRUE(shapes.ok()) << shapes.status().to_string();
  EXPECT_EQ(shapes->front().weight, 7);
  std::filesystem::remove(path);
  EXPECT_EQ(read_shape_file(path).status().code(), Code::kNotFound);
  EXPECT_THAT(read_shape_file(path).status().message(), HasSubstr(path));
  EXPECT_THAT(read_shape_file(folder.string()).status().message(), HasSubstr("is a folder"));
}

TEST(OpShapeFile, DefaultListParses) {
  const auto shapes = parse_shapes(default_shapes_text(), "default");
  ASSERT_TRUE(shapes.ok()) << shapes.status().to_string();
  EXPECT_GE(shapes->size(), 8u);
  EXPECT_LE(shapes->size(), 10u);
  bool decode = false, prefill = false;
  for (const Shape& s : *shapes) {
    const auto& p = std::get<matmul::MatmulProblem>(s.problem);
    EXPECT_EQ(p.b, matmul::BLayout::kPacked);
    (p.m == 1 ? decode : prefill) = true;
  }
  EXPECT_TRUE(decode && prefill);
}

// Every list of bench/shapes is one that tune and bench take, without a problem twice.
TEST(OpShapeFile, ShippedListsParse) {
  const std::map<std::string, size_t> sizes = {
      {"llm", 90}, {"square", 13}, {"odd", 12}, {"large", 11}, {"codegen", 26}};
  for (const auto& [name, size] : sizes) {
    const auto shapes = read_shape_file(std::string(HONE_SOURCE_DIR "/bench/shapes/") + name + ".txt");
    ASSERT_TRUE(shapes.ok()) << shapes.status().to_string();
    std::set<std::string> problems;
    for (const Shape& s : *shapes) problems.insert(to_string(s.problem));
    EXPECT_EQ(problems.size(), size) << name;
    EXPECT_EQ(shapes->size(), size) << name;
  }
}

}  // namespace
}  // namespace hone::op
