// Graphs as text, evaluated; random tensors.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/base/random.h"
#include "engine/graph/reference.h"
#include "engine/graph/text.h"

namespace hone::graph {

// "%y = neg(%x) : f32[2]", .. into a graph whose outputs are `outputs`.
inline Result<Graph> graph_of(const std::string& body, const std::string& outputs) {
  return parse("graph @g {\nsymbol s in 0..64\n" + body + "\noutput " + outputs + "\n}");
}

// The outputs; a failure of the test when there are none.
inline std::vector<Tensor> outputs_of(const Graph& graph, const std::vector<Tensor>& inputs,
                                      ReferenceState* state = nullptr) {
  Result<std::vector<Tensor>> outputs = evaluate(graph, inputs, state);
  EXPECT_TRUE(outputs.ok()) << outputs.status().message();
  if (!outputs.ok()) return std::vector<Tensor>(graph.outputs().size());
  return std::move(*outputs);
}

inline Tensor run(const std::string& body, const std::string& output, const std::vector<Tensor>& inputs) {
  const Result<Graph> graph = graph_of(body, output);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return graph.ok() ? outputs_of(*graph, inputs)[0] : Tensor();
}

inline std::string error_of(const std::string& body, const std::string& output, const std::vector<Tensor>& inputs) {
  const Result<Graph> graph = graph_of(body, output);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  if (!graph.ok()) return "";
  const Result<std::vector<Tensor>> outputs = evaluate(*graph, inputs, nullptr);
  return outputs.ok() ? "no error" : outputs.status().message();
}

inline Tensor random_tensor(Random& random, std::vector<int64_t> shape, float range = 1) {
  Tensor t = Tensor::make(DType::kF32, std::move(shape));
  for (float& v : t.as<float>()) v = random.uniform(-range, range);
  return t;
}

inline Tensor f32(std::vector<int64_t> shape, std::vector<float> elements) {
  return Tensor::f32(std::move(shape), elements);
}
inline Tensor s32(std::vector<int64_t> shape, std::vector<int32_t> elements) {
  return Tensor::s32(std::move(shape), elements);
}
inline std::vector<float> floats(const Tensor& t) { return {t.as<float>().begin(), t.as<float>().end()}; }
inline std::vector<int32_t> ints(const Tensor& t) { return {t.as<int32_t>().begin(), t.as<int32_t>().end()}; }
inline std::vector<int> bytes(const Tensor& t) { return {t.as<uint8_t>().begin(), t.as<uint8_t>().end()}; }

// Every element within `bound` of what f64 arithmetic gives.
inline void expect_near(const Tensor& t, const std::vector<double>& expected, double bound) {
  ASSERT_EQ(t.as<float>().size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_FALSE(std::isnan(t.as<float>()[i])) << i;
    ASSERT_NEAR(t.as<float>()[i], expected[i], bound) << i;
  }
}

}  // namespace hone::graph
