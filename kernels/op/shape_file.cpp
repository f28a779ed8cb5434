// See shape_file.h.
#include "kernels/op/shape_file.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "kernels/text/problem_text.h"

namespace hone::op {
namespace {

constexpr std::string_view kSpace = " \t\r\v\f";

// Cuts the first word off `line`.
std::string_view next_word(std::string_view* line) {
  line->remove_prefix(std::min(line->find_first_not_of(kSpace), line->size()));
  const std::string_view word = line->substr(0, line->find_first_of(kSpace));
  line->remove_prefix(word.size());
  return word;
}

Status add_line(std::string_view line, std::vector<Shape>* shapes) {
  const std::string_view problem = next_word(&line);
  if (problem.empty()) return {};
  const std::string_view weight_text = next_word(&line);
  double weight = 1;
  if (!weight_text.empty()) {
    const char* end = weight_text.data() + weight_text.size();
    const auto [ptr, ec] = std::from_chars(weight_text.data(), end, weight);
    if (ec != std::errc() || ptr != end || !std::isfinite(weight) || weight <= 0) {
      return invalid_argument("the weight after the problem must be a positive number");
    }
  }
  if (!next_word(&line).empty()) return invalid_argument("expected one problem and at most one weight on a line");
  HONE_ASSIGN_OR_RETURN(std::vector<Problem> problems, parse_problems(problem));
  if (static_cast<int64_t>(shapes->size() + problems.size()) > text::kMaxProblems) {
    return invalid_argument(fmt::format("more than {} problems in one list", text::kMaxProblems));
  }
  for (Problem& p : problems) shapes->push_back({std::move(p), weight});
  return {};
}

}  // namespace

Result<std::vector<Shape>> parse_shapes(std::string_view text, std::string_view name) {
  std::vector<Shape> shapes;
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    line = line.substr(0, line.find('#'));
    if (Status s = add_line(line, &shapes); !s.ok()) {
      return Status(s.code(), fmt::format("{}:{}: {}", name, number, s.message()));
    }
  }
  if (shapes.empty()) return invalid_argument(fmt::format("{}: no problems in it; write one a line", name));
  return shapes;
}

Result<std::vector<Shape>> read_shape_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return not_found(fmt::format("shape file '{}' does not exist", path));
  if (std::filesystem::is_directory(path, error)) {
    return invalid_argument(fmt::format("'{}' is a folder; a shape file is wanted", path));
  }
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in || in.bad()) return invalid_argument(fmt::format("shape file '{}' cannot be read", path));
  return parse_shapes(text, path);
}

}  // namespace hone::op
