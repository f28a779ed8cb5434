// Modules of files, graphs of them, and what the reference makes of those.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "engine/graph/reference.h"
#include "engine/graph/stablehlo/export.h"
#include "engine/graph/stablehlo/import.h"
#include "engine/graph/text.h"
#include "tests/engine/graph/stablehlo/naive.h"

namespace hone::graph::stablehlo {

inline std::string module_text(const std::string& name) {
  std::ifstream in(HONE_MODULES "/" + name + ".mlir");
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_FALSE(text.str().empty()) << name;
  return text.str();
}

// Ends the test where there is none.
inline Graph import_or_throw(const std::string& text, const ImportOptions& options = {}) {
  Result<Graph> graph = import_stablehlo(text, options);
  if (!graph.ok()) throw std::runtime_error(std::string(graph.status().message()));
  return std::move(graph).value();
}
inline std::string export_or_throw(const Graph& graph, const ExportOptions& options = {}) {
  Result<std::string> text = export_stablehlo(graph, options);
  if (!text.ok()) throw std::runtime_error(std::string(text.status().message()));
  return std::move(text).value();
}
inline std::vector<Tensor> evaluate_or_throw(const Graph& graph, const std::vector<Tensor>& inputs,
                                             ReferenceState* state = nullptr) {
  Result<std::vector<Tensor>> outputs = evaluate(graph, inputs, state);
  if (!outputs.ok()) throw std::runtime_error(std::string(outputs.status().message()));
  return std::move(outputs).value();
}

// Element i of the input: in [-0.75, 0.75], exact.
inline double input_at(int64_t i) { return static_cast<double>((i * 5 + 3) % 13 - 6) / 8; }
inline Tensor input(std::vector<int64_t> shape) {
  Tensor t = Tensor::make(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < t.elements(); ++i) t.as<float>()[static_cast<size_t>(i)] = static_cast<float>(input_at(i));
  return t;
}
inline naive::Rows input_rows(int64_t rows, int64_t columns) { return naive::rows_of(rows, columns, input_at); }

// Within `roundings` of f32 at values of size `scale`: what a chain of so many operations, each off by at most half an
// ulp of a value no larger than that, can be away from the same in double.
inline void expect_near(const Tensor& got, const naive::Rows& expected, double roundings, double scale) {
  const double bound = roundings * scale * std::ldexp(1, -24);
  ASSERT_EQ(got.elements(), static_cast<int64_t>(expected.size() * expected[0].size()));
  for (size_t i = 0; i < expected.size(); ++i)
    for (size_t j = 0; j < expected[i].size(); ++j) {
      const float v = got.as<float>()[i * expected[i].size() + j];
      ASSERT_FALSE(std::isnan(v)) << i << ", " << j;
      ASSERT_NEAR(v, expected[i][j], bound) << "element " << i << ", " << j;
    }
}

}  // namespace hone::graph::stablehlo
