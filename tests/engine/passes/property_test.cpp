// Whatever graph is legal comes out of the passes legal and meaning the same, or is refused in one line.
#include <gtest/gtest.h>

#include "engine/graph/text.h"
#include "tests/engine/graph/random_graph.h"
#include "tests/engine/passes/exported.h"

namespace hone::passes {
namespace {

// Equal, both NaN, or within the rounding of sums in another order. +0 and -0 are equal: x + 0 is x.
bool same(const graph::Tensor& a, const graph::Tensor& b) {
  if (a.shape != b.shape || a.dtype != b.dtype) return false;
  if (a.dtype != DType::kF32) return a.data == b.data;
  const auto x = a.as<float>(), y = b.as<float>();
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    if (!(std::abs(x[i] - y[i]) <= 1e-5f * std::max(std::abs(x[i]), 1.0f))) return false;
  }
  return true;
}

// Of all values; random graphs may be larger than a test has time for.
double elements_of(const graph::Graph& g, const graph::Bindings& sizes) {
  double all = 0;
  for (const graph::NodeId id : g.order())
    for (const ValueId v : g.node(id).results) {
      double elements = 1;
      for (const Dim& d : g.value(v).type.dims) {
        const auto size = d.evaluate(sizes);
        elements *= size.ok() ? static_cast<double>(*size) : 1;
      }
      all += elements;
    }
  return all;
}

TEST(PassesProperty, RandomGraphsKeepTheirMeaning) {
  int compared = 0;
  for (uint64_t seed = 700; seed <= 1000; ++seed) {
    SCOPED_TRACE(seed);
    SCOPED_TRACE(seed);
    Random random(seed);
    Compilation c;
    c.graph = graph::random_graph(random, 25, seed % 3 != 0);
    const graph::Graph before = c.graph;
    RunOptions options;
    options.last = "schedule_annotation";
    const auto times = run_passes(c, options);
    if (!times.ok()) {
      EXPECT_NE(times.status().code(), Code::kInternal) << times.status().message() << "\n" << graph::print(before);
      EXPECT_EQ(times.status().message().find('\n'), std::string::npos);
      continue;
    }
    ASSERT_EQ(before.inputs().size(), c.graph.inputs().size());
    const graph::Bindings sizes = {{"s", 2}, {"t", 2}, {"p", 0}, {"d0", 2}, {"d1", 4}};
    std::vector<graph::Tensor> inputs;
    bool known = true;
    for (const ValueId v : c.graph.inputs()) {
      const TensorType& type = c.graph.value(v).type;
      std::vector<int64_t> shape;
      for (const Dim& d : type.dims) {
        const auto size = d.evaluate(sizes);
        known &= size.ok();
        shape.push_back(size.ok() ? *size : 1);
      }
      double elements = 1;
      for (const int64_t d : shape) elements *= static_cast<double>(d);
      known &= elements <= 1e6;
      if (!known) break;
      graph::Tensor t = graph::Tensor::make(type.dtype, shape);
      if (type.dtype == DType::kF32)
        for (float& f : t.as<float>()) f = random.uniform(-2, 2);
      inputs.push_back(std::move(t));
    }
    if (!known || elements_of(before, sizes) > 1e6) continue;
    graph::ReferenceState x, y;
    const auto a = graph::evaluate(before, inputs, &x), b = graph::evaluate(c.graph, inputs, &y);
    if (!a.ok()) continue;  // an index out of range
    ASSERT_TRUE(b.ok()) << b.status().message() << "\n" << graph::print(before) << print(c);
    ASSERT_EQ(a->size(), b->size());
    for (size_t i = 0; i < a->size(); ++i)
      ASSERT_TRUE(same((*a)[i], (*b)[i])) << "output " << i << "\n" << graph::print(before) << print(c);
    ++compared;
  }
  EXPECT_GT(compared, 80);
}

}  // namespace
}  // namespace hone::passes
