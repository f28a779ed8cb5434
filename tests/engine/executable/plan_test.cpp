// A compiled graph against the eager reference, at every position, however the tokens are cut into calls.
#include "engine/executable/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/passes/pass.h"
#include "tests/engine/executable/decoder_graphs.h"

namespace hone::executable {
namespace {

using graph::Graph;
using graph::Tensor;
using testing::HasSubstr;

Result<ExecutablePlan> compiled(const Graph& graph, const EngineOptions& options = {.use_database = false},
                                const passes::PlanPolicy& policy = {}) {
  passes::Compilation c;
  c.graph = graph;
  c.policy = policy;
  HONE_RETURN_IF_ERROR(passes::run_passes(c).status());
  HONE_ASSIGN_OR_RETURN(const Engine engine, Engine::create(options));
  return ExecutablePlan::create(engine, std::move(c));
}

// One call with one input and one output.
Result<Tensor> call(Session& session, const Tensor& x) {
  const InputTensor in{x.data.data(), x.shape};
  HONE_ASSIGN_OR_RETURN(const auto shapes, session.output_shapes({&in, 1}));
  Tensor y = Tensor::make(DType::kF32, shapes[0]);
  const OutputTensor out{y.data.data(), static_cast<int64_t>(y.data.size())};
  HONE_RETURN_IF_ERROR(session.run({&in, 1}, {&out, 1}));
  return y;
}

Tensor rows_of(const Tensor& x, int64_t begin, int64_t end) {
  const int64_t width = x.shape[1];
  return Tensor::f32({end - begin, width}, x.as<float>().subspan(static_cast<size_t>(begin * width),
                                                                 static_cast<size_t>((end - begin) * width)));
}

// Rows of the eager reference, all tokens at once.
Tensor eager(const Graph& graph, const Tensor& x) {
  graph::ReferenceState state;
  Result<std::vector<Tensor>> y = graph::evaluate(graph, {&x, 1}, &state);
  EXPECT_TRUE(y.ok()) << y.status().message();
  return y.ok() ? y->front() : Tensor();
}

void expect_equal_in_cuts(const Graph& graph, ExecutablePlan& plan, const Tensor& x, const std::vector<int64_t>& cuts) {
  const Tensor want = eager(graph, x);
  Result<Session> session = plan.session();
  ASSERT_TRUE(session.ok()) << session.status().message();
  int64_t at = 0;
  for (const int64_t cut : cuts) {
    const Result<Tensor> got = call(*session, rows_of(x, at, at + cut));
    ASSERT_TRUE(got.ok()) << got.status().message();
    ASSERT_EQ(*got, rows_of(want, at, at + cut)) << "rows " << at << " to " << at + cut;
    at += cut;
    EXPECT_EQ(session->position(), at);
  }
}

const std::vector<std::vector<int64_t>> kCuts = {
    {19}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {7, 1, 8, 1, 2}, {18, 1}};

TEST(ExecutablePlan, EqualsTheEagerReferenceAtEveryPosition) {
  for (const std::string rope : {"half", "interleaved"}) {
    const Graph graph = decoder_layer({.rope = rope});
    Result<ExecutablePlan> plan = compiled(graph);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    const Tensor x = random_rows(19, 64, 5);
    for (const auto& cuts : kCuts) expect_equal_in_cuts(graph, *plan, x, cuts);
  }
}

}  // namespace
}  // namespace hone::executable
