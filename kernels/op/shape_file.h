// Lists of problems to tune or to measure. One problem a line, ranges allowed, then white space and an optional weight
// (calls per token, default 1); # starts a comment. A line with a range gives all its problems the weight of the line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "kernels/op/op.h"

namespace hone::op {

struct Shape {
  Problem problem;
  double weight = 1;

  bool operator==(const Shape&) const = default;
};

// `name` stands before the line number in errors ("shapes.txt:3: ..."). A list without problems is an error.
Result<std::vector<Shape>> parse_shapes(std::string_view text, std::string_view name);
// Errors: not_found or invalid_argument naming the path.
Result<std::vector<Shape>> read_shape_file(const std::string& path);

// bench/shapes/decoder.txt as built in: what `hone tune` uses when no problem is given.
std::string_view default_shapes_text();
// The same of bench/shapes/codegen.txt, for `hone codegen`.
std::string_view codegen_shapes_text();

}  // namespace hone::op
