// Graphs that nobody would write, through the text and back: what can be exported is accepted again, and computes the
// same bits where every op is a primitive one.
#include "tests/engine/graph/random_graph.h"
#include "tests/engine/graph/stablehlo/stablehlo_testing.h"

namespace hone::graph::stablehlo {
namespace {

Tensor random_input(Random& random, const TensorType& type) {
  std::vector<int64_t> shape;
  for (const Dim& d : type.dims) shape.push_back(d.value());
  Tensor t = Tensor::make(type.dtype, std::move(shape));
  for (float& v : t.as<float>())
    if (type.dtype == DType::kF32) v = random.uniform(-2, 2);
  for (size_t i = 0; i < t.data.size(); ++i) {
    if (type.dtype == DType::kU8) t.data[i] = static_cast<std::byte>(random.below(2));
    if (type.dtype == DType::kS32 && i % 4 == 0) t.data[i] = static_cast<std::byte>(random.below(3));
  }
  return t;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype != b.dtype || a.shape != b.shape) return false;
  if (a.dtype != DType::kF32) return a.data == b.data;
  for (size_t i = 0; i < a.as<float>().size(); ++i) {
    const float x = a.as<float>()[i], y = b.as<float>()[i];
    if (!(std::isnan(x) && std::isnan(y)) && std::memcmp(&x, &y, sizeof x) != 0) return false;
  }
  return true;
}

bool is_primitive(const Graph& graph) {
  for (const NodeId id : graph.order())
    if (graph.node(id).op > OpKind::top_k) return false;
  return true;
}

TEST(StablehloProperty, ExportsComeBack) {
  int exported = 0, compared = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const Graph graph = random_graph(random, random.chance(50) ? 3 : 12, true);
    const Bindings sizes{{"s", random.between(1, 4)}, {"t", 2 * random.between(1, 4)}};
    const Result<std::string> text = export_stablehlo(graph, {.sizes = sizes});
    if (!text.ok()) {
      EXPECT_EQ(std::string(text.status().message()).find('\n'), std::string::npos);
      continue;
    }
    ++exported;
    const Result<Graph> again = import_stablehlo(*text);
    ASSERT_TRUE(again.ok()) << again.status().message() << "\n" << *text << print(graph);
    if (!is_primitive(graph) || !graph.position.empty()) continue;
    std::vector<Tensor> inputs;
    for (const ValueId v : again->inputs()) inputs.push_back(random_input(random, again->value(v).type));
    const Result<std::vector<Tensor>> expected = evaluate(graph, inputs, nullptr);
    if (!expected.ok()) continue;  // an index out of range
    ++compared;
    const std::vector<Tensor> got = evaluate_or_throw(*again, inputs);
    ASSERT_EQ(got.size(), expected->size());
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_TRUE(same_bits(got[i], (*expected)[i])) << i << "\n" << *text << print(graph);
  }
  EXPECT_GT(exported, 100);
  EXPECT_GT(compared, 30);
}

}  // namespace
}  // namespace hone::graph::stablehlo
